"""Host code with every float dtype one step wider: for the reference of a high-precision re-execution.

Inputs are widened first; dtypes that the code itself names (`.to(torch.float16)`, `dtype=torch.float32`, `.half()`)
are widened as torch sees them. A dtype read off a widened tensor may so be widened twice, which only adds precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from render.entry.inputs import Cloner, Inputs

STEP: dict[torch.dtype, torch.dtype] = {
    torch.float8_e5m2: torch.float16, torch.float8_e4m3fn: torch.float16, torch.float8_e5m2fnuz: torch.float16,
    torch.float8_e4m3fnuz: torch.float16, torch.float16: torch.float32, torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
}  # fmt: skip
_METHODS = {torch.Tensor.half: torch.float32, torch.Tensor.bfloat16: torch.float32, torch.Tensor.float: torch.float64}


def wider(x: Any) -> Any:
    """A dtype one step wider; anything else as it is."""
    return STEP.get(x, x) if isinstance(x, torch.dtype) else x


class Widened(TorchFunctionMode):
    """Inside, dtypes passed to torch functions are one step wider and new floats are float64 by default."""

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _METHODS:
            return args[0].to(_METHODS[func])
        return func(*tree_map(wider, args), **tree_map(wider, kwargs or {}))


class _Step:
    """Copies tensors one step wider, each storage once."""

    def __init__(self) -> None:
        self._of = {dtype: Cloner(to) for dtype, to in STEP.items()}
        self._same = Cloner()

    def __call__(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self._of.get(x.dtype, self._same)(x)
        return self._same(x)


def widened(inputs: Inputs) -> Inputs:
    """The inputs with every floating-point tensor one step wider (exact)."""
    return inputs.map(_Step())
