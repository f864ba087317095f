"""Device outputs that are computed, not measured; `case.toml` names the model and says on what evidence.

Every model is independent of the interpreter and of the bounds in `interval_ops`: it computes what one particular
execution on one particular machine would have returned. A model is never reported as a measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from render.lab.corpus.case import CorpusCase
from render.result.errors import RenderError

if TYPE_CHECKING:
    import torch

    from render.entry.inputs import Inputs

Model = Callable[..., "list[torch.Tensor]"]


def models() -> dict[str, Model]:
    """All models by name; `fn(inputs by parameter name, **parameters)` gives the output tensors."""
    from render.lab.corpus import model_attention, model_elementwise, model_matmul, model_order

    found: dict[str, Model] = {}
    for module in (model_matmul, model_attention, model_elementwise, model_order):
        found |= module.MODELS
    return found


def generate(case: CorpusCase, module: ModuleType, inputs: Inputs) -> list[Any] | None:
    """Device output of every tensor that the entry returns, in its order; None where the case has no device.

    Raises RenderError for a model that does not exist. `module` is for models that need the file's own constants.
    """
    device = case.facts.device
    if device.kind == "none":
        return None
    known = models()
    if device.model not in known:
        raise RenderError("RND902", f"{case.id}: unknown device model {device.model!r}", f"known: {', '.join(known)}")
    return known[device.model](inputs.clone().values, **device.parameters)


def describe(case: CorpusCase) -> str:
    """One sentence for reports: what kind of device output this is, and on what evidence."""
    device = case.facts.device
    kinds = {
        "none": "no device output",
        "model": f"device output computed by the model {device.model}, not measured",
        "fault": f"device output with an injected fault ({device.model}), not measured",
        "recorded": "device output recorded on hardware",
    }
    return kinds[device.kind] + (f": {device.provenance}" if device.provenance else "")
