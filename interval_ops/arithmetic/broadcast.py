"""Runs a flat numba kernel over broadcast operands, block by block.

A kernel sees only contiguous one-dimensional arrays: float64 for bounds, bool for decisions, outputs after inputs. What
does not already lie that way (a stride-0 view, a dimension of size 1, a float32 point) is copied into a block that
stays in the L2 cache, so one compiled version of each kernel serves every layout. An operand that is the same for all
blocks (a scalar, a row) is copied once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from interval_ops import threads
from interval_ops.bounds import Array, Pair, each

BLOCK = 1 << 14
_DIRECT = "d?"
"""Of float64 and bool, by numpy's characters."""


def elementwise(
    kernel: Callable[..., bool], inputs: Sequence[Array], outputs: Sequence[type], *params: object
) -> tuple[Any, ...]:
    """Calls `kernel(*inputs, *outputs, *params)` on flat pieces; returns (*output arrays, all calls returned True).

    `inputs` have equal ndim, each dimension is the common one or 1. `outputs` lists the dtypes of the results, which
    are freshly allocated and contiguous. The result of each element depends on that element alone, so the cut into
    blocks changes nothing.
    """
    shape = broadcast_shape(inputs)
    size = prod(shape)
    flat_outs: list[Array] = [np.empty(size, dtype) for dtype in outputs]
    outs = flat_outs if len(shape) == 1 else [out.reshape(shape) for out in flat_outs]
    flats: list[Array | None] = []
    copied: dict[int, Array] = {}  # a point passes one array twice
    direct = True
    for a in inputs:
        flat = copied.get(id(a))
        if flat is None:
            flat = _flat(a, shape)
        if flat is None and size <= BLOCK:
            flat = copied[id(a)] = _spread(a, shape, size)
        direct = direct and flat is not None
        flats.append(flat)
    if direct:
        if size < 2 * threads.LEAST:
            return *outs, bool(kernel(*flats, *flat_outs, *params))
        arrays = [*flats, *flat_outs]
        same = threads.spread(
            lambda start, stop: kernel(*(a[start:stop] for a in arrays if a is not None), *params), size
        )
        return *outs, all(same)
    return *outs, _blocks(kernel, inputs, flats, flat_outs, shape, params)


def broadcast_shape(arrays: Sequence[Array]) -> tuple[int, ...]:
    """Common shape of operands of equal ndim; ValueError where two sizes differ and neither is 1."""
    shape = arrays[0].shape
    for a in arrays:
        if a.shape != shape:
            break
    else:
        return shape
    return common_shape(tuple([a.shape for a in arrays]))


@lru_cache(maxsize=1 << 12)
def common_shape(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """`broadcast_shape` of these; a kernel asks for the same few again and again."""
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        raise ValueError(f"operands of different rank: {list(shapes)}")
    return np.broadcast_shapes(*shapes)


def as_bounds(a: Pair) -> Pair:
    """The pair in float64; a point stays one object."""
    return each(a, lambda end: end.astype(np.float64, copy=False))


def _flat(a: Array, shape: tuple[int, ...]) -> Array | None:
    if a.shape == shape and a.dtype.char in _DIRECT and a.flags.c_contiguous:
        return a.reshape(-1)
    return None


def _spread(a: Array, shape: tuple[int, ...], size: int) -> Array:
    """A flat copy of an operand, broadcast to this shape."""
    out: Array = np.empty(size, np.bool_ if a.dtype.char == "?" else np.float64)
    if a.size == 1:
        out.fill(a.item())
    else:
        np.copyto(out.reshape(shape), a, casting="same_kind")
    return out


def _blocks(
    kernel: Callable[..., bool],
    inputs: Sequence[Array],
    flats: Sequence[Array | None],
    outs: Sequence[Array],
    shape: tuple[int, ...],
    params: tuple[object, ...],
) -> bool:
    axis, step, inner = _split(shape)
    tail = shape[axis + 1 :]
    size = min(step, shape[axis]) * inner
    blocks = [(lead, start) for lead in np.ndindex(shape[:axis]) for start in range(0, shape[axis], step)]

    def run(first: int, last: int) -> bool:
        pieces = {id(a): _Piece(a, axis, size, tail) for a, flat in zip(inputs, flats, strict=True) if flat is None}
        same = True
        for lead, start in blocks[first:last]:
            rows = min(step, shape[axis] - start)
            done = (_rank(lead, shape) * shape[axis] + start) * inner
            stop = done + rows * inner
            args = [
                pieces[id(a)].fetch(lead, start, rows) if flat is None else flat[done:stop]
                for a, flat in zip(inputs, flats, strict=True)
            ]
            same &= bool(kernel(*args, *(out[done:stop] for out in outs), *params))
        return same

    return all(threads.spread(run, len(blocks), size))


def _rank(lead: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Where these indices of the first dimensions stand among all of them."""
    rank = 0
    for i, n in zip(lead, shape, strict=False):
        rank = rank * n + i
    return rank


def _split(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(axis to cut, rows of it per block, elements per row): the outermost axis whose rows fit a block."""
    axis, inner = len(shape) - 1, 1
    while axis > 0 and inner * shape[axis] < BLOCK:
        inner *= shape[axis]
        axis -= 1
    return axis, max(1, BLOCK // max(inner, 1)), prod(shape[axis + 1 :])


class _Piece:
    """The current block of one operand, contiguous and of a direct dtype."""

    __slots__ = ("axis", "buffer", "fixed", "source", "tail")

    def __init__(self, source: Array, axis: int, size: int, tail: tuple[int, ...]) -> None:
        self.source, self.axis, self.tail = source, axis, tail
        self.buffer: Array = np.empty(size, np.bool_ if source.dtype == np.bool_ else np.float64)
        self.fixed = all(n == 1 for n in source.shape[: axis + 1])
        if self.fixed:
            inner = prod(tail)
            self._fill((0,) * axis, slice(0, 1), size // inner if inner else 0)

    def fetch(self, lead: tuple[int, ...], start: int, rows: int) -> Array:
        if not self.fixed:
            cut = slice(start, start + rows) if self.source.shape[self.axis] > 1 else slice(0, 1)
            self._fill(lead, cut, rows)
        return self.buffer[: rows * prod(self.tail)]

    def _fill(self, lead: tuple[int, ...], cut: slice, rows: int) -> None:
        index = tuple(i if n > 1 else 0 for i, n in zip(lead, self.source.shape, strict=False))
        block = self.buffer[: rows * prod(self.tail)].reshape(rows, *self.tail)
        where: tuple[int | slice, ...] = (*index, cut)
        np.copyto(block, self.source[where], casting="same_kind")
