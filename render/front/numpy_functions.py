"""numpy's functions by torch's: the same function of the same operands, by either library's rounding.

Whoever uses these tables compares the results and keeps numpy's. Torch takes numpy's names of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

Function = Callable[..., torch.Tensor]

_OTHER_NAME: Mapping[Any, Function] = {
    np.power: torch.pow, np.equal: torch.eq, np.rint: torch.round, np.fabs: torch.abs,
}  # fmt: skip
_SAME_NAME: dict[Any, Function] = {
    ufunc: getattr(torch, ufunc.__name__)
    for ufunc in vars(np).values()
    if isinstance(ufunc, np.ufunc) and ufunc.nout == 1 and callable(getattr(torch, ufunc.__name__, None))
}
UFUNCS: Mapping[Any, Function] = {**_SAME_NAME, **_OTHER_NAME}
"""Of the same name; `torch.equal` asks another question."""


def _dims(function: Function) -> Function:
    """Of one of torch's that takes no None for "all of them"."""

    def called(x: torch.Tensor, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
        return function(x, tuple(range(x.dim())) if axis is None else axis, keepdim=keepdims)

    return called


REDUCTIONS: Mapping[Any, Function] = {
    np.add: _dims(torch.sum), np.maximum: _dims(torch.amax), np.minimum: _dims(torch.amin),
}  # fmt: skip
ACCUMULATIONS: Mapping[Any, Function] = {np.add: torch.cumsum, np.multiply: torch.cumprod}


def _var(x: torch.Tensor, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> torch.Tensor:
    return torch.var(x, axis, correction=ddof, keepdim=keepdims)


def _norm(x: torch.Tensor, ord: float | None = None, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    if isinstance(axis, tuple) or (axis is None and ord is not None and x.dim() > 1):
        raise NotImplementedError("a matrix norm")
    found: torch.Tensor = torch.linalg.vector_norm(x, 2 if ord is None else ord, axis, keepdim=keepdims)
    return found


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if min(a.dim(), b.dim()) < 1 or max(a.dim(), b.dim()) > 2:
        raise NotImplementedError("a dot product of other ranks")
    return torch.matmul(a, b)


FUNCTIONS: Mapping[Any, Function] = {
    np.mean: _dims(torch.mean), np.sum: _dims(torch.sum), np.max: _dims(torch.amax), np.min: _dims(torch.amin),
    np.var: _var, np.std: lambda *args, **keywords: torch.sqrt(_var(*args, **keywords)), np.linalg.norm: _norm,
    np.dot: _dot, np.einsum: torch.einsum, np.where: torch.where, np.concatenate: torch.concatenate,
    np.stack: torch.stack, np.column_stack: torch.column_stack, np.vstack: torch.vstack, np.hstack: torch.hstack,
    np.dstack: torch.dstack, np.outer: torch.outer, np.clip: torch.clamp, np.tril: torch.tril, np.triu: torch.triu,
    np.isclose: torch.isclose,
}  # fmt: skip
METHODS = tuple(f.__name__ for f in FUNCTIONS if hasattr(np.ndarray, f.__name__))
"""Of an array, for the functions of these names."""
