"""Orders of a reduction by a combine function that has no rule of its own.

Triton 3.8 and 3.9 reduce one bit of the index after the other: elements of a thread in neighbouring pairs, lanes by
butterfly shuffles, warps through shared memory. The operand whose index has a 0 there is the left one. In which order
the bits come is the layout's choice, so a reduction of 2^m elements has at most m! results; a value that is left over
by a set S of bits has those of all orders of S. `every_order` goes over these sets, smallest first, and keeps the hull
of all ways to the same value: 3^m operations for m! orders. Interval operations are monotone under inclusion, so the
hull holds what every order computes, step by step.
A common mistake: the bound of one tree, which another layout's result leaves. Elements do not stay in their order, so
a function that does not commute has several results, with or without rounding (RND214).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from interval_ops.bounds import Pair
from render.interpreter.handle import Handle

Parts = list[Handle]
Combine = Callable[[Parts, Parts], Parts]
Move = Callable[[Handle, Any], Handle]

MOST_LANES = 1 << 22
"""Steps of all orders of one reduction that are taken; beyond, the order is left open and that is said."""
APART = 2.0**-10
"""Relative difference of two groupings that no guard (an epsilon in a divisor) explains."""
ALIKE = 2.0**-22
"""Relative difference of two groupings that is none: what float64 and such a guard make."""


def halves(parts: Parts, axis: int, combine: Combine, move: Move) -> Parts:
    """The axis folded in halves, the highest bit of the index first; it is removed."""
    while (n := parts[0].shape[axis]) > 1:
        left, right = slice(0, n // 2), slice(n // 2, 2 * (n // 2))
        parts = combine([move(h, left) for h in parts], [move(h, right) for h in parts])
    return [move(h, 0) for h in parts]


def neighbours(parts: Parts, axis: int, combine: Combine, move: Move) -> Parts:
    """The axis folded in neighbouring pairs, the lowest bit of the index first; it is removed."""
    while (n := parts[0].shape[axis]) > 1:
        parts = combine([move(h, slice(0, n - n % 2, 2)) for h in parts], [move(h, slice(1, n, 2)) for h in parts])
    return [move(h, 0) for h in parts]


class Level(NamedTuple):
    """Places of the operands in the values of the level before, flat and filled up: (sets, ways to each, values)."""

    left: np.ndarray
    right: np.ndarray
    shape: tuple[int, int, int]


@cache
def levels(m: int) -> tuple[Level, ...]:
    """How the values of all sets of l bits come from those of l - 1 bits, l = 1 .. m."""
    return tuple(_levels(m))


def _levels(m: int) -> Iterator[Level]:
    before: dict[tuple[int, ...], int] = {(): 0}
    for count in range(1, m + 1):
        sets = list(combinations(range(m), count))
        rest = 1 << (m - count)
        place = np.arange(rest)
        starts, weights = [], []
        for s in sets:
            for bit in s:
                starts.append(before[tuple(b for b in s if b != bit)] * 2 * rest)
                weights.append(1 << (bit - sum(b < bit for b in s)))  # among the bits that are still there
        start, weight = np.array(starts)[:, None], np.array(weights)[:, None]
        left = start + (place // weight * 2 * weight + place % weight)
        yield Level(_filled(left), _filled(left + weight), (len(sets), count, rest))
        before = {s: k for k, s in enumerate(sets)}


def _filled(places: np.ndarray) -> np.ndarray:
    """Flat, the last place again until they are a power of two: blocks have no other size."""
    return np.pad(places.reshape(-1), (0, (1 << (places.size - 1).bit_length()) - places.size), "edge")


def every_order(parts: Parts, axis: int, combine: Combine, take: Move) -> list[Pair] | None:
    """Bounds of each component over all orders of the bits; None where they are too many, or an integer depends on it.

    `take(h, places)` gives the lanes at these places of the axis. Components that are no floats must be the same in
    all orders.
    """
    n = parts[0].shape[axis]
    size = int(np.prod([max(h.v.shape[k] for h in parts) for k in range(parts[0].v.ndim) if k != axis + 1]))
    if n & (n - 1) or n.bit_length() * 3 ** (n.bit_length() - 2 if n > 1 else 0) * size > MOST_LANES:
        return None
    for level in levels(n.bit_length() - 1):
        made = combine([take(h, level.left) for h in parts], [take(h, level.right) for h in parts])
        parts = []
        for h in made:
            joined = _joined(h, axis, level.shape)
            if joined is None:
                return None
            parts.append(joined)
    return [take(h, 0).pair for h in parts]


def _joined(h: Handle, axis: int, shape: tuple[int, int, int]) -> Handle | None:
    """The values with the hull of the ways to each."""
    out = (*h.shape[:axis], shape[0] * shape[2], *h.shape[axis + 1 :])

    def ways(a: np.ndarray) -> np.ndarray:
        full = np.broadcast_to(a, (*a.shape[: axis + 1], h.shape[axis], *a.shape[axis + 2 :]))
        full = full[(slice(None),) * (axis + 1) + (slice(shape[0] * shape[1] * shape[2]),)]
        return full.reshape(*a.shape[: axis + 1], *shape, *a.shape[axis + 2 :])

    def flat(a: np.ndarray) -> np.ndarray:
        return a.reshape(*a.shape[: axis + 1], shape[0] * shape[2], *a.shape[axis + 3 :])

    v = ways(h.v)
    one = flat(np.take(v, 0, axis + 2))
    if h.dtype.scalar.is_floating():
        lo, hi = (ways(end) for end in h.pair)
        low, high = flat(lo.min(axis=axis + 2)).astype(np.float64), flat(hi.max(axis=axis + 2)).astype(np.float64)
        return Handle(one, h.dtype, out, low, low if np.array_equal(low, high) else high, h.taint)
    if h.open is not None or h.lo is not None or h.lost is not None or (v != np.take(v, [0], axis + 2)).any():
        return None
    return Handle(one, h.dtype, out, taint=h.taint)


def apart(x: Handle, y: Handle) -> tuple[float, float] | None:
    """The values of a float lane in which both have known bounds that lie far apart."""
    if not x.dtype.scalar.is_floating():
        return None
    gap, size = _gap(x, y)
    far = np.isfinite(size) & (gap > APART * size)
    if not far.any():
        return None
    at = np.unravel_index(int(np.argmax(far)), far.shape)
    return tuple(float(np.broadcast_to(h.v, far.shape)[at]) for h in (x, y))  # type: ignore[return-value]


def alike(x: Handle, y: Handle) -> bool | None:
    """Whether two orders give the same, as far as float64 can tell; None where it cannot, for want of bounds."""
    if not x.dtype.scalar.is_floating():
        return np.array_equal(x.v, y.v) and x.open is None and y.open is None
    gap, size = _gap(x, y)
    same, known = (x.v == y.v) | (np.isnan(x.v) & np.isnan(y.v)), np.isfinite(size)
    with np.errstate(invalid="ignore"):
        if not (~known | (gap <= ALIKE * size)).all():
            return False
    return True if (known | same).all() else None


def _gap(x: Handle, y: Handle) -> tuple[np.ndarray, np.ndarray]:
    """How far the bounds lie apart (negative: they meet), and the largest end."""
    (xl, xh), (yl, yh) = x.pair, y.pair
    with np.errstate(all="ignore"):
        return np.maximum(xl - yh, yl - xh), np.maximum.reduce([np.abs(end) for end in (xl, xh, yl, yh)])
