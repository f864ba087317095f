"""numpy's functions by torch's: the same function of the same operands, by either library's rounding.

Whoever uses these tables compares the results and keeps numpy's. Torch takes numpy's names of arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

Function = Callable[..., torch.Tensor]

_OTHER_NAME: Mapping[Any, Function] = {
    np.power: torch.pow, np.equal: torch.eq, np.rint: torch.round, np.fabs: torch.abs, np.degrees: torch.rad2deg,
    np.radians: torch.deg2rad,
}  # fmt: skip
_SAME_NAME: dict[Any, Function] = {
    ufunc: getattr(torch, ufunc.__name__)
    for ufunc in vars(np).values()
    if isinstance(ufunc, np.ufunc) and ufunc.nout == 1 and callable(getattr(torch, ufunc.__name__, None))
}
UFUNCS: Mapping[Any, Function] = {**_SAME_NAME, **_OTHER_NAME}
"""Of the same name; `torch.equal` asks another question."""


def function_of(ufunc: Any) -> Function | None:
    """torch's function for a ufunc of numpy's, or of scipy.special: the special one of its name."""
    found, name = UFUNCS.get(ufunc), ufunc.__name__
    scipy = vars(sys.modules["scipy.special"]) if "scipy.special" in sys.modules else {}
    if found is None and scipy.get(name) is ufunc:
        special: Function | None = getattr(torch.special, name, None)
        return special
    return found


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


def _roll(x: torch.Tensor, shift: Any, axis: Any = None) -> torch.Tensor:
    return torch.roll(x, shift, axis)


def _tile(x: torch.Tensor, reps: Any) -> torch.Tensor:
    return torch.tile(x, (reps,) if isinstance(reps, int) else tuple(reps))


def _repeat(x: torch.Tensor, repeats: int, axis: int | None = None) -> torch.Tensor:
    if not isinstance(repeats, int):
        raise NotImplementedError("counts that differ")
    return torch.repeat_interleave(x, repeats, axis)


def _sort(x: torch.Tensor, axis: int | None = -1) -> torch.Tensor:
    return torch.sort(x.reshape(-1) if axis is None else x, -1 if axis is None else axis).values


def _flip(x: torch.Tensor, axis: Any = None) -> torch.Tensor:
    dims = range(x.dim()) if axis is None else (axis,) if isinstance(axis, int) else axis
    return torch.flip(x, tuple(dims))


def _prod(x: torch.Tensor, axis: int | None = None, keepdims: bool = False) -> torch.Tensor:
    return torch.prod(x) if axis is None else torch.prod(x, axis, keepdim=keepdims)


def _cumulative(function: Function) -> Function:
    def called(x: torch.Tensor, axis: int | None = None) -> torch.Tensor:
        return function(x.reshape(-1), 0) if axis is None else function(x, axis)

    return called


def _take_along(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.take_along_dim(x, indices, axis)


def _diff(x: torch.Tensor, n: int = 1, axis: int = -1) -> torch.Tensor:
    return torch.diff(x, n, axis)


FUNCTIONS: Mapping[Any, Function] = {
    np.mean: _dims(torch.mean), np.sum: _dims(torch.sum), np.max: _dims(torch.amax), np.min: _dims(torch.amin),
    np.var: _var, np.std: lambda *args, **keywords: torch.sqrt(_var(*args, **keywords)), np.linalg.norm: _norm,
    np.dot: _dot, np.einsum: torch.einsum, np.where: torch.where, np.concatenate: torch.concatenate,
    np.stack: torch.stack, np.column_stack: torch.column_stack, np.vstack: torch.vstack, np.hstack: torch.hstack,
    np.dstack: torch.dstack, np.outer: torch.outer, np.clip: torch.clamp, np.tril: torch.tril, np.triu: torch.triu,
    np.isclose: torch.isclose, np.copy: torch.clone, np.roll: _roll, np.tile: _tile, np.repeat: _repeat,
    np.sort: _sort, np.flip: _flip, np.prod: _prod, np.inner: torch.inner, np.kron: torch.kron, np.diff: _diff,
    np.cumsum: _cumulative(torch.cumsum), np.cumprod: _cumulative(torch.cumprod), np.trace: torch.trace,
    np.nan_to_num: torch.nan_to_num, np.vdot: torch.vdot, np.tensordot: torch.tensordot,
    np.broadcast_to: torch.broadcast_to,
    np.take_along_axis: _take_along, np.append: lambda a, b, axis=None: (
        torch.cat([a.reshape(-1), b.reshape(-1)]) if axis is None else torch.cat([a, b], axis)),
}  # fmt: skip
WRITING = frozenset([np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis])
"""Functions that write to their first argument."""
METHODS = tuple(f.__name__ for f in FUNCTIONS if hasattr(np.ndarray, f.__name__) and f not in (np.copy, np.sort))
"""Of an array, for the functions of these names."""
