"""Flat numba kernels of `functions`: they turn float64 values of a function at both ends into outward bounds.

`lo` and `hi` hold the values of the function on entry and the bounds on return, so a block is touched once.
"""

from __future__ import annotations

import math
from math import isnan
from typing import NamedTuple

import numpy as np

from interval_ops.arithmetic.hull import (
    FP64_MAX,
    down,
    flush_lower,
    flush_upper,
    fused,
    nearest,
    up,
    widen_down,
)
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import TINY, Gate

LIBM = 2.0**-49
"""Relative error granted to a float64 function of numpy (SVML: 4 ulp at most) or of the C library."""

LOG2E = float.fromhex("0x1.715476p+0")
"""log2(e) rounded to fp32, the multiplier of the compiled exp (0x3FB8AA3B)."""

_LN2, _LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
_SIXTH = 1.0 / 6.0


class ErrorParams(NamedTuple):
    """Relative and absolute error of the target, flush threshold, gate of one rounding, overflow threshold.

    `libm`: relative error of the float64 values that the bounds begin with.
    """

    r: float
    a: float
    flush: float
    gate: Gate
    limit: float
    libm: float = LIBM


class MonotoneParams(NamedTuple):
    """Domain (both ends), absolute error of the float64 value, least value, value at 0."""

    domain: tuple[float, float]
    tiny: float
    floor: float
    f0: float


class WaveParams(NamedTuple):
    """Revolutions per unit of the argument, place of a maximum in revolutions, value at 0."""

    turn: float
    phase: float
    f0: float


@compiled
def outward(low, high, r, a, floor, flush, gate, limit):  # type: ignore[no-untyped-def]
    """Error r, a of the target or one rounding to nearest, overflow past `limit`, a flush of subnormal results.

    The rounding matters for subnormal results, where half a spacing exceeds r.
    """
    near, far = nearest(low, gate), nearest(high, gate)
    low, high = widen_down(low, r, a), -widen_down(-high, r, a)
    low, high = max(min(low, near), floor), max(high, far)
    low, high = (-math.inf if low < -limit else low), (math.inf if high > limit else high)
    return flush_lower(low, flush), flush_upper(high, flush)


@compiled
def libm_down(y, libm, tiny):  # type: ignore[no-untyped-def]
    """Below the exact value for y within `libm` and `tiny` of it; an overflow leaves the largest finite number."""
    return widen_down(min(y, FP64_MAX), libm, tiny)


@compiled
def _root_rest(x, s):  # type: ignore[no-untyped-def]
    """s^2 - x for s = fl(sqrt x), its sign exact: where that could underflow, of numbers 2^54 times as large."""
    scale = 2.0**54 if x < 2.0**-900 else 1.0
    return fused(s * scale, s * scale, -(x * scale * scale))


@compiled
def root_below(x, s):  # type: ignore[no-untyped-def]
    """The number below the exact root for s = fl(sqrt x), which IEEE 754 rounds correctly; s where it is not above."""
    return down(s, _root_rest(x, s) > 0.0)


@compiled
def root_above(x, s):  # type: ignore[no-untyped-def]
    return up(s, _root_rest(x, s) < 0.0)


@compiled
def close_root(alo, ahi, lo, hi, floor, error):  # type: ignore[no-untyped-def]
    """`close` of the square root, exact at ends that are squares."""
    r, a, flush, gate, limit, _ = error
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        low, high = root_below(x, lo[i]), root_above(y, hi[i])
        low, high = outward(low, high, r, a, floor, flush, gate, limit)
        low = min(low, 0.0) if (x > 0.0) & (x < flush) else low
        special = (x == y) & ((x == 0.0) | (x > FP64_MAX))
        low, high = (lo[i] if special else low), (hi[i] if special else high)
        top = isnan(x) | (x < 0.0)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def close(alo, ahi, lo, hi, function, error):  # type: ignore[no-untyped-def]
    """A function that is monotone on [domain[0], domain[1]]; lo, hi hold its values ordered.

    `f0` is its value at 0, which a flushed argument gives. There and at infinities integral values (0, 1, infinities)
    are exact, as C99 annex F and the PTX tables of special values have it.
    """
    domain, tiny, floor, f0 = function
    r, a, flush, gate, limit, libm = error
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        low, high = libm_down(lo[i], libm, tiny), -libm_down(-hi[i], libm, tiny)
        low, high = outward(low, high, r, a, floor, flush, gate, limit)
        subnormal = ((x > 0.0) & (x < flush)) | ((y < 0.0) & (y > -flush))
        low, high = (min(low, f0) if subnormal else low), (max(high, f0) if subnormal else high)
        special = (x == y) & ((x == 0.0) | (abs(x) > FP64_MAX)) & (np.rint(lo[i]) == lo[i])
        low, high = (lo[i] if special else low), (hi[i] if special else high)
        top = isnan(x) | (x < domain[0]) | (y > domain[1])
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def _argument_error(x, gate):  # type: ignore[no-untyped-def]
    """2^p / e^x for p = fl32(x log2(e)): a factor 1 + t + ..., |t| < 3e-5 for |x| <= 200."""
    # Past 200 in magnitude e^x lies outside fp32 by far, and the factor does not matter.
    x = min(max(x, -200.0), 200.0)
    p = nearest(x * LOG2E, gate)
    t = fused(p, _LN2, -x) + p * _LN2_REST
    return 1.0 + t * (1.0 + t * (0.5 + t * _SIXTH))


@compiled
def close_exp(alo, ahi, lo, hi, r, a, flush, gate, limit, libm):  # type: ignore[no-untyped-def]
    """exp as 2^p with p = fl32(x log2(e)); lo, hi hold e^x. Hull of e^x and 2^p (1 +- r) +- a."""
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        exact_low, exact_high = libm_down(lo[i], libm, TINY), -libm_down(-hi[i], libm, TINY)
        low, high = exact_low * _argument_error(x, gate), exact_high * _argument_error(y, gate)
        low, high = widen_down(low, libm, 0.0), -widen_down(-high, libm, 0.0)
        low, high = outward(low, high, r, a, 0.0, flush, gate, limit)
        # The correctly rounded e^x as well, so that this target encloses an IEEE one.
        near, far = nearest(exact_low, gate), nearest(exact_high, gate)
        low, high = min(low, max(min(exact_low, near), 0.0)), max(high, max(exact_high, far))
        special = (x == y) & ((x == 0.0) | (abs(x) > FP64_MAX))
        low, high = (lo[i] if special else low), (hi[i] if special else high)
        top = isnan(x)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def meets_integer(start, stop):  # type: ignore[no-untyped-def]
    """Whether [start, stop] holds an integer, or comes so close that the ends cannot tell (within 1e-9)."""
    return np.floor(stop + 1e-9) >= np.ceil(start - 1e-9)


@compiled
def close_wave(alo, ahi, lo, hi, wave, error):  # type: ignore[no-untyped-def]
    """sin (phase = 1/4) or cos (phase = 0) of x turn revolutions; lo, hi hold its values at alo and ahi, in that order.

    Maxima lie at x turn = k + phase, minima half a turn later. Past 2^20 the reduction in float64 is too coarse to
    place them, so an interval there is the whole range.
    """
    turn, phase, f0 = wave
    r, a, flush, gate, limit, libm = error
    moved = False
    for i in range(lo.size):
        x, y = alo[i], ahi[i]
        start, stop = x * turn - phase, y * turn - phase
        wide = (x != y) & (max(abs(x), abs(y)) > 2.0**20)
        peak = (x != y) & meets_integer(start, stop)
        trough = (x != y) & meets_integer(start - 0.5, stop - 0.5)
        low, high = min(lo[i], hi[i]), max(lo[i], hi[i])
        low, high = libm_down(low, libm, TINY), -libm_down(-high, libm, TINY)
        low = -1.0 if wide | trough else low
        high = 1.0 if wide | peak else high
        low, high = outward(low, high, r, a, -math.inf, flush, gate, limit)
        subnormal = ((x > 0.0) & (x < flush)) | ((y < 0.0) & (y > -flush))
        low, high = (min(low, f0) if subnormal else low), (max(high, f0) if subnormal else high)
        zero = (x == 0.0) & (y == 0.0)
        low, high = (f0 if zero else low), (f0 if zero else high)
        top = isnan(x) | (abs(x) > FP64_MAX) | (abs(y) > FP64_MAX)
        moved |= top | (low != high)
        lo[i] = np.nan if top else low
        hi[i] = np.nan if top else high
    return not moved


@compiled
def erf(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = math.erf(x[i])


@compiled
def zero_pole(alo, ahi, lo, hi):  # type: ignore[no-untyped-def]
    """1/sqrt where the lower end is 0: a legal -0 gives -inf. Returns whether no lane was of that kind."""
    none = True
    for i in range(lo.size):
        if alo[i] == 0.0 and (ahi[i] > 0.0 or math.copysign(1.0, alo[i]) != math.copysign(1.0, ahi[i])):
            lo[i], hi[i] = -np.inf, np.inf
            none = False
    return none
