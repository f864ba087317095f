"""Roundings of points to number formats, from the parameters (p, emin, max) of the formats alone."""

from __future__ import annotations

import math
from collections.abc import Callable

from interval_ops.formats.model import FORMATS, Format
from render.exact.intervals import Maybe
from render.exact.points import INF, NINF, Ball, Point, endless, least, most, number, parts, shifted

FP32 = FORMATS["fp32"]
_FLOAT64 = 53
_SMALL, _LARGE = 2.0**-1000, 2.0**1000
_CUTS: dict[str, Callable[[float], int]] = {"rtne": round, "rtz": math.trunc}


def to_format(x: Point, fmt: Format, mode: str = "rtne") -> Point:
    """x rounded once, with an unbounded largest exponent; infinities stay.

    `mode`: to nearest, ties to even ("rtne") or away from zero ("away"); towards zero ("rtz") or away from it ("up").
    """
    near = float(x)
    if mode in _CUTS and _SMALL <= abs(near) <= _LARGE and (fmt.p < _FLOAT64 - 1 or mode == "rtne"):
        known = x == near
        made = near
        if fmt.p < _FLOAT64:
            odd = near if known else _beside(x, near)
            place = max(math.frexp(odd)[1] - 1, fmt.emin) - fmt.p + 1
            made = math.ldexp(_CUTS[mode](math.ldexp(odd, -place)), place)
        return x if known and made == near else Ball(made)
    if endless(x):
        return x
    man, exp = parts(x)
    size = abs(man)
    place = max(size.bit_length() + exp - 1, fmt.emin) - fmt.p + 1
    shift = place - exp
    if not man or shift <= 0:
        return x
    if shift > size.bit_length() + 1:  # far below half a spacing
        kept = int(mode == "up")
    else:
        kept, rest, half = size >> shift, size & ((1 << shift) - 1), 1 << (shift - 1)
        nearest_up = rest > half or (rest == half and (mode == "away" or kept & 1))
        kept += bool(rest and (mode == "up" or (mode != "rtz" and nearest_up)))
    return shifted(number(-kept if man < 0 else kept), place)


def _beside(x: Point, near: float) -> float:
    """Of the two float64 numbers beside x the one with an odd last bit, which rounds to fewer bits as x does."""
    if int(math.ldexp(math.frexp(near)[0], _FLOAT64)) & 1:
        return near
    return math.nextafter(near, math.inf if x > near else -math.inf)


def too_large(x: Point, fmt: Format) -> bool:
    return bool(abs(x) > fmt.max)


def nearest(x: Point, fmt: Format) -> Point:
    """x as an operation in `fmt` rounds it: an infinity past the largest finite number."""
    y = to_format(x, fmt)
    return y if not too_large(y, fmt) else (NINF if y < 0 else INF)


def rounded(x: Maybe, fmt: Format) -> Maybe:
    """The exact numbers of x and what they round to; formats below fp32 directly or through fp32.

    Rounding is monotone, so the ends decide.
    """
    if x is None:
        return None
    lows = _roundings(x[0], fmt)
    return least(lows), most(lows if x[0] is x[1] else _roundings(x[1], fmt))


def _roundings(x: Point, fmt: Format) -> tuple[Point, ...]:
    if fmt.p >= FP32.p:
        return x, nearest(x, fmt)
    single = nearest(x, FP32)
    return x, nearest(x, fmt), single, nearest(single, fmt)
