"""sin, cos, sinpi and cospi on intervals: both ends, and the extrema between them."""

from __future__ import annotations

import mpmath
from mpmath import libmp
from mpmath.libmp import fone

from render.witness import balls as b
from render.witness.balls import PREC, Interval, Maybe, Raw

_ctx = mpmath.MPContext()
_ctx.prec = PREC + 40
_MINUS = libmp.mpf_neg(fone)


def sin(x: Interval) -> Maybe:
    return None if b.infinite(x) else libmp.mpi_sin(x, PREC)  # type: ignore[no-any-return]


def cos(x: Interval) -> Maybe:
    return None if b.infinite(x) else libmp.mpi_cos(x, PREC)  # type: ignore[no-any-return]


def sinpi(x: Interval) -> Maybe:
    return _half_turns(x, "sinpi", libmp.mpf_shift(fone, -1))


def cospi(x: Interval) -> Maybe:
    return _half_turns(x, "cospi", libmp.fzero)


def _half_turns(x: Interval, name: str, top: Raw) -> Maybe:
    """A wave of period 2 with its maximum 1 at `top`, its minimum -1 one further; places are exact numbers."""
    if b.infinite(x):
        return None
    function = getattr(_ctx, name)
    values = [function(_ctx.make_mpf(end))._mpf_ for end in set(x)]
    room = b.power(-PREC + 20)
    low, high = (libmp.mpf_pos(v, PREC, way) for v, way in ((b.least(values), "f"), (b.most(values), "c")))
    whole = (libmp.fzero, fone, _MINUS)
    low = low if low in whole else b.most((_MINUS, b.down(low, libmp.mpf_neg(libmp.mpf_mul(room, libmp.mpf_abs(low))))))
    high = high if high in whole else b.least((fone, b.up(high, libmp.mpf_mul(room, libmp.mpf_abs(high)))))
    high = fone if _meets(x, top) else high
    low = _MINUS if _meets(x, libmp.mpf_add(top, fone)) else low
    return low, high


def _meets(x: Interval, place: Raw) -> bool:
    """Whether some place + 2 k lies in x."""
    first, last = (libmp.mpf_shift(libmp.mpf_sub(end, place), -1) for end in x)
    return bool(libmp.mpf_le(libmp.mpf_ceil(first, 5000), libmp.mpf_floor(last, 5000)))


__all__ = ["cos", "cospi", "sin", "sinpi"]
