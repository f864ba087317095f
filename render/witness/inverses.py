"""Inverse error functions, to about 200 bits: Newton's method on erf and erfc, which mpmath evaluates.

erfcinv(y) for y <= 1 solves log erfc(r) = log y; everything else follows by exact subtractions.
"""

from __future__ import annotations

import mpmath
from mpmath import libmp
from mpmath.libmp import finf, fninf, fone, from_int, fzero

from render.witness.balls import PREC, Raw

_ctx = mpmath.MPContext()
_ctx.prec = PREC + 80
_HALF = libmp.mpf_shift(fone, -1)
_STEPS = 60


def erfinv(x: Raw) -> Raw:
    """For -1 <= x <= 1."""
    size = libmp.mpf_abs(x)
    if size == fone:
        return finf if x == fone else fninf
    if x == fzero:
        return fzero
    out = _central(size) if libmp.mpf_lt(size, _HALF) else _tail(libmp.mpf_sub(fone, size))
    return libmp.mpf_neg(out) if x[0] else out


def erfcinv(y: Raw) -> Raw:
    """For 0 <= y <= 2."""
    if y == fzero:
        return finf
    if libmp.mpf_le(y, _HALF):
        return _tail(y)
    return erfinv(libmp.mpf_sub(fone, y)) if libmp.mpf_le(y, fone) else libmp.mpf_neg(erfcinv_of_rest(y))


def erfcinv_of_rest(y: Raw) -> Raw:
    return erfcinv(libmp.mpf_sub(from_int(2), y))


def normcdfinv(p: Raw) -> Raw:
    """-sqrt(2) erfcinv(2 p) for 0 <= p <= 1."""
    inner = erfcinv(libmp.mpf_shift(p, 1))
    if inner in (finf, fninf, fzero):
        return libmp.mpf_neg(inner)
    found: Raw = (-_ctx.sqrt(2) * _ctx.make_mpf(inner))._mpf_
    return found


def _central(x: Raw) -> Raw:
    """erfinv(x) for 0 < x < 1/2."""
    goal = _ctx.make_mpf(x)
    r = goal * _ctx.sqrt(_ctx.pi) / 2
    for _ in range(_STEPS):
        step = (_ctx.erf(r) - goal) * _ctx.exp(r * r) * _ctx.sqrt(_ctx.pi) / 2
        r -= step
        if abs(step) <= abs(r) * _ctx.mpf(2) ** (-PREC - 40):
            break
    found: Raw = r._mpf_
    return found


def _tail(y: Raw) -> Raw:
    """erfcinv(y) for 0 < y <= 1/2."""
    goal = _ctx.log(_ctx.make_mpf(y))
    r = _ctx.sqrt(-goal)
    for _ in range(_STEPS):
        rest = _ctx.erfc(r)
        step = (_ctx.log(rest) - goal) * rest * _ctx.exp(r * r) * _ctx.sqrt(_ctx.pi) / 2
        r += step
        if abs(step) <= abs(r) * _ctx.mpf(2) ** (-PREC - 40):
            break
    found: Raw = r._mpf_
    return found
