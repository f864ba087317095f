"""Elementary functions on intervals, and the documented errors of approximate ones.

Monotone functions are evaluated at the ends with 40 bits to spare; the result is moved outward by far more than mpmath
may be off. sin and cos come from mpmath's interval functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
from mpmath import libmp
from mpmath.libmp import finf, fninf, fone, fzero

from interval_ops.formats import Format
from render.witness import balls as b
from render.witness.balls import FP32, PREC, Interval, Maybe, Raw

_ctx = mpmath.MPContext()
_ctx.prec = PREC + 40
_PAD = b.power(-PREC + 20)
_FAR = 4000
"""Binary exponents beyond every format: numbers out there need no more digits."""

_EVERYWHERE = (fninf, finf)
_NOT_NEGATIVE = (fzero, finf)
_UNIT = (libmp.mpf_neg(fone), fone)

INCREASING: dict[str, tuple[Callable[[Any], Any], Interval]] = {
    "exp": (_ctx.exp, _EVERYWHERE),
    "exp2": (lambda x: _ctx.power(2, x), _EVERYWHERE),
    "exp10": (lambda x: _ctx.power(10, x), _EVERYWHERE),
    "expm1": (_ctx.expm1, _EVERYWHERE),
    "log": (_ctx.log, _NOT_NEGATIVE),
    "log2": (lambda x: _ctx.log(x) / _ctx.log(2), _NOT_NEGATIVE),
    "log10": (lambda x: _ctx.log(x) / _ctx.log(10), _NOT_NEGATIVE),
    "log1p": (_ctx.log1p, (libmp.mpf_neg(fone), finf)),
    "sqrt": (_ctx.sqrt, _NOT_NEGATIVE),
    "cbrt": (lambda x: _ctx.cbrt(x) if x >= 0 else -_ctx.cbrt(-x), _EVERYWHERE),
    "erf": (_ctx.erf, _EVERYWHERE),
    "normcdf": (lambda x: _ctx.erfc(-x / _ctx.sqrt(2)) / 2, _EVERYWHERE),
    "tanh": (_ctx.tanh, _EVERYWHERE),
    "sinh": (_ctx.sinh, _EVERYWHERE),
    "asinh": (_ctx.asinh, _EVERYWHERE),
    "atan": (_ctx.atan, _EVERYWHERE),
    "asin": (_ctx.asin, _UNIT),
    "atanh": (_ctx.atanh, _UNIT),
    "acosh": (_ctx.acosh, (fone, finf)),
}
DECREASING: dict[str, tuple[Callable[[Any], Any], Interval]] = {
    "rsqrt": (lambda x: 1 / _ctx.sqrt(x) if x else _ctx.inf, _NOT_NEGATIVE),
    "erfc": (_ctx.erfc, _EVERYWHERE),
    "acos": (_ctx.acos, _UNIT),
}
NEVER_NEGATIVE = frozenset(["exp", "exp2", "exp10", "sqrt", "rsqrt", "erfc", "normcdf"])
KNOWN = frozenset([*INCREASING, *DECREASING, "sin", "cos", "cosh"])


def _end(function: Callable[[Any], Any], x: Raw, direction: str) -> Raw:
    """A bound of the function at x from below ("f") or above ("c")."""
    y: Raw = function(_ctx.make_mpf(x))._mpf_
    if y in (finf, fninf) or (x in (fzero, fninf, finf) and y in (fzero, fone, libmp.mpf_neg(fone))):
        return y
    if y[1] and abs(b.binary_exponent(y)) > _FAR:
        return _far(y, direction)
    room = libmp.mpf_add(libmp.mpf_mul(libmp.mpf_abs(y), _PAD), b.power(-_FAR))
    return b.down(y, libmp.mpf_neg(room)) if direction == "f" else b.up(y, room)


def _far(y: Raw, direction: str) -> Raw:
    """A bound of a number whose exponent is beyond every format."""
    small = b.binary_exponent(y) < 0
    inner, outer = (fzero, b.power(-_FAR)) if small else (b.power(_FAR), finf)
    below = b.less(y, fzero)
    x = outer if (direction == "f") == below else inner
    return libmp.mpf_neg(x) if below and x != fzero else x


def exact(name: str, x: Maybe) -> Maybe:
    """The range of the function over x; anything where x leaves the domain."""
    if x is None:
        return None
    if name in ("sin", "cos"):
        if b.infinite(x):
            return None
        found: Interval = (libmp.mpi_sin if name == "sin" else libmp.mpi_cos)(x, PREC)
        return found
    if name == "cosh":
        low, high = b.sorted_magnitudes(x)
        return _end(_ctx.cosh, low, "f"), _end(_ctx.cosh, high, "c")
    rising = name in INCREASING
    function, domain = (INCREASING if rising else DECREASING)[name]
    if b.less(x[0], domain[0]) or b.less(domain[1], x[1]):
        return None
    first, last = x if rising else (x[1], x[0])
    return _end(function, first, "f"), _end(function, last, "c")


def with_zero(x: Maybe, fmt: Format) -> Maybe:
    """x, and 0 where it holds subnormals, which a flushing target may take for 0."""
    if x is None:
        return None
    tiny = b.power(fmt.emin)
    low, high = b.sorted_magnitudes(x)
    if not b.less(low, tiny) or high == fzero:
        return x
    return b.least((x[0], fzero)), b.most((x[1], fzero))


def within(y: Maybe, error: dict[str, Any], fmt: Format, positive: bool) -> Maybe:
    """What a target returns for the exact numbers y, computed in fp32 or fp64: y (1 +- r) +- a, or one rounding."""
    if y is None:
        return None
    r, a, flush = b.raw(error["r"]), b.raw(error["a"]), bool(error["ftz"])
    if error["r"] <= fmt.u and error["a"] <= max(fmt.half_subnormal, 2.0**-1074) and not flush:
        return b.rounded(y, fmt)
    low = b.down(y[0], libmp.mpf_neg(_widening(y[0], r, a)))
    high = b.up(y[1], _widening(y[1], r, a))
    if positive:
        low = b.most((low, fzero))
    if b.too_large(high, fmt) and b.less(fzero, high):
        high = finf
    if b.too_large(low, fmt) and b.less(low, fzero):
        low = fninf
    out = (low, high)
    return with_zero(out, fmt) if flush else out


def _widening(x: Raw, r: Raw, a: Raw) -> Raw:
    if x in (finf, fninf):
        return fzero
    return b.up(b.times_up(libmp.mpf_abs(x), r), a)


def apply(name: str, x: Maybe, error: dict[str, Any], fmt: Format, through_exp2: bool = False) -> Maybe:
    """The function as a target computes it for operands in `fmt`: below fp32 in fp32, rounded once more."""
    wide = fmt if fmt.bits == 64 else FP32
    if x is not None and error["ftz"]:
        x = with_zero(x, wide)
    y = exact(name, x)
    if x in _SPECIAL:  # PTX and libdevice state the results for 0 and infinities; cos(0) = exp(0) = 1
        return y if y is None or not _inexact(y) else b.rounded(y, wide)
    if name == "exp" and through_exp2 and wide is FP32:
        out = b.hull(b.rounded(y, wide), _through_exp2(x, error))
    else:
        out = within(y, error, wide, name in NEVER_NEGATIVE)
    if out is not None and fmt.bits < 32:
        out = b.hull(out, (b.nearest(out[0], fmt), b.nearest(out[1], fmt)))
    return out


_SPECIAL = ((fzero, fzero), (finf, finf), (fninf, fninf))


def _inexact(y: Interval) -> bool:
    return y[0] != y[1]


def _through_exp2(x: Maybe, error: dict[str, Any]) -> Maybe:
    """2^p (1 +- r) +- a, p = x fl(log2 e) rounded to fp32: the sequence that NVIDIA targets run for exp."""
    log2e = b.to_format(_ctx.make_mpf((1 / _ctx.log(2))._mpf_)._mpf_, FP32)
    p = b.mul(x, (log2e, log2e))
    if p is None:
        return None
    return within(exact("exp2", (b.nearest(p[0], FP32), b.nearest(p[1], FP32))), error, FP32, True)
