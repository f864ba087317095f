"""Elementary functions of one argument on intervals, exact but for what the evaluation itself rounds.

Monotone functions are evaluated at the ends with 40 bits to spare; the result is moved outward by far more than mpmath
may be off. Waves, functions with poles and inverse error functions have their own rooms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
from mpmath import libmp
from mpmath.libmp import finf, fninf, fone, from_int, fzero

from render.witness import balls as b
from render.witness import bessel, inverses, waves
from render.witness.balls import PREC, Interval, Maybe, Raw

_ctx = mpmath.MPContext()
_ctx.prec = PREC + 40
_PAD = b.power(-PREC + 20)
_FAR = 4000
"""Binary exponents beyond every format: numbers out there need no more digits."""

_EVERYWHERE = (fninf, finf)
_NOT_NEGATIVE = (fzero, finf)
_UNIT = (libmp.mpf_neg(fone), fone)
_MONOTONE = tuple[Callable[[Any], Any], Interval]

INCREASING: dict[str, _MONOTONE] = {
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
    "cyl_bessel_i1": (lambda x: _ctx.besseli(1, x), _EVERYWHERE),
    "atan": (_ctx.atan, _EVERYWHERE),
    "asin": (_ctx.asin, _UNIT),
    "atanh": (_ctx.atanh, _UNIT),
    "acosh": (_ctx.acosh, (fone, finf)),
    "erfinv": (lambda x: _ctx.make_mpf(inverses.erfinv(x._mpf_)), _UNIT),
    "normcdfinv": (lambda x: _ctx.make_mpf(inverses.normcdfinv(x._mpf_)), (fzero, fone)),
}


def _scaled_erfc(x: Any) -> Any:
    """exp(x^2) erfc(x); far out by its first term, which is within x^-2 / 2 of it (NIST DLMF 7.12.1)."""
    if x > 2**200:
        return 1 / (x * _ctx.sqrt(_ctx.pi))
    with _ctx.workprec(_ctx.prec + 2 * max(0, int(_ctx.mag(x)))):
        return _ctx.exp(x * x) * _ctx.erfc(x)


DECREASING: dict[str, _MONOTONE] = {
    "rsqrt": (lambda x: 1 / _ctx.sqrt(x) if x else _ctx.inf, _NOT_NEGATIVE),
    "erfc": (_ctx.erfc, _EVERYWHERE),
    "erfcx": (_scaled_erfc, _EVERYWHERE),
    "acos": (_ctx.acos, _UNIT),
    "erfcinv": (lambda x: _ctx.make_mpf(inverses.erfcinv(x._mpf_)), (fzero, from_int(2))),
}
NEVER_NEGATIVE = frozenset(["exp", "exp2", "exp10", "sqrt", "rsqrt", "erfc", "erfcx", "normcdf"])


def end(function: Callable[..., Any], direction: str, *x: Raw) -> Raw:
    """A bound of the function at a place from below ("f") or above ("c")."""
    y: Raw = function(*map(_ctx.make_mpf, x))._mpf_
    if y in (finf, fninf) or (y in (fzero, fone, libmp.mpf_neg(fone)) and all(a in _EXACT for a in x)):
        return y
    if y[1] and abs(b.binary_exponent(y)) > _FAR:
        return _far(y, direction)
    room = libmp.mpf_add(libmp.mpf_mul(libmp.mpf_abs(y), _PAD), b.power(-_FAR))
    return b.down(y, libmp.mpf_neg(room)) if direction == "f" else b.up(y, room)


_EXACT = (fzero, fone, from_int(2), fninf, finf)
"""Arguments at which a result of 0, 1 or -1 is exact."""


def _far(y: Raw, direction: str) -> Raw:
    """A bound of a number whose exponent is beyond every format."""
    small = b.binary_exponent(y) < 0
    inner, outer = (fzero, b.power(-_FAR)) if small else (b.power(_FAR), finf)
    below = b.less(y, fzero)
    x = outer if (direction == "f") == below else inner
    return libmp.mpf_neg(x) if below and x != fzero else x


def ends(function: Callable[..., Any], x: Interval, rising: bool = True) -> Interval:
    """The range of a monotone function."""
    first, last = x if rising else (x[1], x[0])
    return end(function, "f", first), end(function, "c", last)


def exact(name: str, x: Maybe) -> Maybe:
    """The range of the function over x; anything where x leaves the domain."""
    if x is None:
        return None
    if name in _OTHER:
        return _OTHER[name](x)
    rising = name in INCREASING
    function, domain = (INCREASING if rising else DECREASING)[name]
    if b.less(x[0], domain[0]) or b.less(domain[1], x[1]):
        return None
    return ends(function, x, rising)


def _cosh(x: Interval) -> Maybe:
    return ends(_ctx.cosh, b.sorted_magnitudes(x))


def _bessel_i0(x: Interval) -> Maybe:
    return ends(lambda v: _ctx.besseli(0, v), b.sorted_magnitudes(x))


def _bessel(kind: str, n: int) -> Callable[[Interval], Maybe]:
    return lambda x: bessel.values(kind, n, x)


def _tan(x: Interval) -> Maybe:
    """Rising between poles, which are the zeros of the cosine."""
    if b.infinite(x) or not b.less(libmp.mpf_sub(x[1], x[0]), from_int(3)):
        return None
    cosine = waves.cos(x)
    return None if cosine is None or b.has_zero(cosine) else ends(_ctx.tan, x)


def _rcbrt(x: Interval) -> Maybe:
    """Falling on either side of 0."""
    if b.has_zero(x):
        return _EVERYWHERE if x[0] != x[1] else None
    return ends(lambda v: 1 / INCREASING["cbrt"][0](v), x, rising=False)


def _gamma(kind: int) -> Callable[[Interval], Maybe]:
    def rule(x: Interval) -> Maybe:
        """mpmath's interval gamma function; anything where a pole may lie inside, or a log of a magnitude below 0."""
        if b.infinite(x) or not b.less(fzero, x[0]):
            return _left_gamma(x, kind)
        found: Interval = libmp.mpi_gamma(x, PREC, kind)
        return end(_same, "f", found[0]), end(_same, "c", found[1])

    return rule


def _same(x: Any) -> Any:
    return x


def _left_gamma(x: Interval, kind: int) -> Maybe:
    """At a point below 0 that is no pole; wider intervals there are left open."""
    if x[0] != x[1] or b.infinite(x) or libmp.mpf_floor(x[0], PREC) == x[0]:
        return None
    function = _ctx.gamma if kind == 0 else (lambda v: _ctx.log(abs(_ctx.gamma(v))))
    return ends(function, x)


_OTHER: dict[str, Callable[[Interval], Maybe]] = {
    "sin": waves.sin,
    "cos": waves.cos,
    "sinpi": waves.sinpi,
    "cospi": waves.cospi,
    "cosh": _cosh,
    "tan": _tan,
    "rcbrt": _rcbrt,
    "tgamma": _gamma(0),
    "lgamma": _gamma(3),
    "cyl_bessel_i0": _bessel_i0,
    "j0": _bessel("j", 0),
    "j1": _bessel("j", 1),
    "y0": _bessel("y", 0),
    "y1": _bessel("y", 1),
}
KNOWN = frozenset([*INCREASING, *DECREASING, *_OTHER])
