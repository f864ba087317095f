"""`tl.sort`, `tl.topk`, `tl.bitonic_merge` and `tl.flip`: native rules instead of the library's swaps of bit patterns.

Each is a network of compare-exchanges, (min, max) of a pair, or a permutation. Minimum and maximum are monotone in
either argument, so the network applied to the lower ends and to the upper ends encloses its result for every choice of
values; for a sort, the k-th smallest lower end and the k-th smallest upper end enclose the k-th order statistic.
Source: K. Batcher, Sorting networks and their applications (1968); `_compare_and_swap` of triton.language.standard.

A compare-exchange with a NaN keeps one operand twice: the values follow Triton's network step by step there, and the
bounds of the whole row are open. A common mistake: carrying the interval of the concrete winner along with its value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from triton.language import core, standard

from render.interpreter.handle import Handle
from render.interpreter.statements import unwrap

ASCENDING, DESCENDING, ALTERNATING = 0, 1, 2


def _partner(x: np.ndarray, bit: int) -> tuple[np.ndarray, np.ndarray]:
    """Every element's partner 2^bit places away, and whether the element is the right one of the two."""
    where = np.arange(x.shape[-1])
    return x[..., where ^ (1 << bit)], (where >> bit & 1).astype(bool)


def compare_exchange(x: np.ndarray, bit: int, flip: np.ndarray) -> np.ndarray:
    """One step of Triton's network along the last axis, NaN included."""
    y, right = _partner(x, bit)
    with np.errstate(invalid="ignore"):
        return np.where((x > y) != (flip ^ right), y, x)


def merge(x: np.ndarray, stage: int, order: int) -> np.ndarray:
    """`stage` rounds of compare-exchange: ascending, descending, or in turns of 2^stage elements."""
    flip = _turned(x.shape[-1], stage, order)
    for bit in reversed(range(stage)):
        x = compare_exchange(x, bit, flip)
    return x


def _turned(size: int, stage: int, order: int) -> np.ndarray:
    """Which elements of a merge of 2^stage are ordered downwards."""
    if order == ALTERNATING:
        return (np.arange(size) >> stage & 1).astype(bool)
    return np.full(size, order == DESCENDING)


def network(x: np.ndarray, k: int, descending: bool) -> np.ndarray:
    """Triton's bitonic sort of the last axis, cut to the first k elements; the same steps, for rows with NaN."""
    log_n, log_k = x.shape[-1].bit_length() - 1, k.bit_length() - 1
    best = np.fmax if descending else np.fmin
    if log_k == 0:
        return best.reduce(x, axis=-1, keepdims=True)
    last = DESCENDING if descending else ASCENDING
    for stage in range(1, log_k + 1):
        x = merge(x, stage, ALTERNATING if stage < log_n else last)
    for stage in range(log_k + 1, log_n + 1):
        halves = x.reshape(*x.shape[:-1], -1, 2, k)
        x = best(halves[..., 0, :], halves[..., 1, :]).reshape(*x.shape[:-1], -1)
        x = merge(x, log_k, ALTERNATING if stage < log_n else last)
    return x


def ordered(x: np.ndarray, k: int, descending: bool) -> np.ndarray:
    """The first k elements of the sorted last axis."""
    if x.dtype.kind == "f" and np.isnan(x).any():
        return network(x, k, descending)
    y = np.sort(x, axis=-1)
    return y[..., ::-1][..., :k] if descending else y[..., :k]


def _open_rows(a: np.ndarray, nan: np.ndarray) -> np.ndarray:
    return np.where(nan, np.nan, a)


class Ordering:
    """Bound to one launch; `natives` maps the library's functions to these."""

    def __init__(self, ctx: Any, semantic: Any) -> None:
        self.ctx = ctx
        self.semantic = semantic

    def natives(self) -> dict[int, Callable[..., Any]]:
        mine: dict[str, Callable[..., Any]] = {
            "sort": self.sort,
            "topk": self.topk,
            "bitonic_merge": self.bitonic_merge,
            "flip": self.flip,
        }
        found = ((getattr(standard, name, None), function) for name, function in mine.items())
        return {id(fn): function for fn, function in found if fn is not None}

    def sort(self, x: Any, dim: Any = None, descending: Any = False) -> Any:
        return self._first(x, x.shape[-1], dim, descending)

    def topk(self, x: Any, k: Any, dim: Any = None, descending: Any = True) -> Any:
        size = int(unwrap(k))
        if size <= 0 or size & (size - 1):
            raise AssertionError("topk: k must be a positive power of two")
        if size > int(unwrap(x.shape[-1])):
            raise AssertionError("topk: k must not exceed the size of the selected dimension")
        return self._first(x, size, dim, descending)

    def bitonic_merge(self, x: Any, dim: Any = None, descending: Any = False) -> Any:
        """Round by round: each lane is the smaller or larger of two lanes of the round before."""
        _minor(x, dim)
        size = int(unwrap(x.shape[-1]))
        stage = size.bit_length() - 1
        flip = _turned(size, stage, int(unwrap(descending)))
        for bit in reversed(range(stage)):
            before = x
            x = self._apply(x, size, partial(compare_exchange, bit=bit, flip=flip))
            where = np.arange(size)
            terms = np.stack([where, where ^ (1 << bit)], axis=-1)
            self._told(before.handle, x.handle, terms, (where >> bit & 1).astype(bool) != flip)
        return x

    def flip(self, x: Any, dim: Any = None) -> Any:
        rank = len(x.shape)
        axis = rank - 1 if unwrap(dim) is None else int(unwrap(dim))
        if not -rank <= axis < rank:
            raise AssertionError("flip: dim must be None or in [-rank, rank)")
        handle: Handle = x.handle
        move = partial(np.flip, axis=axis % rank + 1)
        out = handle.map(lambda a: move(handle.full(a)), handle.shape)
        self.semantic.builder.emit("flip", (handle,), (out,), {"move": move})
        return core.tensor(out, x.type)

    def _first(self, x: Any, k: Any, dim: Any, descending: Any) -> Any:
        _minor(x, dim)
        size, down = int(unwrap(k)), bool(unwrap(descending))
        out = self._apply(x, size, lambda a: ordered(a, size, down))
        n, where = x.handle.shape[-1], np.arange(size)
        terms = np.broadcast_to(np.arange(n), (size, n))
        self._told(x.handle, out.handle, terms, n - 1 - where if down else where)
        return out

    def _told(self, x: Handle, out: Handle, terms: np.ndarray, ranks: np.ndarray) -> None:
        """Every lane of `out` has a rank, in ascending order, among these lanes of its row."""
        self.semantic.builder.emit("ranked", (x,), (out,), {"terms": terms, "ranks": ranks})

    def _apply(self, x: Any, size: int, order: Callable[[np.ndarray], np.ndarray]) -> Any:
        self.ctx.unordered.exchanged()
        handle: Handle = x.handle
        shape = (*handle.shape[:-1], size)
        v = order(handle.full(handle.v))
        lo = hi = None
        if handle.lo is not None and handle.dtype.scalar.is_int1():
            return self._truths(handle, v, shape, order)
        if not handle.is_point or (v.dtype.kind == "f" and self.ctx.interval and np.isnan(handle.v).any()):
            lo, hi = self._bounds(handle, order)
        out = Handle(v, handle.dtype, shape, lo, hi, handle.taint)
        return core.tensor(out, core.block_type(x.dtype, list(shape)))

    def _bounds(self, handle: Handle, order: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        ends = [handle.full(end).astype(np.float64) for end in handle.pair]
        nan: np.ndarray = np.isnan(ends[0]).any(axis=-1, keepdims=True)  # type: ignore[assignment]
        lo, hi = (_open_rows(order(np.where(nan, 0.0, end)), nan) for end in ends)
        return lo, hi

    def _truths(self, handle: Handle, v: np.ndarray, shape: tuple[int, ...], order: Any) -> Any:
        from render.interpreter.builder.integers import bool_handle

        lo, hi = (order(handle.full(end)) for end in handle.pair)
        return core.tensor(bool_handle(v, lo, hi, shape, handle.taint), core.block_type(core.int1, list(shape)))


def _minor(x: Any, dim: Any) -> None:
    """Triton sorts the last dimension only, and says so in the same words."""
    axis = unwrap(dim)
    if axis is not None and axis != len(x.shape) - 1:
        raise AssertionError("only minor dimension is currently supported")
