"""Wide values: pairs (lo, hi) of exact points, ends included, infinities allowed; None is "anything, NaN included".

Operations work on the ends, rounded outward. Of a single point both ends are one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from render.exact.points import FULL, INF, NINF, ZERO, Ball, Point, down, least, most, number, precision, up

Interval = tuple[Point, Point]
Maybe = Interval | None
NOTHING: Interval = (ZERO, ZERO)
"""The number 0."""


def point(x: float) -> Maybe:
    """An exact number; NaN is anything."""
    if x != x:
        return None
    exact = number(x)
    return exact, exact


def interval(lo: float, hi: float) -> Maybe:
    if lo == hi:
        exact = Ball(lo)
        return exact, exact
    return None if lo != lo or hi != hi else (Ball(lo), Ball(hi))


def single(x: Interval) -> bool:
    """Whether it is one number."""
    return x[0] is x[1] or bool(x[0] == x[1])


def enclosed(x: Ball) -> Maybe:
    """The ends of a ball."""
    if x.is_nan():
        return None
    return (x, x) if x.is_exact() else (x.lower(), x.upper())


def cut(x: Ball) -> Interval:
    """The ends of a ball that was made with more bits than are in force now."""
    low, high = x.lower(), x.upper()
    return (low, low) if low == high else (low, high)


def ends(x: Interval) -> tuple[Point, ...]:
    """Both, or the one there is."""
    return x[:1] if single(x) else x


def hull(*xs: Maybe) -> Maybe:
    known = [x for x in xs if x is not None]
    if len(known) < len(xs):
        return None
    return least([x[0] for x in known]), most([x[1] for x in known])


def neg(x: Maybe) -> Maybe:
    if x is None:
        return None
    if x[0] is x[1]:
        end = -x[0]
        return end, end
    return -x[1], -x[0]


def has_zero(x: Interval) -> bool:
    return bool(x[0] <= 0 <= x[1])


def inside(x: Interval, y: Interval) -> bool:
    """Whether y holds x and more on either side."""
    return bool(y[0] < x[0] and x[1] < y[1])


def apart(x: Interval, y: Interval) -> bool:
    """Whether they have no number in common."""
    return bool(x[1] < y[0] or y[1] < x[0])


def infinite(x: Interval) -> bool:
    return INF in x or NINF in x


def magnitude(x: Interval) -> Point:
    """Largest |x|."""
    low, high = abs(x[0]), abs(x[1])
    return high if low < high else low


def magnitudes(x: Interval) -> Interval:
    """Least and largest |x|."""
    low, high = x
    if low >= 0:
        return x
    if high <= 0:
        return neg(x)  # type: ignore[return-value]
    return ZERO, magnitude(x)


def add(x: Maybe, y: Maybe) -> Maybe:
    """x + y; opposite infinities give anything."""
    if x is None or y is None:
        return None
    if x[0] is x[1] and y[0] is y[1]:
        return enclosed(x[0] + y[0])
    if (x[1] == INF and y[0] == NINF) or (x[0] == NINF and y[1] == INF):
        return None
    return down(x[0], y[0]), up(x[1], y[1])


def sub(x: Maybe, y: Maybe) -> Maybe:
    return add(x, neg(y))


def mul(x: Maybe, y: Maybe) -> Maybe:
    """x y; 0 times infinity gives anything."""
    if x is None or y is None:
        return None
    if x[0] is x[1] and y[0] is y[1]:
        return enclosed(x[0] * y[0])
    if x[0] > 0 and y[0] > 0:
        return (x[0] * y[0]).lower(), (x[1] * y[1]).upper()
    if (has_zero(x) and infinite(y)) or (has_zero(y) and infinite(x)):
        return None
    return _corners([a * c for a in x for c in y])


def _corners(balls: Sequence[Ball]) -> Interval:
    return least([v.lower() for v in balls]), most([v.upper() for v in balls])


def square(x: Maybe) -> Maybe:
    """x x of one and the same value: never negative."""
    if x is None:
        return None
    low, high = magnitudes(x)
    return enclosed(low * low) if low is high else ((low * low).lower(), (high * high).upper())


def div(x: Maybe, y: Maybe) -> Maybe:
    """x / y; a divisor with 0 inside gives anything, and so do two infinities."""
    if x is None or y is None or has_zero(y) or (infinite(x) and infinite(y)):
        return None
    if x[0] is x[1] and y[0] is y[1]:
        return enclosed(x[0] / y[0])
    return _corners([a / c for a, c in product(ends(x), ends(y))])


def spread(x: Maybe, by: Point) -> Maybe:
    """[lo - by, hi + by]."""
    return None if x is None else (down(x[0], -by), up(x[1], by))


def total(terms: Sequence[Interval]) -> Interval:
    """The exact sum, rounded once; no two infinities of opposite signs."""
    with precision(FULL):
        low = high = sum([x[0] for x in terms], ZERO)
        if not all(x[0] is x[1] for x in terms):
            high = sum([x[1] for x in terms], ZERO)
    return cut(low) if low is high else (low.lower(), high.upper())
