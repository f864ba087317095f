"""The one rounding gate: every bound that leaves an operation passes through here, outward.

A bound is a pair of float64 arrays. Two things widen it: the rounding that the target performs (to the format of the
result) and the rounding that float64 itself performs while the bound is computed (`slack_down`, `slack_up`). The
functions below are scalar numba functions, inlined into the array kernels.

Rounding to a narrower format uses the classic constant trick: for |x| in [2**e, 2**(e+1)) and ulp = 2**(e-p+1),
(x + c) - c with c = 1.5 * 2**52 * ulp is x rounded to the nearest multiple of ulp, ties to even (Dekker 1971; exact
for |x| < 2**51 ulp). Below the smallest normal number the spacing stays that of emin, which gives gradual underflow.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from interval_ops.compiled import inlined
from interval_ops.formats.model import Format

Gate = tuple[float, float, float, float]
"""(2**emin, 1.5 * 2**(53 - p), 2**(1 - p), max), see `Format.gate`."""

EPS = 2.0**-52
"""One float64 spacing, relative: twice the unit roundoff, so one slack covers a correctly rounded operation."""

TINY = 2.0**-1074
_EXPONENT_MASK = 0x7FF0000000000000


def gate_of(fmt: Format) -> Gate:
    return fmt.gate


@intrinsic
def _bits(typingctx, x):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _float(typingctx, i):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def _single(typingctx, i):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), codegen


@inlined
def binade(x: float, gate: Gate) -> float:
    """2**max(e, emin), the power of two at the bottom of x's binade (finite x)."""
    return max(_float(_bits(x) & _EXPONENT_MASK), gate[0])


@inlined
def rn(x: float, gate: Gate) -> float:
    """x rounded to nearest, ties to even; past the largest finite value it becomes an infinity, NaN stays."""
    if not abs(x) <= gate[3] * 1.5:
        return x if x != x else math.copysign(math.inf, x)
    c = binade(x, gate) * gate[1]
    r = (x + c) - c
    return math.copysign(math.inf, r) if abs(r) > gate[3] else r


@inlined
def rd(x: float, gate: Gate) -> float:
    """Largest value of the format (or -inf) that is <= x; `max` where x lies above it."""
    if x > gate[3]:
        return gate[3] if x < math.inf else x
    if not x >= -gate[3]:
        return x if x != x else -math.inf
    c = binade(x, gate)
    r = (x + c * gate[1]) - c * gate[1]
    return r - c * gate[2] if r > x else r


@inlined
def ru(x: float, gate: Gate) -> float:
    """Smallest value of the format (or +inf) that is >= x; `-max` where x lies below it."""
    return -rd(-x, gate)


@inlined
def rz(x: float, gate: Gate) -> float:
    """x truncated towards zero; magnitudes past `max` give `max` (PTX `cvt.rz`), infinities stay."""
    return rd(x, gate) if x > 0 else ru(x, gate)


@inlined
def slack_down(x: float) -> float:
    """x moved down past the rounding of one float64 operation; zero stays zero (exact in every narrow format)."""
    return x - abs(x) * EPS


@inlined
def slack_up(x: float) -> float:
    return x + abs(x) * EPS


@inlined
def lower(x: float, gate: Gate) -> float:
    """Lower end of {exact x, x as the target rounds it to nearest}."""
    return min(x, rn(x, gate))


@inlined
def upper(x: float, gate: Gate) -> float:
    return max(x, rn(x, gate))
