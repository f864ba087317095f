r"""Chains of fused multiply-adds, computed: where order and operands are known, so is the result.

A chain along k of fp32 products is one sequence of roundings (`dot_chain`), so on point operands the target returns one
number. What is left open is where the compiler did not continue a chain: a dot that starts from zero and is added to
the accumulator afterwards. Rounding is monotone, so running both ends of [lo, hi] through a step encloses every choice
before it; after each such dot the hull of both ways is taken. With an accumulator c that is added to a dot, the chain
may begin with c, or c is added where the source says so: both runs are hulled.

Interval operands are one more choice before the steps. A step fl(s + p) grows with s and with p, so the chain of the
least products of all intervals is a lower end, that of the greatest an upper one: for operands of known sign two legal
executions, so nothing narrower holds them; for others each product takes its extreme of the four corners by itself.

The enclosure is the hull of the exact sum and of these results. For the same K it is about sqrt(K) times narrower than
the running bound: nothing is charged that did not happen.
Source: IEEE 754-2019, 5.4.1, fusedMultiplyAdd, evaluated exactly (`fused.odd_sum`); rounding is monotone (4.3).
A common mistake: running midpoints, and adding the radii afterwards: the roundings at the ends are others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from interval_ops.arithmetic.fused import odd_sum
from interval_ops.bounds import Pair, each, exact, is_point
from interval_ops.compiled import compiled
from interval_ops.dot.kernels import multiply_intervals
from interval_ops.dot.sums import Array, Product
from interval_ops.formats.rounding import EPS, TINY

NOWHERE = -1
"""Place of an accumulator whose position in the chain was not followed."""


@compiled
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


@compiled
def _row_ends(p, q, blo, bhi, low, high):  # type: ignore[no-untyped-def]
    """One step of a row: flat arrays of equal length."""
    for j in range(low.size):
        r, s = blo[j], bhi[j]
        w, x, y, z = p * r, p * s, q * r, q * s
        least, most = min(min(w, x), min(y, z)), max(max(w, x), max(y, z))
        down, up = np.float64(low[j]) + least, np.float64(high[j]) + most
        # Outward past the roundings of float64, of product and sum: fp32 then rounds a number beyond the end.
        tiny = TINY if (r != 0.0) | (s != 0.0) else 0.0
        low[j] = np.float32(down - ((abs(down) + abs(least)) * EPS + tiny))
        high[j] = np.float32(up + ((abs(up) + abs(most)) * EPS + tiny))


@compiled
def _advance_ends(alo, ahi, blo, bhi, low, high):  # type: ignore[no-untyped-def]
    """The same for both ends at once: the least and the greatest product of the intervals.

    A product that is exactly zero changes nothing; lanes with operands that are no numbers are left out by the caller.
    """
    for g in range(alo.shape[0]):
        for i in range(alo.shape[1]):
            for k in range(alo.shape[2]):
                if alo[g, i, k] != 0.0 or ahi[g, i, k] != 0.0:
                    _row_ends(alo[g, i, k], ahi[g, i, k], blo[g, k], bhi[g, k], low[g, i], high[g, i])


def replayable(products: Sequence[Product], addends: Sequence[Pair], places: Sequence[int]) -> bool:
    """Whether at most one accumulator came from outside, at a known place."""
    return len(addends) <= 1 and NOWHERE not in places and all(len(p.starts) <= 2 for p in products)


def _single(pair: Pair) -> bool:
    """Whether it is an fp32 point, lane by lane."""
    low = pair[0]
    return is_point(pair) and (low.dtype == np.float32 or bool((low.astype(np.float32) == low).all()))


def chain_results(
    products: Sequence[Product], addends: Sequence[Pair], places: Sequence[int], shape: tuple[int, ...]
) -> Pair:
    """Hull of the fp32 results of the chain of `products`, where `replayable`; `shape` (..., M, N), float64.

    Infinities and NaN come out as the chain makes them; lanes of intervals without finite ends may hold anything.
    """
    zero = np.zeros((int(np.prod(shape[:-2], dtype=np.int64)), *shape[-2:]), np.float32)
    with np.errstate(all="ignore"):
        if not addends:
            low, high = _run(products, (zero, zero), {}, shape)
        else:
            c, place = _single_ends(addends[0], shape), places[0]
            low, high = _run(products, c, {}, shape)
            if place:
                ends = _run(products, (zero, zero), {place: c}, shape)
                low, high = np.minimum(low, ends[0]), np.maximum(high, ends[1])
    return low.astype(np.float64).reshape(shape), high.astype(np.float64).reshape(shape)


def _run(products: Sequence[Product], start: Pair, added: dict[int, Pair], shape: tuple[int, ...]) -> Pair:
    """Both ends of the running value; `added` before the product of that index (or at the end)."""
    low, high = start
    at, place = 0, min(added, default=len(products))
    pieces = groupby(enumerate(products), key=lambda item: (item[1].starts, item[0] >= place))
    for (starts, _), group in pieces:
        members = [p for _, p in group]
        if at in added:
            low, high = _sum(added[at], (low, high))
        ways = [(low, high)]
        if len(starts) > 1:
            zero = np.zeros_like(low)
            ways.append((zero, zero))
        ways = [_steps(members, way, shape) for way in ways]
        at += len(members)
        if len(starts) > 1:
            ways[1] = _sum((low, high), ways[1])
        low = np.minimum.reduce([way[0] for way in ways])
        high = low if _same(ways) else np.maximum.reduce([way[1] for way in ways])
    return _sum((low, high), added[at]) if at in added else (low, high)


def _same(ways: list[Pair]) -> bool:
    return len(ways) == 1 and is_point(ways[0])


def _sum(x: Pair, y: Pair) -> Pair:
    low = x[0] + y[0]
    return exact(low) if is_point(x) and is_point(y) else (low, x[1] + y[1])


def _steps(members: Sequence[Product], ends: Pair, shape: tuple[int, ...]) -> Pair:
    """Both ends after these products, in new arrays; one array twice while everything is a point."""
    low, high = each(ends, lambda end: end.copy())
    for p in members:
        left, right = (*shape[:-1], p.k), (*shape[:-2], p.k, shape[-1])
        if _single(p.a) and _single(p.b):
            a, b = _dense(p.a[0], left, np.float32), _dense(p.b[0], right, np.float32)
            for out in (low,) if is_point((low, high)) else (low, high):
                _advance(a, b, out)
            continue
        high = low.copy() if is_point((low, high)) else high
        alo, ahi, blo, bhi = (_dense(x, at, np.float64) for pair, at in ((p.a, left), (p.b, right)) for x in pair)
        _advance_ends(alo, ahi, blo, bhi, low, high)
    return low, high


def _single_ends(c: Pair, shape: tuple[int, ...]) -> Pair:
    """An accumulator as fp32 numbers, outward."""
    if _single(c):
        point = _dense(c[0], shape, np.float32)
        return point, point
    low, high = (_dense(x, shape, np.float64) for x in c)
    down, up = low.astype(np.float32), high.astype(np.float32)
    down = np.where(down > low, np.nextafter(down, np.float32(-np.inf)), down)
    return down, np.where(up < high, np.nextafter(up, np.float32(np.inf)), up)


def exact_sum(products: Sequence[Product], addends: Sequence[Pair], shape: tuple[int, ...]) -> Pair:
    """Enclosure of the exact sum in float64, NaN where an operand is not finite."""
    low, high, size = np.zeros((3, int(np.prod(shape[:-2], dtype=np.int64)), *shape[-2:]))
    terms = len(addends)
    with np.errstate(all="ignore"):
        for p in products:
            left, right = (*shape[:-1], p.k), (*shape[:-2], p.k, shape[-1])
            a, b = ([_dense(x, target, np.float64) for x in pair] for pair, target in ((p.a, left), (p.b, right)))
            if p.kind == "pp":
                total = a[0] @ b[0]
                ends = (total, total)
            else:
                ends = (np.empty_like(low), np.empty_like(low))
                multiply_intervals(a[0], a[1], b[0], b[1], *ends)
            low, high = low + ends[0], high + ends[1]
            size += _largest(a) @ _largest(b)
            terms += p.k
        for c in addends:
            lower, upper = (_dense(x, shape, np.float64) for x in c)
            low, high, size = low + lower, high + upper, size + np.maximum(np.abs(lower), np.abs(upper))
        # Sums of both in any order: (terms + 1) 2^-53 each to first order; twice that leaves room for the rest.
        slack = np.where(size == 0.0, 0.0, (2 * terms + 16) * 2.0**-53 * size + 2.0**-1060)
        bad = ~(size < np.inf)
    return tuple(np.where(bad, np.nan, x).reshape(shape) for x in (low - slack, high + slack))  # type: ignore[return-value]


def _largest(ends: Sequence[Array]) -> Array:
    """Magnitudes; those that are not zero stay so large that no product of two vanishes."""
    size = np.maximum(*(np.abs(x) for x in ends))
    return np.maximum(size, 2.0**-480, out=size, where=size > 0)


def _dense(x: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    return np.ascontiguousarray(np.broadcast_to(x, shape), dtype).reshape(-1, *shape[-2:])
