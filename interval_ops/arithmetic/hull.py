"""Scalar building blocks of the elementwise kernels: rounding, exactness tests and outward slack.

Everything here is branch-free, so that LLVM turns a loop over it into vector code. `nearest` is `rounding.rn` without
its early exit. A gate with factor 0 (`EXACT`) makes `nearest` the identity: no rounding by the target, as for fp64
(where float64 slack alone is used) and for muted causes.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from interval_ops.compiled import compiled
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.formats.rounding import TINY, Gate, _bits, _float

FP64_MAX = FP64.max
EXACT: Gate = (0.0, 0.0, 0.0, FP64_MAX)

_EXPONENT_MASK = 0x7FF0000000000000
_STEP = 2.0**-53 * (1 + 2.0**-52)
# Below this magnitude the error of a float64 product or quotient may itself underflow, so an fma residual of zero
# proves nothing (2**-1074 * 2**106).
_RESIDUAL_LOST = 2.0**-968


def rounding_gate(fmt: Format, muted: bool) -> Gate:
    """Gate of the first rounding of an operation in `fmt`: formats below fp32 are computed in fp32 first."""
    return EXACT if muted or fmt.bits == 64 else FP32.gate


def overflow_gate(fmt: Format) -> Gate:
    """Gate that only turns magnitudes past the largest finite value into infinities."""
    return (0.0, 0.0, 0.0, fmt.max)


@intrinsic
def fused(typingctx, x, y, z):  # type: ignore[no-untyped-def]
    """x * y + z with one rounding (LLVM's fma, exact on any host)."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        double = ir.DoubleType()
        function = builder.module.declare_intrinsic("llvm.fma", [double], ir.FunctionType(double, [double] * 3))
        return builder.call(function, args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@compiled
def nearest(x: float, gate: Gate) -> float:
    """x rounded to nearest even; an infinity past `max`, NaN stays."""
    power = min(max(_float(_bits(x) & _EXPONENT_MASK), gate[0]), gate[3])
    c = power * gate[1]
    r = (x + c) - c
    return r * math.inf if abs(r) > gate[3] else r


@compiled
def down(x: float, inexact: bool) -> float:
    """Below every real that float64 may have rounded to x; x itself when the operation was exact.

    One number down, two at the edge of the subnormal ones: S. Rump, P. Zimmermann, S. Boldo, G. Melquiond, Computing
    predecessor and successor in rounding to nearest, BIT 49 (2009), algorithm 1. An overflow of float64 (x = inf from
    finite operands) leaves about the largest finite number.
    """
    y = min(x, FP64_MAX)
    return y - (abs(y) * _STEP + TINY) if inexact else x


@compiled
def up(x: float, inexact: bool) -> float:
    return -down(-x, inexact)


@compiled
def sum_error(a: float, b: float, s: float) -> float:
    """a + b - s for s = fl(a + b), exactly (TwoSum, Knuth); an infinity against s where finite numbers overflowed."""
    t = s - a
    overflow = (abs(s) > FP64_MAX) & (abs(a) <= FP64_MAX) & (abs(b) <= FP64_MAX)
    return -s if overflow else (a - (s - t)) + (b - t)


@compiled
def zero_by_infinity(a: float, b: float, c: float, d: float) -> bool:
    """Whether one of [a, b], [c, d] holds 0 and the other an infinity, which an end is where an execution overflows."""
    zero, other = (a <= 0.0) & (b >= 0.0), (c <= 0.0) & (d >= 0.0)
    return (zero & ((c < -FP64_MAX) | (d > FP64_MAX))) | (other & ((a < -FP64_MAX) | (b > FP64_MAX)))


@compiled
def product_inexact(x: float, y: float, p: float) -> bool:
    """Whether p = fl(x * y) differs, or may differ, from x * y."""
    lost = (abs(p) < _RESIDUAL_LOST) & (x != 0.0) & (y != 0.0)
    return (abs(fused(x, y, -p)) > 0.0) | lost


@compiled
def quotient_inexact(x: float, y: float, q: float) -> bool:
    """Whether q = fl(x / y) differs, or may differ, from x / y."""
    lost = ((abs(q) < _RESIDUAL_LOST) | (abs(x) < _RESIDUAL_LOST)) & (x != 0.0)
    return (abs(fused(q, y, -x)) > 0.0) | lost


@compiled
def widen_down(x: float, r: float, a: float) -> float:
    """x (1 - r) - a for positive x, and so on by sign; infinities stay, inf - inf r must not become NaN."""
    return x - (abs(x) * r + a) if abs(x) <= FP64_MAX else x


@compiled
def flush_lower(x: float, flush: float) -> float:
    """Lower end after subnormals may have become zero: (0, flush) -> 0. `flush` = 0 keeps everything."""
    return 0.0 if (x > 0.0) & (x < flush) else x


@compiled
def flush_upper(x: float, flush: float) -> float:
    return 0.0 if (x < 0.0) & (x > -flush) else x
