"""One classification, step by step: `render.judgement.steps` is the order, the other rooms are the steps."""
