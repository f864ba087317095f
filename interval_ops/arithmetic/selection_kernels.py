"""Flat numba kernels of `selection`.

`known_a`: the NaN elements of operand a are NaN, not top. `of_a`: what an extremum adds to the other operand where a is
NaN, 0 to yield to it or NaN for top.
"""

from __future__ import annotations

from math import isnan

import numpy as np

from interval_ops.compiled import compiled


@compiled
def maximum(alo, ahi, blo, bhi, lo, hi, of_a, of_b):  # type: ignore[no-untyped-def]
    for i in range(lo.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        low, high = max(a, c), max(b, d)
        low = c + of_a if isnan(a) else low
        high = d + of_a if isnan(a) else high
        low = a + of_b if isnan(c) else low
        high = b + of_b if isnan(c) else high
        lo[i], hi[i] = low, high
    return False


@compiled
def minimum(alo, ahi, blo, bhi, lo, hi, of_a, of_b):  # type: ignore[no-untyped-def]
    for i in range(lo.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        low, high = min(a, c), min(b, d)
        low = c + of_a if isnan(a) else low
        high = d + of_a if isnan(a) else high
        low = a + of_b if isnan(c) else low
        high = b + of_b if isnan(c) else high
        lo[i], hi[i] = low, high
    return False


@compiled
def hull(alo, ahi, blo, bhi, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        top = isnan(a) | isnan(c)
        lo[i] = np.nan if top else min(a, c)
        hi[i] = np.nan if top else max(b, d)
    return False


@compiled
def pick(cond, a, b, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = a[i] if cond[i] else b[i]
    return True


@compiled
def select(surely, possibly, alo, ahi, blo, bhi, lo, hi):  # type: ignore[no-untyped-def]
    moved = False
    for i in range(lo.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        yes, undecided = surely[i], possibly[i] & (not surely[i])
        low, high = (a, b) if yes else (c, d)
        low, high = (min(low, a), max(high, b)) if undecided else (low, high)
        top = undecided & (isnan(a) | isnan(c))
        low, high = (np.nan, np.nan) if top else (low, high)
        moved |= low != high
        lo[i], hi[i] = low, high
    return not moved


@compiled
def less(alo, ahi, blo, bhi, surely, possibly, known_a, known_b):  # type: ignore[no-untyped-def]
    for i in range(surely.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        false = (isnan(a) & known_a) | (isnan(c) & known_b)
        surely[i] = b < c
        possibly[i] = ((a < d) | isnan(a) | isnan(c)) & (not false)
    return False


@compiled
def less_equal(alo, ahi, blo, bhi, surely, possibly, known_a, known_b):  # type: ignore[no-untyped-def]
    for i in range(surely.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        false = (isnan(a) & known_a) | (isnan(c) & known_b)
        surely[i] = b <= c
        possibly[i] = ((a <= d) | isnan(a) | isnan(c)) & (not false)
    return False


@compiled
def equal(alo, ahi, blo, bhi, surely, possibly, known_a, known_b):  # type: ignore[no-untyped-def]
    for i in range(surely.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        false = (isnan(a) & known_a) | (isnan(c) & known_b)
        surely[i] = (a == b) & (b == c) & (c == d)
        meet = (a <= d) & (c <= b)
        possibly[i] = (meet | isnan(a) | isnan(c)) & (not false)
    return False
