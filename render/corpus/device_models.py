"""Device outputs that are computed, not measured; `case.toml` names the model and says on what evidence.

Every model is independent of the interpreter and of the bounds in `interval_ops`: it computes what one particular
execution on one particular machine would have returned. A model is never reported as a measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from render.corpus.case import Case
from render.errors import RenderError

if TYPE_CHECKING:
    import torch

    from render.inputs import Inputs

Model = Callable[..., "list[torch.Tensor]"]
MODELS: dict[str, Model] = {}


def model(name: str) -> Callable[[Model], Model]:
    """Registers `fn(module, inputs: dict by parameter name, **parameters) -> list of output tensors`."""

    def register(fn: Model) -> Model:
        MODELS[name] = fn
        return fn

    return register


def generate(case: Case, module: ModuleType, inputs: Inputs) -> list[Any] | None:
    """Device output of every tensor that the entry returns, in its order; None where the case has no device.

    Raises RenderError for a model that does not exist.
    """
    device = case.facts.device
    if device.kind == "none":
        return None
    if device.model not in MODELS:
        raise RenderError("RND902", f"{case.id}: unknown device model {device.model!r}", f"known: {', '.join(MODELS)}")
    return MODELS[device.model](module, inputs.clone().values, **device.parameters)
