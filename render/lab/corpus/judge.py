"""Runs one case as `render.classify` does, exactly as a user would: nothing of the ground truth is passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from render.lab.corpus import device_models
from render.lab.corpus.case import CorpusCase

if TYPE_CHECKING:
    from render.result.verdict import Verdict


def judge(case: CorpusCase, device_output: bool = True, small: bool = False, **settings: Any) -> Verdict:
    """The verdict on `case`, at its published size, with its device output or (`source-level`) without it."""
    from render.entry.inputs import Inputs
    from render.judgement import question
    from render.result.options import Options

    module = case.load()
    inputs: Inputs = case.inputs(module, small)
    output = device_models.generate(case, module, inputs) if device_output else None
    facts = case.facts
    settings["ref_precision"] = facts.reference.judged_as
    chosen = Options(device=case.profile, seed=facts.seed, **settings)
    return question.of_function(case.entry(module), inputs.args, inputs.kwargs, case.reference(module), output, chosen)
