"""Library functions of several arguments, on boxes of intervals.

The result contains f(x, y) for any reals in the operands and any value within the target's error of it. pow and atan2
are monotone in each argument between their singular lines, so the corners of a box give the range; hypot and the norms
are monotone in each magnitude. Exact ones (remainder, copysign, fdim up to its rounding, ldexp) need no error entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic.broadcast import elementwise
from interval_ops.arithmetic.selection import maximum
from interval_ops.bounds import Array, Pair, each, is_point
from interval_ops.formats.model import FP64, Format
from interval_ops.functions import doubles
from interval_ops.functions.elementary import Error, error_of
from interval_ops.functions.kernels import ErrorParams
from interval_ops.library import joint_kernels as kernels
from interval_ops.profiles.profile import Profile

_F64 = (np.float64, np.float64)


def _bounds(
    kernel: Callable[..., bool], inputs: tuple[Array, ...], fmt: Format, profile: Profile, *params: Any
) -> Pair:
    """One object where every lane is a point of the format; without rounding an end need not be a number of it."""
    lo, hi, same = elementwise(kernel, inputs, _F64, *params)
    return (lo, lo) if same and (fmt.bits == 64 or not profile.muted("function")) else (lo, hi)


def _error(name: str, fmt: Format, profile: Profile) -> Error:
    """An entry of the profile; the values of fp64 are those of `doubles`."""
    error = error_of(name, fmt, fmt, profile)
    return replace(error, libm=doubles.ERROR) if fmt.bits == 64 else error


def power(x: Pair, y: Pair, fmt: Format, profile: Profile) -> Pair:
    """x^y. A base that may be negative has a value only for one integer exponent, elsewhere top.

    Source of the error: entry `pow`. A common mistake: the ends of x alone, which miss that y turns the direction at 1.
    """
    error = _error("pow", fmt, profile)
    return _bounds(kernels.close_pow, (*_rescaled(x, error.flush), *y), fmt, profile, error.params)


def _rescaled(x: Pair, flush: float) -> Pair:
    """A flushing library scales a subnormal base by a power of two that is flushed as well: what it goes on with lies
    between 0 and the smallest normal number (NVIDIA's own code, run in `tests/test_vendor_oracle.py`)."""
    low, high = ((np.abs(end) < flush) & (end != 0) for end in x)
    if not (low.any() or high.any()):
        return x
    lo, hi = np.asarray(x[0], np.float64), np.asarray(x[1], np.float64)
    return np.where(low, np.where(lo > 0, 0.0, -flush), lo), np.where(high, np.where(hi > 0, flush, 0.0), hi)


def integer_power(x: Pair, n: Pair, fmt: Format, profile: Profile) -> Pair:
    """x^n for integers n, by pow or by any order of |n| - 1 multiplications and at most one division.

    The library does not document its error. A product of |n| equal factors takes |n| - 1 roundings in any order, each
    within u, and a quotient one more: r = (1 + u)^(|n| + 1) - 1, or that of `pow` if larger. With n < 0 the power of
    the base may overflow or lose digits below the normal range before the division: above max / 8 the result is open.
    """
    error = _error("pow", fmt, profile)
    r, a, flush, gate, limit, libm = error.params
    negative = n[0] < 0
    if not profile.muted("function"):
        largest = float(np.max(np.abs(n[0].astype(np.float64)), initial=1.0))
        r = max(r, math.expm1((largest + 1) * math.log1p(fmt.u)) * (1 + 2.0**-20))
        a = max(a, fmt.min_subnormal * largest)
        flush = max(flush, fmt.min_normal if negative.any() else 0.0)
    params = ErrorParams(r, a, flush, gate, limit, libm)
    lo, hi = _bounds(kernels.close_pow, (*_rescaled(x, error.flush), *n), fmt, profile, params)
    if negative.any() and not profile.muted("function"):
        edge = fmt.max / 8
        high, low = (hi > edge) & negative, (lo < -edge) & negative
        lo, hi = np.where(high, np.minimum(lo, edge), lo), np.where(low, np.maximum(hi, -edge), hi)
        lo, hi = np.where(low, -np.inf, lo), np.where(high, np.inf, hi)
    return lo, hi


def atan2(y: Pair, x: Pair, fmt: Format, profile: Profile) -> Pair:
    """Angle of (x, y) within entry `atan2`; [-pi, pi] where the box meets the origin or the cut left of it."""
    return _bounds(kernels.close_atan2, (*y, *x), fmt, profile, _error("atan2", fmt, profile).params)


def norm(name: str, args: tuple[Pair, ...], fmt: Format, profile: Profile) -> Pair:
    """hypot, norm3d, norm4d, or with a leading r the reciprocal: sqrt of a sum of squares within entry `name`."""
    error = _error(name, fmt, profile)
    total = _magnitude(args[0], error.flush)
    for arg in args[1:]:
        lo, hi, _ = elementwise(kernels.norm, (*total, *_magnitude(arg, error.flush)), _F64, error.libm)
        total = (lo, hi)
    return _bounds(kernels.close_norm, total, fmt, profile, name.startswith("r"), error.params)


def _magnitude(a: Pair, flush: float) -> Pair:
    """|a|, from 0 where a subnormal may be read as 0."""
    lo, hi = arithmetic.abs_(a)
    return np.where(lo < flush, 0.0, lo), hi


def remainder(x: Pair, y: Pair) -> Pair:
    """IEEE 754-2019, 5.3.1: x - n y, n the integer nearest to x / y; exact."""
    lo, hi, same = elementwise(kernels.remainders, (*x, *y), _F64)
    return (lo, lo) if same else (lo, hi)


def fdim(x: Pair, y: Pair, fmt: Format, profile: Profile) -> Pair:
    """max(x - y, 0) with one rounding; NaN stays. Source: C99 7.12.12.1."""
    lo, hi = arithmetic.sub(x, y, fmt, profile)
    zero = np.zeros((1,) * lo.ndim)
    return maximum((lo, hi), (zero, zero), propagate_nan=True)


def copysign(x: Pair, y: Pair) -> Pair:
    lo, hi, same = elementwise(kernels.copysigns, (*x, *y), _F64)
    return (lo, lo) if same else (lo, hi)


def nextafter(x: Pair, y: Pair, fmt: Format, flush: float = 0.0) -> Pair:
    """The neighbour of x towards y; for intervals the neighbours of both ends, towards either side.

    Where the library flushes, the neighbour of anything below `flush` may be any number up to it: NVIDIA's goes from a
    subnormal number to the smallest normal one.
    """
    lo, hi = _neighbours(x, y, fmt)
    if flush == 0.0:
        return lo, hi
    small = (x[0] < flush) & (x[1] > -flush) & ~np.isnan(lo)
    return np.where(small, np.minimum(lo, -flush), lo), np.where(small, np.maximum(hi, flush), hi)


def _neighbours(x: Pair, y: Pair, fmt: Format) -> Pair:
    carrier = np.float64 if fmt.bits == 64 else np.float32
    if is_point(x) and is_point(y):
        lo = np.nextafter(x[0].astype(carrier), y[0].astype(carrier)).astype(np.float64)
        return lo, lo
    low, high = (np.broadcast_to(end, np.broadcast_shapes(x[0].shape, y[0].shape)) for end in x)
    with np.errstate(over="ignore"):
        lo = np.nextafter(low.astype(carrier), carrier(-np.inf)).astype(np.float64)
        hi = np.nextafter(high.astype(carrier), carrier(np.inf)).astype(np.float64)
    open_ = np.isnan(low) | np.isnan(y[0])
    return np.where(open_, np.nan, np.minimum(lo, low)), np.where(open_, np.nan, np.maximum(hi, high))


def ldexp(x: Pair, n: Pair, fmt: Format, profile: Profile) -> Pair:
    """x 2^n for integers n: exact but for overflow and for one rounding below the normal range (IEEE 754 scaleB)."""
    if fmt.bits < 64:
        # 2^400 takes any fp32 number out of range, and the product with it is exact in float64.
        factor = np.exp2(np.clip(n[0], -400, 400).astype(np.float64))
        return arithmetic.mul(x, (factor, factor), fmt, profile)
    shift = np.clip(n[0], -2200, 2200).astype(np.int64)
    with np.errstate(all="ignore"):
        low, high = (np.ldexp(end.astype(np.float64), shift) for end in x)
    return _scaled_down(low, x[0]), -_scaled_down(-high, -x[1])


def _scaled_down(y: Array, x: Array) -> Array:
    """Below the exact x 2^n that float64 gives as y: overflow and subnormal results are not exact."""
    y = np.where(np.isposinf(y) & np.isfinite(x), FP64.max, y)
    return np.where((np.abs(y) < FP64.min_normal) & (x != 0), y - FP64.min_subnormal, y)


def logb(x: Pair) -> Pair:
    """floor(log2 |x|), which grows with |x|; -inf at 0."""
    lo, hi = (_exponent(end) for end in arithmetic.abs_(x))
    return (lo, lo) if is_point(x) else (lo, hi)


def _exponent(x: Array) -> Array:
    with np.errstate(all="ignore"):
        e = np.frexp(x)[1] - 1.0
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), e, np.abs(x)))


def round_away(x: Pair) -> Pair:
    """Nearest integer, halves away from zero (C99 round)."""
    return each(x, lambda end: away(end.astype(np.float64)))


def away(x: Array) -> Array:
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):  # infinities stay
        half = np.abs(x - whole) >= 0.5
    return np.where(half, whole + np.copysign(1.0, x), whole)


def saturate(x: Pair) -> Pair:
    """Clamped to [0, 1]; NaN gives 0 (CUDA: __saturatef)."""
    lo, hi = (np.where(np.isnan(end), rest, np.clip(end, 0.0, 1.0)) for end, rest in zip(x, (0.0, 1.0), strict=True))
    return (np.where(np.isnan(lo), 0.0, lo),) * 2 if is_point(x) else (lo, hi)


DIRECTIONS = {"rd": kernels.DOWN, "ru": kernels.UP, "rz": kernels.ZERO}


def directed(direction: str, exact: Pair, fmt: Format, muted: bool = False) -> Pair:
    """Hull of an exact result (float64 slack only) and its rounding in a direction: rd down, ru up, rz to zero.

    Rounding down an overflow gives the largest finite number, not infinity (IEEE 754-2019, 7.4).
    """
    if muted:
        return exact
    if fmt.bits == 64:
        lo, hi, _ = elementwise(kernels.outward_twice, exact, _F64)
        return lo, hi
    lo, hi, same = elementwise(kernels.directed, exact, _F64, DIRECTIONS[direction], fmt.gate)
    return (lo, lo) if same else (lo, hi)


def quiet(profile: Profile) -> Profile:
    """The profile without rounding: rules then give exact results up to float64."""
    return profile.mute("arith", "function", "cast")
