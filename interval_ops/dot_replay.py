r"""Chains of fused multiply-adds on points, computed: where order and operands are known, so is the result.

A chain along k of fp32 products is one sequence of roundings (`dot_chain`), so on point operands the target returns one
number. What is left open is where the compiler did not continue a chain: a dot that starts from zero and is added to
the accumulator afterwards. Rounding is monotone, so running both ends of [lo, hi] through a step encloses every choice
before it; after each such dot the hull of both ways is taken. With an accumulator c that is added to a dot, the chain
may begin with c, or c is added where the source says so: both runs are hulled.

The enclosure is the hull of the exact sum and of these results. For the same K it is about sqrt(K) times narrower than
the running bound: nothing is charged that did not happen.
Source: IEEE 754-2019, 5.4.1, fusedMultiplyAdd, evaluated exactly (`fused.odd_sum`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numba import njit

from interval_ops.dot_sums import Array, Pair, Product
from interval_ops.fused import odd_sum
from interval_ops.hull import OPTIONS

NOWHERE = -1
"""Place of an accumulator whose position in the chain was not followed."""


@njit(**OPTIONS)
def _advance(a, b, out):  # type: ignore[no-untyped-def]
    """fp32 chain of one fused multiply-add per k, in place; products of fp32 numbers are exact in float64."""
    for g in range(a.shape[0]):
        for i in range(a.shape[1]):
            for k in range(a.shape[2]):
                x = np.float64(a[g, i, k])
                for j in range(b.shape[2]):
                    out[g, i, j] = np.float32(odd_sum(x * np.float64(b[g, k, j]), np.float64(out[g, i, j])))


def chain_value(a: Array, b: Array, acc: Array) -> Array:
    """fp32 value of acc + a @ b, one fma per k in order; (g, M, K), (g, K, N), (g, M, N) with leading axis 1 or g."""
    lead = max(len(a), len(b), len(acc))
    x, y = (np.ascontiguousarray(np.broadcast_to(z, (lead, *z.shape[1:])), np.float32) for z in (a, b))
    out = np.array(np.broadcast_to(acc, (lead, a.shape[1], b.shape[2])), np.float32, order="C")
    _advance(x, y, out)
    return out


def replayable(products: Sequence[Product], addends: Sequence[Pair], places: Sequence[int]) -> bool:
    """Whether every operand is an fp32 point, and at most one accumulator came from outside, at a known place."""
    operands = [pair for p in products for pair in (p.a, p.b)]
    points = all(low is high and _single(low) for low, high in (*operands, *addends))
    return points and len(addends) <= 1 and NOWHERE not in places and all(len(p.starts) <= 2 for p in products)


def _single(x: Array) -> bool:
    return x.dtype == np.float32 or bool((x.astype(np.float32) == x).all())


def chain_results(
    products: Sequence[Product], addends: Sequence[Pair], places: Sequence[int], shape: tuple[int, ...]
) -> Pair:
    """Hull of the fp32 results of the chain of `products`, where `replayable`; `shape` (..., M, N), float64.

    Infinities and NaN come out as the chain makes them.
    """
    zero = np.zeros((int(np.prod(shape[:-2], dtype=np.int64)), *shape[-2:]), np.float32)
    with np.errstate(all="ignore"):
        if not addends:
            low, high = _run(products, zero, {}, shape)
        else:
            c, place = _dense(addends[0][0], shape), places[0]
            low, high = _run(products, c.copy(), {}, shape)
            if place:
                ends = _run(products, zero, {place: c}, shape)
                low, high = np.minimum(low, ends[0]), np.maximum(high, ends[1])
    return low.astype(np.float64).reshape(shape), high.astype(np.float64).reshape(shape)


def _run(products: Sequence[Product], start: Array, added: dict[int, Array], shape: tuple[int, ...]) -> Pair:
    """Both ends of the running value; `added` before the product of that index (or at the end)."""
    low = high = start
    at, place = 0, min(added, default=len(products))
    pieces = groupby(enumerate(products), key=lambda item: (item[1].starts, item[0] >= place))
    for (starts, _), group in pieces:
        members = [p for _, p in group]
        if at in added:
            low, high = low + added[at], high + added[at]
        alone = np.zeros_like(start) if len(starts) > 1 else None
        apart = (low, high)
        same, low = low is high, low.copy()
        high = low if same else high.copy()
        for p in members:
            a, b = _dense(p.a[0], (*shape[:-1], p.k)), _dense(p.b[0], (*shape[:-2], p.k, shape[-1]))
            for out in (low, *(() if same else (high,)), *(() if alone is None else (alone,))):
                _advance(a, b, out)
        at += len(members)
        if alone is not None:
            low, high = np.minimum(low, apart[0] + alone), np.maximum(high, apart[1] + alone)
    return (low + added[at], high + added[at]) if at in added else (low, high)


def exact_sum(products: Sequence[Product], addends: Sequence[Pair], shape: tuple[int, ...]) -> Pair:
    """Enclosure of the exact sum of points in float64, NaN where an operand is not finite."""
    total, size, terms = np.zeros(shape), np.zeros(shape), len(addends)
    with np.errstate(all="ignore"):
        for p in products:
            a, b = p.a[0].astype(np.float64), p.b[0].astype(np.float64)
            a, b = np.broadcast_to(a, (*a.shape[:-1], p.k)), np.broadcast_to(b, (*b.shape[:-2], p.k, b.shape[-1]))
            total, size, terms = total + a @ b, size + np.abs(a) @ np.abs(b), terms + p.k
        for c, _ in addends:
            total, size = total + c, size + np.abs(c)
        # Sums of both in any order: (terms + 1) 2^-53 each to first order; twice that leaves room for the rest.
        slack = np.where(size == 0.0, 0.0, (2 * terms + 16) * 2.0**-53 * size + 2.0**-1060)
        low, high = total - slack, total + slack
        bad = ~(size < np.inf)
    return np.where(bad, np.nan, low), np.where(bad, np.nan, high)


def _dense(x: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(np.broadcast_to(x, shape), np.float32).reshape(-1, *shape[-2:])
