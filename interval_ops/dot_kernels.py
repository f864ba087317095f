"""Compiled loops of the dot rule: statistics of operands, exact interval products, accumulation, the final bound.

All kernels are serial, release the GIL and expect C-contiguous three-dimensional arrays (slice, row, column). Infinite
and NaN operands may pass through them: whatever they yield is replaced in `finish`, by the marks of row and column.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

_jit = njit(cache=True, nogil=True, error_model="numpy")

GAMMA = 2.0**-53
"""float64 unit roundoff: a sum of n terms in any order is within n * GAMMA * (sum of magnitudes), to first order."""


@_jit
def row_stats(bits: Array, one: Any, peak: Array, low: Array) -> None:
    """Largest magnitude per row and smallest nonzero magnitude per slice, of non-negative floats given as bits.

    The bits of non-negative IEEE numbers are ordered like the numbers, so integer max and min do (and vectorise).
    `low` holds the minimum minus `one` (unsigned): a zero wraps to the largest integer and drops out.
    """
    for g in range(bits.shape[0]):
        low[g] = ~(one - one)
        for i in range(bits.shape[1]):
            largest, smallest = one - one, low[g]
            for k in range(bits.shape[2]):
                largest = max(largest, bits[g, i, k])
                smallest = min(smallest, bits[g, i, k] - one)
            peak[g, i] = largest
            low[g] = smallest


@_jit
def column_stats(bits: Array, one: Any, peak: Array, low: Array) -> None:
    """As `row_stats`, with the largest magnitude per column."""
    for g in range(bits.shape[0]):
        smallest = ~(one - one)
        peak[g, :] = 0
        for k in range(bits.shape[1]):
            for j in range(bits.shape[2]):
                peak[g, j] = max(peak[g, j], bits[g, k, j])
                smallest = min(smallest, bits[g, k, j] - one)
        low[g] = smallest


@_jit
def split_interval(lo: Array, hi: Array, mid: Array, rad: Array, mag: Array) -> None:
    """Midpoint, radius (rounded up) and magnitude max(|lo|, |hi|) of flat interval arrays; NaN reaches `mag`."""
    for i in range(lo.size):
        m = 0.5 * lo[i] + 0.5 * hi[i]
        r = max(hi[i] - m, m - lo[i])
        mid[i] = m
        rad[i] = r + r * 2.0**-51
        v = max(abs(lo[i]), abs(hi[i]))
        # Nonzero magnitudes stay so large that no product of two of them underflows.
        mag[i] = (2.0**-480 if 0.0 < v < 2.0**-480 else v) + 0.0 * m


@_jit
def narrow_up(x: Array, out: Array) -> None:
    """float32 upper bounds of non-negative float64 numbers below 2**127; nonzero ones are at least 2**-126."""
    for i in range(x.size):
        v = x[i]
        out[i] = 0.0 if v == 0.0 else max(v * (1.0 + 2.0**-22), 2.0**-126)


@_jit
def multiply_intervals(alo: Array, ahi: Array, blo: Array, bhi: Array, lo: Array, hi: Array) -> None:
    """Sums over k of the exact products [alo, ahi] * [blo, bhi] (RENDER paper, Algorithm 1), in float64.

    Per product the minimum and maximum of the four end point products; where the sign of a is known two of them decide.
    The error of the two sums is within (K + 1) * GAMMA * sum of max |a| max |b|; the caller adds it.
    """
    rows, terms, columns = alo.shape[1], alo.shape[2], blo.shape[2]
    for g in range(alo.shape[0]):
        for i in range(rows):
            down, up = lo[g, i], hi[g, i]
            down[:] = 0.0
            up[:] = 0.0
            for k in range(terms):
                p, q = alo[g, i, k], ahi[g, i, k]
                if p == 0.0 and q == 0.0:
                    continue
                bl, bh = blo[g, k], bhi[g, k]
                if p >= 0.0:
                    for j in range(columns):
                        s, t = p * bl[j], q * bl[j]
                        down[j] += s if s < t else t
                        s, t = p * bh[j], q * bh[j]
                        up[j] += s if s > t else t
                elif q <= 0.0:
                    for j in range(columns):
                        s, t = p * bh[j], q * bh[j]
                        down[j] += s if s < t else t
                        s, t = p * bl[j], q * bl[j]
                        up[j] += s if s > t else t
                else:
                    for j in range(columns):
                        s, t = p * bh[j], q * bl[j]
                        down[j] += s if s < t else t
                        s, t = p * bl[j], q * bh[j]
                        up[j] += s if s > t else t


@_jit
def scale(out: Array, x: Array, inflate: float, tiny: Array) -> None:
    """out = x * inflate + tiny: an upper bound of a sum of magnitudes from its float32 or float64 value."""
    for g in range(x.shape[0]):
        for i in range(x.shape[1]):
            for j in range(x.shape[2]):
                out[g, i, j] = x[g, i, j] * inflate + tiny[g]


@_jit
def spread(lo: Array, hi: Array, radius: Array, inflate: float, tiny: Array) -> None:
    """Turns the centre in `lo` into centre -+ radius; the rounding is covered by the float64 slack of `finish`."""
    for g in range(lo.shape[0]):
        for i in range(lo.shape[1]):
            for j in range(lo.shape[2]):
                centre = lo[g, i, j]
                r = radius[g, i, j] * inflate + tiny[g]
                lo[g, i, j] = centre - r
                hi[g, i, j] = centre + r


@_jit
def finish(
    lo: Array, hi: Array, mag: Array, acc: Array, rows: Array, columns: Array, p: Array, out_lo: Array, out_hi: Array
) -> None:
    """The bound around [lo, hi]; see `dot.Bound` for the parameters `p` and numerics of the block-FMA model.

    `mag` is the sum of product magnitudes, `acc` that of the other addends, `rows` and `columns` the largest operand
    magnitudes (NaN where an operand is not finite). Results that may overflow the accumulator, and lanes with
    non-finite operands, become NaN in both ends; a sum whose terms are all exactly zero stays exactly zero.
    """
    relative, eps, growth, floor, floor2, align = p[0], p[1], p[2], p[3], p[4], p[5]
    omega, power, least, emin_acc, limit, slack = p[6], p[7], p[8], p[9], p[10], p[11]
    for g in range(lo.shape[0]):
        for i in range(lo.shape[1]):
            for j in range(lo.shape[2]):
                m = mag[g, i, j]
                s = m * (1.0 + growth) + acc[g, i, j]
                ends = rows[g, i] + columns[g, j]
                if s == 0.0 and ends == ends:
                    out_lo[g, i, j] = 0.0
                    out_hi[g, i, j] = 0.0
                    continue
                wide = max(emin_acc, least * max(least, max(rows[g, i], columns[g, j])) * (1.0 + growth))
                eta = align * max(0.0, wide - s) + omega
                err = s * relative + power * eta + eps * m + floor * ends + floor2
                rad = err * (1.0 + 2.0**-50) + s * slack
                if s + rad < limit and ends == ends:
                    x, y = lo[g, i, j] - rad, hi[g, i, j] + rad
                    if slack > 0.0:
                        x, y = x - abs(x) * 2.0**-52, y + abs(y) * 2.0**-52
                    out_lo[g, i, j] = x
                    out_hi[g, i, j] = y
                else:
                    out_lo[g, i, j] = math.nan
                    out_hi[g, i, j] = math.nan
