"""Ranges of Bessel functions: values in the middle of many pieces, and as far from there as the slope can lead.

|J_n'| <= 2 / pi, the mean of |sin t| (NIST DLMF 10.9.2). J_n^2 + Y_n^2 falls with x (10.9.30, Nicholson), so that its
root at the left end of a piece bounds Y_n there, and Y_n' = Y_(n-1) - (n / x) Y_n (10.6.2) with it.
"""

from __future__ import annotations

from typing import Any

import mpmath

from render.witness import balls as b
from render.witness.balls import PREC, Interval, Maybe

PIECES = 64

_ctx = mpmath.MPContext()
_ctx.prec = PREC + 40
_PAD = _ctx.mpf(2) ** (20 - PREC)
_TINY = _ctx.mpf(2) ** -4000


def values(kind: str, n: int, x: Interval) -> Maybe:
    """What J_n ("j") or Y_n ("y") may be over x; anything where Y_n has a pole or no value."""
    if b.infinite(x):
        return None
    low, high = map(_ctx.make_mpf, x)
    if kind == "y" and low <= 0:
        return None
    step, ends = (high - low) / PIECES, []
    for k in range(PIECES if step else 1):
        left = low + k * step
        y = _value(kind, n, left + step / 2)
        reach = abs(y) * _PAD + (_slope(kind, n, left) * step * (1 + _PAD) / 2 if step else 0)
        ends += [y - reach, y + reach]
    return b.down(min(ends)._mpf_, (-_TINY)._mpf_), b.up(max(ends)._mpf_, _TINY._mpf_)


def _value(kind: str, n: int, x: Any) -> Any:
    return _ctx.besselj(n, x) if kind == "j" else _ctx.bessely(n, x)


def _slope(kind: str, n: int, x: Any) -> Any:
    if kind == "j":
        return 2 / _ctx.pi
    return (_modulus(n - 1, x) + abs(n) / x * _modulus(n, x)) * (1 + _PAD)


def _modulus(n: int, x: Any) -> Any:
    return _ctx.sqrt(_ctx.besselj(n, x) ** 2 + _ctx.bessely(n, x) ** 2)
