"""Kernels of functions with poles or turning points, as those of `function_kernels`: values on entry, bounds on return.

`lo` and `hi` hold the values at `alo` and `ahi`, in that order.
"""

from __future__ import annotations

import math
from math import isnan

import numpy as np

from interval_ops.arithmetic.hull import FP64_MAX
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import TINY
from interval_ops.functions.kernels import LIBM, libm_down, meets_integer, outward

GAMMA_AT, GAMMA_MIN, LGAMMA_MIN = 1.4616321449683622, 0.8856031944108886, -0.1214862905358496
"""Place and value of the minimum of gamma and of ln gamma on the positive axis (DLMF 5.4.19, 5.4.20)."""

_UNDERFLOW = 2.0**-1070
_LGAMMA_ERROR = 2.0**-46  # absolute, of the float64 value near its zeros
_HALF_TURN = 0.3183098861837907  # 1 / pi


@compiled
def close_tan(alo, ahi, lo, hi, r, a, flush, gate, limit, libm):  # type: ignore[no-untyped-def]
    """tan is increasing between its poles x / pi = k + 1/2; an interval that may hold one is the whole line.

    No number of a binary format is a pole, so a point always has a finite value.
    """
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        wide = (x != y) & (max(abs(x), abs(y)) > 2.0**20)
        pole = (x != y) & (wide | meets_integer(x * _HALF_TURN - 0.5, y * _HALF_TURN - 0.5))
        low, high = libm_down(lo[i], libm, TINY), -libm_down(-hi[i], libm, TINY)
        low, high = outward(low, high, r, a, -math.inf, flush, gate, limit)
        subnormal = ((x > 0.0) & (x < flush)) | ((y < 0.0) & (y > -flush))
        low, high = (min(low, 0.0) if subnormal else low), (max(high, 0.0) if subnormal else high)
        zero = (x == 0.0) & (y == 0.0)
        low, high = (lo[i] if zero else low), (hi[i] if zero else high)
        low, high = (-math.inf if pole else low), (math.inf if pole else high)
        top = isnan(x) | (abs(x) > FP64_MAX) | (abs(y) > FP64_MAX)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def close_rcbrt(alo, ahi, lo, hi, r, a, flush, gate, limit, libm):  # type: ignore[no-untyped-def]
    """x^(-1/3) decreases on either side of its pole 0; a zero of known sign gives that infinity."""
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        exact = (x == y) & (lo[i] == hi[i]) & ((x == 0.0) | (abs(x) > FP64_MAX))
        pole = ((x <= 0.0) & (y >= 0.0)) | ((x < flush) & (y > -flush))
        low, high = libm_down(hi[i], libm, TINY), -libm_down(-lo[i], libm, TINY)
        low, high = outward(low, high, r, a, -math.inf, flush, gate, limit)
        low, high = (-math.inf if pole else low), (math.inf if pole else high)
        low, high = (lo[i] if exact else low), (hi[i] if exact else high)
        top = isnan(x)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def close_gamma(alo, ahi, lo, hi, r, a, flush, gate, limit, libm):  # type: ignore[no-untyped-def]
    """gamma: one minimum for x > 0. Between two poles on the negative axis its magnitude has a minimum of its own, for
    which 0 stands here. An interval that holds 0 or a negative integer gives top.
    """
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        low, high = min(lo[i], hi[i]), max(lo[i], hi[i])
        low = min(low, GAMMA_MIN) if (x < GAMMA_AT) & (y > GAMMA_AT) else low
        gap = (x < 0.0) & (x != y)
        low, high = (min(low, 0.0) if gap else low), (max(high, 0.0) if gap else high)
        tiny = _UNDERFLOW if libm >= LIBM else TINY
        low, high = libm_down(low, libm, tiny), -libm_down(-high, libm, tiny)
        low, high = outward(low, high, r, a, 0.0 if x > 0.0 else -math.inf, flush, gate, limit)
        # A subnormal argument may count as 0, the pole.
        high = math.inf if (x > 0.0) & (x < flush) else high
        low = -math.inf if (y < 0.0) & (y > -flush) else low
        infinite = (x == y) & (x > FP64_MAX)
        low, high = (lo[i] if infinite else low), (hi[i] if infinite else high)
        top = isnan(x) | ((x <= 0.0) & ((np.floor(x) != np.floor(y)) | (np.floor(x) == x))) | (x < -FP64_MAX)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def close_lgamma(alo, ahi, lo, hi, r, a, flush, gate, limit, libm):  # type: ignore[no-untyped-def]
    """ln |gamma|: one minimum for x > 0, infinite at 0. Left of 0 points only, and none of (-23.0001, -2.2637), where
    CUDA documents no error because of the zeros near the poles.
    """
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        low, high = min(lo[i], hi[i]), max(lo[i], hi[i])
        low = min(low, LGAMMA_MIN) if (x < GAMMA_AT) & (y > GAMMA_AT) else low
        tiny = _LGAMMA_ERROR if libm >= LIBM else TINY
        low, high = libm_down(low, libm, tiny), -libm_down(-high, libm, tiny)
        low, high = outward(low, high, r, a, -math.inf, flush, gate, limit)
        high = math.inf if (x < flush) & (y > -flush) & (x != 0.0) else high
        high = math.inf if x == 0.0 else high
        exact = (x == y) & ((x == 0.0) | (x > FP64_MAX) | (((x == 1.0) | (x == 2.0)) & (lo[i] == 0.0)))
        low, high = (lo[i] if exact else low), (hi[i] if exact else high)
        undocumented = (x < 0.0) & ((x != y) | (x < -FP64_MAX) | (np.floor(x) == x) | ((x > -23.0001) & (x < -2.2637)))
        top = isnan(x) | undocumented
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved
