"""Elementwise arithmetic on intervals: + - * / fma, remainder, sign and integral rounding.

Every result contains the exact real value for any choice of reals in the operands, and every value the target may
round it to. Formats below fp32 may be computed in fp32 first, so both roundings are enclosed. Since the exact product
lies inside the interval of `mul`, a following `add` also encloses the contracted fused multiply-add.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from interval_ops.arithmetic import kernels
from interval_ops.arithmetic.broadcast import as_bounds, elementwise
from interval_ops.arithmetic.hull import overflow_gate, rounding_gate
from interval_ops.bounds import Pair, each, is_point
from interval_ops.formats.model import FP32, Format
from interval_ops.profiles.profile import FnError, Profile

_F64 = (np.float64, np.float64)
# The float64 evaluation of |x| r + a and its addition to x, relative to x.
FLOAT64_SLACK = 2.0**-50


def add(a: Pair, b: Pair, fmt: Format, profile: Profile) -> Pair:
    """a + b: hull of the exact sum and its rounding, at both ends. Source: IEEE 754-2019, 5.4.1; numerics of Knuth's
    TwoSum decide whether float64 itself was exact. inf - inf gives top.
    """
    return _sum(a, b, 1.0, fmt, profile)


def sub(a: Pair, b: Pair, fmt: Format, profile: Profile) -> Pair:
    """a - b, as `add`. A common mistake: a - a of an interval is not zero here, the operands count as independent."""
    return _sum(a, (b[1], b[0]), -1.0, fmt, profile)


def _sum(a: Pair, b: Pair, sign: float, fmt: Format, profile: Profile) -> Pair:
    gate = rounding_gate(fmt, profile.muted("arith"))
    if is_point(a) and is_point(b):
        out = elementwise(kernels.add_points, (a[0], b[0]), _F64, sign, gate)
    else:
        out = elementwise(kernels.add_intervals, (*a, *b), _F64, sign, gate)
    return _finish(out, fmt, profile, "arith")


def mul(a: Pair, b: Pair, fmt: Format, profile: Profile) -> Pair:
    """a * b: least and greatest of the four products of ends, with their roundings; 0 * inf gives top, also
    where they lie inside of the operands.

    Products of fp32 numbers are exact in float64 (48 bits). Underflow: the exact product and the 0 or subnormal it
    rounds to are both inside.
    """
    gate = rounding_gate(fmt, profile.muted("arith"))
    if is_point(a) and is_point(b):
        out = elementwise(kernels.mul_points, (a[0], b[0]), _F64, gate)
    elif is_point(a) or is_point(b):
        scaled, factor = (a, b[0]) if is_point(b) else (b, a[0])
        out = elementwise(kernels.scale_intervals, (*scaled, factor), _F64, gate)
    else:
        out = elementwise(kernels.mul_intervals, (*a, *b), _F64, gate)
    return _finish(out, fmt, profile, "arith")


def square(a: Pair, fmt: Format, profile: Profile) -> Pair:
    """a * a for one and the same value: never negative, unlike `mul(a, a)` of an interval that straddles 0."""
    if is_point(a):
        return mul(a, a, fmt, profile)
    gate = rounding_gate(fmt, profile.muted("arith"))
    return _finish(elementwise(kernels.square_intervals, a, _F64, gate), fmt, profile, "arith")


def fma(a: Pair, b: Pair, c: Pair, fmt: Format, profile: Profile) -> Pair:
    """a * b + c with one rounding (PTX `fma.rn`, LLVM `llvm.fma`).

    bf16 and fp8: some targets have no fused instruction for them (AMD: v_mul, v_add), so the product's rounding is
    enclosed as well.
    """
    if fmt.p < 11:
        return add(mul(a, b, fmt, profile), c, fmt, profile)
    gate = rounding_gate(fmt, profile.muted("arith"))
    return _finish(elementwise(kernels.fma_intervals, (*a, *b, *c), _F64, gate), fmt, profile, "arith")


def div(a: Pair, b: Pair, fmt: Format, profile: Profile, kind: str = "div") -> Pair:
    """a / b within the profile's error of function `kind` ("div": `/` and fdiv, "div_rn": correctly rounded).

    A divisor that contains 0 gives [-inf, inf], the sign of a zero being open; 0/0 and inf/inf give top. fp16 and
    bf16 divide in fp32 and round once more. Source of `div` on NVIDIA: PTX ISA 8, div.full.f32, 2 ulp over the
    full range; a constant divisor becomes its reciprocal within 2 ulp and a product (PTX of Triton 3.9).
    """
    muted = profile.muted("function")
    error = FnError(0.0) if muted else profile.fn(kind, fmt.name)
    wide = fmt if fmt.bits == 64 else FP32
    if muted or correctly_rounded(error, wide):
        params = (0.0, 0.0, 0.0, rounding_gate(fmt, muted))
    else:
        flush = wide.min_normal if error.ftz else 0.0
        params = (error.r + FLOAT64_SLACK, error.a, flush, overflow_gate(wide))
    return _finish(elementwise(kernels.div_intervals, (*a, *b), _F64, *params), fmt, profile, "function")


def correctly_rounded(error: FnError, fmt: Format) -> bool:
    """Whether a profile entry means round-to-nearest of `fmt` (zero ulp), not merely a bound of that size."""
    near = error.r <= fmt.u and error.a <= max(fmt.half_subnormal, 2.0**-1074)
    return near and not error.ftz and error.until == math.inf


def fmod(a: Pair, b: Pair, fmt: Format, profile: Profile) -> Pair:
    """x % y as compiled: x - trunc(q) y in one fma, q = x / y correctly rounded; and the exact C remainder.

    Neither is monotone. Where every choice of x, y and q has the same integer quotient the result is linear in x and
    y. Elsewhere y (x/y - n) with n = trunc((x/y)(1 + d)), |d| <= u, lies in [-|x| u, |y| + |x| u] for x >= 0, mirrored
    for x <= 0. Source: PTX of Triton 3.9 (div.rn, cvt.rzi, fma). A common mistake: the ends of 5 +- 1 ulp mod 5 are
    4.9999995 and 4.8e-7, but 0 is legal. A divisor that contains 0 or infinite operands give top.
    """
    muted = profile.muted("function")
    u = 2.0**-50 if muted or fmt.bits == 64 else FP32.u * (1 + 2.0**-20)
    out = elementwise(kernels.fmod_intervals, (*a, *b), _F64, u, rounding_gate(fmt, muted))
    return _finish(out, fmt, profile, "function")


def neg(a: Pair) -> Pair:
    if is_point(a):
        lo = np.negative(a[0], dtype=np.float64)
        return lo, lo
    return np.negative(a[1], dtype=np.float64), np.negative(a[0], dtype=np.float64)


def abs_(a: Pair) -> Pair:
    if is_point(a):
        lo = np.abs(a[0], dtype=np.float64)
        return lo, lo
    lo, hi, _ = elementwise(kernels.abs_intervals, a, _F64)
    return lo, hi


def floor(a: Pair, fmt: Format = FP32, profile: Profile | None = None) -> Pair:
    """Exact and monotone; where the target flushes subnormal inputs, floor(-1e-40) may be 0 as well as -1.

    Without a profile the flush is assumed possible.
    """
    return _integral(np.floor, a, fmt, profile)


def ceil(a: Pair, fmt: Format = FP32, profile: Profile | None = None) -> Pair:
    """As `floor`."""
    return _integral(np.ceil, a, fmt, profile)


def trunc(a: Pair) -> Pair:
    return _ends(np.trunc, a)


def rint(a: Pair) -> Pair:
    """Round to an integral value, ties to even."""
    return _ends(np.rint, a)


def _ends(function: np.ufunc, a: Pair) -> Pair:
    return each(a, lambda end: function(end, dtype=np.float64))


def _integral(function: np.ufunc, a: Pair, fmt: Format, profile: Profile | None) -> Pair:
    # PTX cvt.rmi.ftz / cvt.rpi.ftz: the same flush-to-zero build flag as ex2.approx.ftz, hence that entry.
    flushes = fmt.bits == 32 and (profile is None or (not profile.muted("function") and profile.fn("exp2").ftz))
    lo, hi = as_bounds(a)
    if not flushes or not (_subnormal(lo).any() or _subnormal(hi).any()):
        return _ends(function, (lo, hi))
    low, high = function(lo), function(hi)
    return np.where(_subnormal(lo), np.minimum(low, 0.0), low), np.where(_subnormal(hi), np.maximum(high, 0.0), high)


def _subnormal(x: np.ndarray) -> np.ndarray:
    return (np.abs(x) < FP32.min_normal) & (x != 0)


def _finish(out: tuple[Any, ...], fmt: Format, profile: Profile, cause: str) -> Pair:
    """The result in its final format: a second rounding below fp32, one object where every lane is a point."""
    lo, hi, same = out
    muted = profile.muted(cause)
    if fmt.bits == 8 and not muted:
        from interval_ops.formats.casting import cast_interval

        return cast_interval(lo, hi, FP32, fmt, profile)
    if fmt.bits == 16 and not muted:
        same = kernels.round_outward(lo.reshape(-1), hi.reshape(-1), fmt.gate)
    # Without rounding an end point need not be a number of the format, so it must not pass for a point.
    return (lo, lo) if same and (fmt.bits == 64 or not muted) else (lo, hi)
