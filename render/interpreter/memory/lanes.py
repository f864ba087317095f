"""Lanes of a memory access: operands of different broadcast shapes, walked by one triple loop.

Axis 0 runs over programs. Stride-0 axes are cut to length 1 first, so that an access which is the same for all
programs (or all rows) is done once; the result keeps length 1 there. The kernels then see flat contiguous buffers and
per-operand strides over at most three loops, and never a broadcast copy of the operands.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]


class Plan(NamedTuple):
    """`shape` of the result, `dims` of the three loops, element strides (operand, loop), operands to write out."""

    shape: Shape
    size: int
    dims: np.ndarray
    strides: np.ndarray
    expand: tuple[int, ...]


def cut(a: np.ndarray) -> np.ndarray:
    """`a` with every broadcast axis reduced to length 1."""
    strides = a.strides
    if 0 in strides:
        shape = a.shape
        if any(st == 0 and n > 1 for st, n in zip(strides, shape, strict=True)):
            a = a[tuple(slice(0, 1) if st == 0 else slice(None) for st in strides)]
    return a


def plan(operands: list[np.ndarray], whole: Shape | None = None) -> tuple[Plan, list[np.ndarray]]:
    """Common loops for the operands, and their flat buffers; `whole` keeps every lane of that shape (atomics)."""
    cuts = [cut(a) for a in operands]
    p = _plan(tuple([a.shape for a in cuts]), whole)
    if p.expand:
        for k in p.expand:
            cuts[k] = np.broadcast_to(cuts[k], (cuts[k].shape[0], *p.shape[1:]))
        p = _plan(tuple([a.shape for a in cuts]), whole)
    return p, [_flat(a) for a in cuts]


def _flat(a: np.ndarray) -> np.ndarray:
    """A view of its own that may be written to: numba compiles a loop that only reads anew for each mixture of arrays
    that may be and that may not."""
    a = a.reshape(-1)
    if not a.flags.writeable:
        try:
            a.setflags(write=True)
        except ValueError:  # it is what is kept that must not change, and a copy may
            a = a.copy()
    return a


@lru_cache(maxsize=4096)
def _plan(shapes: tuple[Shape, ...], whole: Shape | None) -> Plan:
    ndim = max(len(s) for s in shapes)
    padded = [(1,) * (ndim - len(s)) + s for s in shapes]
    shape = tuple(max(s[i] for s in padded) if all(s[i] for s in padded) else 0 for i in range(ndim))
    shape = shape if whole is None else whole
    for s in padded:
        if any(n not in (1, full) for n, full in zip(s, shape, strict=True)):
            raise ValueError(f"shapes {shapes} cannot be broadcast together")
    strides = [_strides(s) for s in padded]
    dims, cols = _merge(shape, strides)
    expand: tuple[int, ...] = ()
    if len(dims) > 3:
        full = shape[1:]
        expand = tuple(k for k, s in enumerate(padded) if s[1:] != full and any(n != 1 for n in s[1:]))
    else:
        while len(dims) < 3:
            dims.insert(1, 1)
            cols.insert(1, [0] * len(shapes))
    size = int(np.prod(shape, dtype=np.int64))
    table = np.array(cols[:3], np.int64).T.copy()
    return Plan(shape, size, np.array(dims[:3], np.int64), table, expand)


def _strides(shape: Shape) -> list[int]:
    """Element strides of a contiguous array of this shape, 0 along axes of length 1."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(0 if n == 1 else step)
        step *= n
    return out[::-1]


def _merge(shape: Shape, strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Loops (extent, stride per operand) with neighbours joined where every operand allows it; loop 0 stays alone."""
    dims, cols = [shape[0]], [[s[0] for s in strides]]
    for axis in range(1, len(shape)):
        n = shape[axis]
        if n == 1:
            continue
        col = [s[axis] for s in strides]
        if len(dims) > 1 and all(prev == c * n for prev, c in zip(cols[-1], col, strict=True)):
            dims[-1] *= n
            cols[-1] = col
        else:
            dims.append(n)
            cols.append(col)
    return dims, cols
