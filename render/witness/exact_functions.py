"""Functions of the vendor's library that are exact: remainders, signs, exponents, neighbours."""

from __future__ import annotations

from fractions import Fraction

from interval_ops.formats.model import Format
from render.exact import intervals as iv
from render.exact.intervals import Maybe
from render.exact.points import (
    FULL,
    INF,
    NINF,
    ZERO,
    Point,
    exponent,
    floor,
    least,
    most,
    number,
    parts,
    power,
    precision,
    rint,
    shifted,
)  # fmt: skip
from render.witness import casts


def ieee_remainder(x: Maybe, y: Maybe) -> Maybe:
    """x - n y, n the integer nearest to x / y (ties to even); [-|y| / 2, |y| / 2] where n is open."""
    ratio = iv.div(x, y)
    if ratio is None or iv.infinite(ratio) or x is None or y is None:
        return None
    half = shifted(iv.magnitude(y), -1)
    if x[0] == x[1] and y[0] == y[1]:
        n = round(_fraction(x[0]) / _fraction(y[0]))
        with precision(FULL):
            rest = x[0] - n * y[0]
        return iv.cut(rest)
    first, last = (rint(v) for v in ratio)
    tied = any(v - floor(v) == 0.5 for v in ratio)
    if first == last and not tied:
        found = iv.sub(x, iv.mul((first, first), y))
        if found is not None:
            return most((found[0], -half)), least((found[1], half))
    return -half, half


def _fraction(x: Point) -> Fraction:
    man, exp = parts(x)
    return Fraction(man) * Fraction(2) ** exp


def copysign(x: Maybe, y: Maybe) -> Maybe:
    """|x| with the sign of y; both signs where that is open (a zero may be -0)."""
    if x is None:
        return None
    size = iv.magnitudes(x)
    below = (-size[1], -size[0])
    if y is None or iv.has_zero(y):
        return iv.hull(size, below)
    return below if y[0] < ZERO else size


def positive_difference(x: Maybe, y: Maybe) -> Maybe:
    """max(x - y, 0), exactly."""
    found = iv.sub(x, y)
    return None if found is None else (most((found[0], ZERO)), most((found[1], ZERO)))


def logb(x: Maybe) -> Maybe:
    """floor(log2 |x|); -inf at 0, inf at infinities (C99 logb)."""
    if x is None:
        return None
    low, high = (_exponent_of(v) for v in iv.magnitudes(x))
    return low, high


def _exponent_of(x: Point) -> Point:
    if x == ZERO:
        return NINF
    return INF if x == INF else number(exponent(x))


def neighbours(x: Maybe, y: Maybe, fmt: Format) -> Maybe:
    """The numbers of the format next to x towards y; to either side where that is open."""
    if x is None or y is None:
        return None
    up = (x[0], _stepped(x[1], fmt, 1))
    down = (_stepped(x[0], fmt, -1), x[1])
    if x[1] < y[0]:
        return (_stepped(x[0], fmt, 1), up[1]) if x[0] == x[1] else up
    if y[1] < x[0]:
        return (down[0], _stepped(x[1], fmt, -1)) if x[0] == x[1] else down
    return x if x == y and x[0] == x[1] else iv.hull(up, down)


def _stepped(x: Point, fmt: Format, way: int) -> Point:
    """The nearest number of the format above (1) or below (-1); an infinity past the largest."""
    if x in (INF, NINF):
        return x if (x == INF) == (way > 0) else number(fmt.max * -way)
    with precision(FULL):
        moved = x + way * power(fmt.emin - fmt.p - 40)
        return casts.directed(moved, fmt, "ru" if way > 0 else "rd")


def scaled(x: Maybe, n: int) -> Maybe:
    """x 2^n."""
    if x is None:
        return None
    bounded = max(-6000, min(6000, n))
    low, high = (v if v in (INF, NINF) else shifted(v, bounded) for v in x)
    return low, high
