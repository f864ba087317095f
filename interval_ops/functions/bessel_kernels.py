"""Bounds of J and Y of orders 0 and 1 over intervals: values on entry, bounds on return, as in `function_kernels`.

Up to 8 the range of an interval is that of its ends and of the turning points inside. Beyond, f differs from its chord
by at most max |f''| w^2 / 8 over a width w (interpolation error, DLMF 3.3.12), and |f''| <= 1/2: for J by its integral
(10.9.2), whose second derivative is the mean of a cosine times a square of a sine; for Y from 10.13.1,
|Y''| <= |Y'| / x + |Y|, which are below 0.3 there. Both stay below the modulus M(x), which decreases (10.18.17 and
10.18 iii: M(x)^2 <= 2 / (pi x) (1 + 3 / (8 x^2)) for both orders).
"""

from __future__ import annotations

import math
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from interval_ops.arithmetic.hull import FP64_MAX
from interval_ops.compiled import compiled
from interval_ops.functions.bessel import error
from interval_ops.functions.kernels import outward

FAR = 8.0
CURVATURE = 0.5


class BesselParams(NamedTuple):
    """`odd`: of a J; the even one gets magnitudes. `second`: a Y, infinite at 0 and without a value below.

    `turns`: turning points up to 8 and the values there, (n, 2); `at_far` is the value at 8.
    """

    odd: bool
    second: bool
    turns: np.ndarray[Any, Any]
    at_far: float


class FarError(NamedTuple):
    """Arguments from `until` on: u relative and `beyond` absolute."""

    until: float
    beyond: float
    u: float


@compiled
def modulus(x: float) -> float:
    """Above sqrt(J^2 + Y^2) of order 0 or 1 from x > 0 on."""
    return math.sqrt(0.6366197723675815 / x) * (1.0 + 0.1875 / (x * x)) * (1.0 + 2.0**-40)


@compiled
def _beyond(x, y, first, last):  # type: ignore[no-untyped-def]
    """Range over [x, y], FAR <= x < y, from the values at its ends."""
    bend, most = CURVATURE / 8.0 * (y - x) * (y - x) * (1.0 + 2.0**-40), modulus(x)
    return max(min(first, last) - bend, -most), min(max(first, last) + bend, most)


@compiled
def _range(x, y, first, last, turns, at_far):  # type: ignore[no-untyped-def]
    """Range over [x, y], 0 <= x < y, from the values at its ends; `at_far` is the value at 8."""
    low, high = min(first, last), max(first, last)
    for k in range(turns.shape[0]):
        inside = (x < turns[k, 0] + 1e-9) & (y > turns[k, 0] - 1e-9)
        low, high = (min(low, turns[k, 1]) if inside else low), (max(high, turns[k, 1]) if inside else high)
    if y > FAR:
        below, above = _beyond(max(x, FAR), y, at_far if x < FAR else first, last)
        low, high = min(low, below), max(high, above)
    return low, high


@compiled
def _around(value, x, libm):  # type: ignore[no-untyped-def]
    """The float64 value at x, and what its exact value may be."""
    value = min(max(value, -FP64_MAX), FP64_MAX)
    room = abs(value) * libm + error(x)
    return value - room, value + room


@compiled
def close_bessel(alo, ahi, lo, hi, function, distant, given):  # type: ignore[no-untyped-def]
    """Within r and a where every argument may lie below `until`, within u and `beyond` from there on."""
    odd, second, turns, at_far = function
    until, beyond, u = distant
    r, a, flush, gate, limit, libm = given
    moved = False
    for i in range(lo.size):
        x, y, first, last = alo[i], ahi[i], lo[i], hi[i]
        point = x == y
        low, above = _around(first, x, libm)
        below, high = _around(last, y, libm)
        low, high = min(low, below), max(high, above)
        if not point and not isnan(x) and (x >= 0.0 or not second):
            if x >= 0.0:
                under, over = _range(x, y, first, last, turns, at_far)
            elif y <= 0.0:
                under, over = _range(-y, -x, -last, -first, turns, at_far)
                under, over = -over, -under
            else:
                under, over = _range(0.0, y, 0.0, last, turns, at_far)
                left, right = _range(0.0, -x, 0.0, -first, turns, at_far)
                under, over = min(under, -right), max(over, -left)
            # Turning points are known to float64, where the curve is flat; chords are as good as their ends.
            room = error(FAR) if max(-x, y) > FAR else 0.0
            low, high = min(low, under - (abs(under) * libm + room)), max(high, over + (abs(over) * libm + room))
        most = max(abs(x), abs(y))
        least = 0.0 if (x < 0.0) & (y > 0.0) else min(abs(x), abs(y))
        far, near = most >= until, least < until
        relative, absolute = (r if near else u), (max(a, beyond) if far else a)
        low, high = outward(low, high, relative, absolute, -math.inf, flush, gate, limit)
        subnormal = ((x > 0.0) & (x < flush)) | ((y < 0.0) & (y > -flush))
        if subnormal and not second:
            at_zero = 0.0 if odd else 1.0
            low, high = min(low, at_zero), max(high, at_zero)
        if (second and x < flush) or (second and x == 0.0):
            low = -math.inf
        exact = (second and point and x == 0.0) or (point and most > FP64_MAX)
        low, high = (first if exact else low), (last if exact else high)
        top = isnan(x) | isnan(y) | (second & (x < 0.0))
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved
