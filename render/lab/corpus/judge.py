"""Runs one case through `render.classify`, exactly as a user would: nothing of the ground truth is passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from render.lab.corpus import device_models
from render.lab.corpus.case import CorpusCase

if TYPE_CHECKING:
    from render.result.verdict import Verdict


def judge(case: CorpusCase, device_output: bool = True, small: bool = False, **settings: Any) -> Verdict:
    """The verdict on `case`, at its published size, with its device output or (`source-level`) without it."""
    from render.classify import classify
    from render.entry.inputs import Inputs

    module = case.load()
    inputs: Inputs = case.inputs(module, small)
    output = device_models.generate(case, module, inputs) if device_output else None
    return classify(
        case.entry(module), *inputs.args, ref=case.reference(module), device=case.profile, output=output,
        seed=case.facts.seed, ref_precision=case.facts.reference.judged_as, **settings, **inputs.kwargs,
    )  # fmt: skip
