"""Legal executions of one sum of products whose rounding errors all go the same way, found by a greedy search.

Random orders round up and down in turn and reach about sqrt(K) of K roundings. This search builds an order and a
grouping for one output element: it climbs with the largest terms of one sign until the partial sum lies in a high
binade, stays there while it adds, at every step, the remaining term whose rounding error is largest in the wanted
direction, or a pair of terms that were added up before, and comes down at last. Every step is an fp32 fused
multiply-add or an fp32 addition to nearest, evaluated exactly; so its error is a lower bound for the error that any
sound bound of sums in any order must allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from interval_ops.compiled import compiled

POOR = (-math.inf, 0.2, 0.3)
"""Errors in ulp below which a term is paired: never, and two that were best on random terms."""


@compiled
def nearest(x: float, bits: int) -> float:
    """x to nearest with so many bits, no exponent too small or too large."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(np.rint(math.ldexp(mantissa, bits)), exponent - bits)


@compiled
def add(s: float, p: float, bits: int) -> float:
    """s + p to nearest with so many bits, s a number with them, p a product of two: float64 sum to odd, then once."""
    t = s + p
    b = t - s
    e = (s - (t - b)) + (p - b)
    if e != 0.0:
        down = np.trunc(math.frexp(t)[0] * 9007199254740992.0) % 2.0 == 0.0
        if down:
            t = np.nextafter(t, math.inf if e > 0.0 else -math.inf)
    return nearest(t, bits)


@compiled
def follow(s, p, left, low, high, up, poor, bits):  # type: ignore[no-untyped-def]
    """Adds the terms of `p` that are `left`, the best error first, while low <= s < high; gives s, clears `left`.

    `up` is the wanted direction of errors. A term with an error below `poor` ulp is first added to another one.
    """
    n = p.size
    while True:
        best, at, other = -math.inf, -1, -1
        for k in range(n):
            if left[k]:
                r = add(s, p[k], bits)
                e = up * ((r - s) - p[k])
                if e > best and low <= r < high:
                    best, at = e, k
        if at < 0:
            return s
        ulp = math.ldexp(1.0, math.frexp(s)[1] - bits) if s != 0.0 else 0.0
        if best < poor * ulp:
            for k in range(n):
                if left[k] and k != at:
                    q = add(nearest(p[at], bits), p[k], bits)
                    r = add(s, q, bits)
                    e = up * ((r - s) - p[at] - p[k])
                    if e > best and low <= r < high:
                        best, other = e, k
        q = p[at]
        left[at] = False
        if other >= 0:
            q = add(nearest(p[at], bits), p[other], bits)
            left[other] = False
        s = add(s, q, bits)


@compiled
def split(p, order, level):  # type: ignore[no-untyped-def]
    """(terms to climb to `level` with, those to stay there with, those that come down at last), as masks.

    `order` has the terms by falling value, `level` is a power of two below their positive sum.
    """
    climb, stay, fall = np.zeros((3, p.size), np.bool_)
    total = 0.0
    for i in range(p.size):  # as few terms as possible, so that many are left
        k = order[i]
        if total < level * (1 + 2.0**-7) and p[k] > 0.0:
            climb[k] = True
            total += p[k]
        else:
            stay[k] = True
    for k in range(p.size):
        total += p[k] if stay[k] else 0.0
    for i in range(p.size - 1, -1, -1):  # the large negative terms, below which the sum would leave the binade
        k = order[i]
        if total >= level * (1 + 2.0**-7) or p[k] >= 0.0:
            break
        stay[k], fall[k] = False, True
        total -= p[k]
    return climb, stay, fall


@compiled
def plateau(p, order, level, up, poor, bits):  # type: ignore[no-untyped-def]
    """One execution; arguments as `split`'s and `follow`'s."""
    climb, stay, fall = split(p, order, level)
    s = follow(0.0, p, climb, -math.inf, math.inf, up, -math.inf, bits)
    s = follow(s, p, stay, level, 2.0 * level, up, poor, bits)
    for k in range(p.size):
        fall[k] |= stay[k]
    return follow(s, p, fall, -math.inf, math.inf, up, -math.inf, bits)


def levels(p: np.ndarray) -> Iterator[tuple[float, np.ndarray, np.ndarray, float, float]]:
    """(sign, signed terms, their order by falling value, level, direction of errors) of each execution to try."""
    for sign in (1.0, -1.0):
        terms = np.ascontiguousarray(sign * p)
        top = terms[terms > 0].sum()
        order = np.argsort(-terms, kind="stable")
        for below in (0, 1) if top > 0.0 else ():
            for up in (1.0, -1.0):
                yield sign, terms, order, math.ldexp(1.0, math.frexp(top)[1] - 1 - below), up


def executions(p: np.ndarray, bits: int = 24) -> Iterator[float]:
    """Results of orders and groupings that err in one direction; `p` are exact products of fp32 numbers."""
    for sign, terms, order, level, up in levels(p):
        for poor in POOR:
            yield sign * plateau(terms, order, level, up, poor, bits)


def errors(p: np.ndarray, bits: int = 24, more: Iterable[float] = ()) -> tuple[float, float]:
    """(largest error downwards, largest upwards) of the executions found and `more`, exact up to float64 rounding."""
    found = [math.fsum((r, *(-p).tolist())) for r in (*executions(p, bits), *more)]
    return max(0.0, -min(found)), max(0.0, max(found))
