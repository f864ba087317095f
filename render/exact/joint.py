"""Functions of several arguments on boxes: x^y, atan2, norms.

A function that is monotone in each argument while the others are held fixed takes its extrema over a box at corners:
moving one argument at a time to an end never loses ground.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from render.exact import intervals as iv
from render.exact.functions import value
from render.exact.intervals import Interval, Maybe
from render.exact.points import INF, ONE, ZERO, Ball, Point, endless, integer, is_whole, number, power

_FAR = power(13)
"""Binary exponents beyond every format: numbers out there need no more digits."""


def _corners(function: Callable[..., Maybe], box: Sequence[Interval]) -> Maybe:
    return iv.hull(*(function(*place) for place in product(*map(iv.ends, box))))


def _exactly(x: Point) -> Interval:
    return x, x


def raised(x: Maybe, y: Maybe) -> Maybe:
    """x^y; a base that may be negative needs one integer exponent."""
    if x is None or y is None:
        return None
    if x[0] >= 0:
        return _corners(_raised, (x, y))
    if not iv.single(y) or iv.infinite(y) or not is_whole(y[0]):
        return None
    return integer_power(x, integer(y[0]))


def _raised(x: Point, y: Point) -> Maybe:
    """C99 pow for x >= 0."""
    if y == 0 or x == 1:
        return _exactly(ONE)
    if x == 0 or x == INF:
        return _exactly(ZERO if (x == 0) == (y > 0) else INF)
    if endless(y):
        return _exactly(INF if (x > 1) == (y > 0) else ZERO)
    size = y * x.log_base(2)
    if size > _FAR:
        return power(1 << 13), INF
    if size < -_FAR:
        return ZERO, power(-(1 << 13))
    return iv.enclosed(value(lambda v: v**y, x))


def integer_power(x: Maybe, n: int) -> Maybe:
    """x^n: even in x or odd, with a pole at 0 for n < 0."""
    if x is None or (n < 0 and iv.has_zero(x)):
        return None if x is None or not iv.single(x) or n % 2 else (INF, INF)
    count = number(n)
    if n % 2 == 0:
        return _corners(_raised, (iv.magnitudes(x), _exactly(count)))
    return iv.hull(*(_signed(end, count) for end in iv.ends(x)))


def _signed(x: Point, n: Point) -> Maybe:
    return iv.neg(_raised(-x, n)) if x < 0 else _raised(x, n)


def atan2(y: Maybe, x: Maybe) -> Maybe:
    """Angle of (x, y); everything from -pi to pi where the box meets the origin or the cut left of it."""
    if x is None or y is None:
        return None
    if iv.has_zero(y) and not x[0] > 0:
        pi = Ball.pi().upper()
        return -pi, pi
    return _corners(_angle, (y, x))


def _angle(y: Point, x: Point) -> Maybe:
    sign = 1 if y > 0 else -1 if y < 0 else 0
    if endless(y):
        eighths = 2 if not endless(x) else 1 if x > 0 else 3
        return iv.enclosed(Ball.pi() * (sign * eighths) / 4)
    if endless(x):
        return iv.NOTHING if x > 0 else iv.enclosed(Ball.pi() * sign)
    return iv.enclosed(value(lambda v: Ball.atan2(v, x), y))


def norm(args: Sequence[Maybe], inverse: bool) -> Maybe:
    """Root of the sum of the squares, or its reciprocal; an infinite argument decides (C99 hypot)."""
    sizes = [iv.magnitudes(x) for x in args if x is not None]
    if len(sizes) < len(args):
        return None
    found = []
    for i in (0, 1):
        square = sum([x[i] * x[i] for x in sizes], ZERO)
        root = INF if any(x[i] == INF for x in sizes) else square.sqrt()
        found.append(_reciprocal(root) if inverse else root)
    low, high = found[::-1] if inverse else found
    return low.lower(), high.upper()


def _reciprocal(x: Ball) -> Ball:
    return INF if x == 0 else 1 / x
