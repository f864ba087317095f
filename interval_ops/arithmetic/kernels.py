"""Flat numba kernels of `arithmetic`; every one returns whether all its results are points.

Each computes the exact end points in float64 (outward where float64 was inexact), then takes the hull with what the
target rounds them to, and turns a lane into NaN where the operation may be invalid.
"""

from __future__ import annotations

import math
from math import isnan

import numpy as np

from interval_ops.arithmetic.hull import (
    FP64_MAX,
    down,
    flush_lower,
    flush_upper,
    fused,
    nearest,
    product_inexact,
    quotient_inexact,
    sum_error,
    up,
    widen_down,
    zero_by_infinity,
)
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import _bits


@compiled
def add_points(a, b, lo, hi, sign, gate):  # type: ignore[no-untyped-def]
    """a + sign * b of points."""
    moved = False
    for i in range(lo.size):
        x, y = a[i], sign * b[i]
        s = x + y
        e = sum_error(x, y, s)
        low, high = down(s, e < 0.0), up(s, e > 0.0)
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        moved |= low != high
        lo[i], hi[i] = low, high
    return not moved


@compiled
def add_intervals(alo, ahi, blo, bhi, lo, hi, sign, gate):  # type: ignore[no-untyped-def]
    """a + sign * b; the caller passes b's ends swapped when sign = -1."""
    moved = False
    for i in range(lo.size):
        a, b = alo[i], sign * blo[i]
        c, d = ahi[i], sign * bhi[i]
        low, high = a + b, c + d
        low, high = down(low, sum_error(a, b, low) < 0.0), up(high, sum_error(c, d, high) > 0.0)
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        cross, back = a + d, c + b
        top = isnan(cross) | isnan(back)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def _same_sign(a: float, b: float, c: float, d: float) -> bool:
    """Whether no x in [a, b], y in [c, d] have opposite signs."""
    return ((a >= 0.0) & (c >= 0.0)) | ((b <= 0.0) & (d <= 0.0))


@compiled
def _invalid_inside(alo, ahi, blo, bhi, lo, hi):  # type: ignore[no-untyped-def]
    """Top where a zero inside of one operand meets an infinite end of the other: then the products of ends, which do
    not show it, are infinite of both signs."""
    for i in range(lo.size):
        if zero_by_infinity(alo[i], ahi[i], blo[i], bhi[i]):
            lo[i] = hi[i] = np.nan


@compiled
def mul_points(a, b, lo, hi, gate):  # type: ignore[no-untyped-def]
    moved = False
    for i in range(lo.size):
        x, y = a[i], b[i]
        p = x * y
        inexact = product_inexact(x, y, p)
        low, high = down(p, inexact), up(p, inexact)
        # An underflow of float64 keeps the sign of the product.
        low, high = (p if (p == 0.0) & (_bits(p) >= 0) else low), (p if (p == 0.0) & (_bits(p) < 0) else high)
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        moved |= low != high
        lo[i], hi[i] = low, high
    return not moved


@compiled
def mul_intervals(alo, ahi, blo, bhi, lo, hi, gate):  # type: ignore[no-untyped-def]
    moved = endless = False
    for i in range(lo.size):
        a, b, c, d = alo[i], ahi[i], blo[i], bhi[i]
        p, q, r, s = a * c, a * d, b * c, b * d
        inexact = product_inexact(a, c, p) | product_inexact(a, d, q)
        inexact |= product_inexact(b, c, r) | product_inexact(b, d, s)
        low, high = min(min(p, q), min(r, s)), max(max(p, q), max(r, s))
        endless |= (low < -FP64_MAX) & (high > FP64_MAX)
        low, high = down(low, inexact), up(high, inexact)
        low = max(low, 0.0) if _same_sign(a, b, c, d) else low
        high = min(high, 0.0) if _same_sign(a, b, -d, -c) else high
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        top = isnan(p) | isnan(q) | isnan(r) | isnan(s)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    if endless:
        _invalid_inside(alo, ahi, blo, bhi, lo, hi)
    return not moved


@compiled
def scale_intervals(alo, ahi, b, lo, hi, gate):  # type: ignore[no-untyped-def]
    """`mul_intervals` where b is a point: half of the products."""
    moved = endless = False
    for i in range(lo.size):
        x, y, c = alo[i], ahi[i], b[i]
        p, q = x * c, y * c
        inexact = product_inexact(x, c, p) | product_inexact(y, c, q)
        low, high = min(p, q), max(p, q)
        endless |= (low < -FP64_MAX) & (high > FP64_MAX)
        low, high = down(low, inexact), up(high, inexact)
        low = max(low, 0.0) if _same_sign(x, y, c, c) else low
        high = min(high, 0.0) if _same_sign(x, y, -c, -c) else high
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        top = isnan(p) | isnan(q)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    if endless:
        _invalid_inside(alo, ahi, b, b, lo, hi)
    return not moved


@compiled
def square_intervals(alo, ahi, lo, hi, gate):  # type: ignore[no-untyped-def]
    moved = False
    for i in range(lo.size):
        a, b = alo[i], ahi[i]
        small, large = min(abs(a), abs(b)), max(abs(a), abs(b))
        small = 0.0 if (a <= 0.0) & (b >= 0.0) else small
        low, high = small * small, large * large
        low = max(down(low, product_inexact(small, small, low)), 0.0)
        high = up(high, product_inexact(large, large, high))
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        top = isnan(a) | isnan(b)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def _fma_inexact(x: float, y: float, z: float) -> bool:
    p = x * y
    s = p + z
    return product_inexact(x, y, p) | (abs(sum_error(p, z, s)) > 0.0)


@compiled
def fma_intervals(alo, ahi, blo, bhi, clo, chi, lo, hi, gate):  # type: ignore[no-untyped-def]
    """a * b + c with one rounding."""
    moved = False
    for i in range(lo.size):
        low, high = math.inf, -math.inf
        inexact, top = False, zero_by_infinity(alo[i], ahi[i], blo[i], bhi[i])
        for x in (alo[i], ahi[i]):
            for y in (blo[i], bhi[i]):
                p, q = fused(x, y, clo[i]), fused(x, y, chi[i])
                low, high = min(low, p), max(high, q)
                inexact |= _fma_inexact(x, y, clo[i]) | _fma_inexact(x, y, chi[i])
                top |= isnan(p) | isnan(q)
        low, high = down(low, inexact), up(high, inexact)
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def div_intervals(alo, ahi, blo, bhi, lo, hi, r, a, flush, gate):  # type: ignore[no-untyped-def]
    """Exact quotient widened by r relative and a absolute, then rounded by `gate`."""
    moved = False
    for i in range(lo.size):
        xl, xh = flush_lower(alo[i], flush), flush_upper(ahi[i], flush)
        yl, yh = flush_lower(blo[i], flush), flush_upper(bhi[i], flush)
        p, q, s, t = xl / yl, xl / yh, xh / yl, xh / yh
        inexact = quotient_inexact(xl, yl, p) | quotient_inexact(xl, yh, q)
        inexact |= quotient_inexact(xh, yl, s) | quotient_inexact(xh, yh, t)
        low, high = min(min(p, q), min(s, t)), max(max(p, q), max(s, t))
        low, high = down(low, inexact), up(high, inexact)
        pad = a if (low != 0.0) | (high != 0.0) else 0.0
        low, high = widen_down(low, r, pad), -widen_down(-high, r, pad)
        # No division returns the wrong sign, whatever its error.
        low = max(low, 0.0) if _same_sign(xl, xh, yl, yh) else low
        high = min(high, 0.0) if _same_sign(xl, xh, -yh, -yl) else high
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        low, high = flush_lower(low, flush), flush_upper(high, flush)
        pole = (yl <= 0.0) & (yh >= 0.0)
        top = pole & (xl <= 0.0) & (xh >= 0.0)
        top |= ((xl < -FP64_MAX) | (xh > FP64_MAX)) & ((yl < -FP64_MAX) | (yh > FP64_MAX))
        top |= isnan(xl) | isnan(xh) | isnan(yl) | isnan(yh)
        moved |= pole | top | (low != high)
        lo[i] = np.nan if top else (-math.inf if pole else low)
        hi[i] = np.nan if top else (math.inf if pole else high)
    return not moved


@compiled
def round_outward(lo, hi, gate):  # type: ignore[no-untyped-def]
    """In place: hull with the rounding to nearest, the second rounding of formats computed in fp32."""
    moved = False
    for i in range(lo.size):
        low, high = lo[i], hi[i]
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        moved |= low != high
        lo[i], hi[i] = low, high
    return not moved


@compiled
def abs_intervals(alo, ahi, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo.size):
        a, b = alo[i], ahi[i]
        small = min(abs(a), abs(b))
        lo[i] = 0.0 if (a < 0.0) & (b > 0.0) else small
        hi[i] = max(abs(a), abs(b))
    return False


@compiled
def fmod_intervals(alo, ahi, blo, bhi, lo, hi, u, gate):  # type: ignore[no-untyped-def]
    """x - trunc(q) y with q = (x / y)(1 +- u), and the exact remainder; see `arithmetic.fmod`."""
    moved = False
    for i in range(lo.size):
        xl, xh, yl, yh = alo[i], ahi[i], blo[i], bhi[i]
        p, q, s, t = xl / yl, xl / yh, xh / yl, xh / yh
        first, last = min(min(p, q), min(s, t)), max(max(p, q), max(s, t))
        large = max(abs(first), abs(last))
        n = np.trunc(first - abs(first) * u)
        m = np.trunc(last + abs(last) * u)
        widest = max(abs(xl), abs(xh))
        error = widest * u
        reach = up(max(abs(yl), abs(yh)) + error, True)
        low = -error if xl >= 0.0 else -reach
        high = error if xh <= 0.0 else reach
        if n == m:
            # One quotient for every choice: the remainder is linear in x and in y.
            w, v = (yh, yl) if n > 0.0 else (yl, yh)
            low, high = fused(-n, w, xl), fused(-n, v, xh)
            low, high = down(low, _fma_inexact(-n, w, xl)), up(high, _fma_inexact(-n, v, xh))
        low, high = min(low, nearest(low, gate)), max(high, nearest(high, gate))
        bad = (not large <= gate[3]) | ((yl <= 0.0) & (yh >= 0.0))
        bad |= (not widest <= FP64_MAX) | (max(abs(yl), abs(yh)) > FP64_MAX)
        moved |= bad | (low != high)
        lo[i] = np.nan if bad else low
        hi[i] = np.nan if bad else high
    return not moved
