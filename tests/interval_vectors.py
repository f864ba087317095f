"""Vectors for interval operations: boxes of awkward ends, and the tightest result of each by exact arithmetic.

Boxes are drawn, not listed: signed zeros, infinities, subnormal and largest numbers, neighbours, points, boxes that
touch zero from one side or hold it. What a result must hold follows from two facts of the engine: an infinite end is a
value that a legal execution may have (it overflowed), and a zero end has either sign. So infinity times zero, infinity
by infinity, zero by zero give NaN, for which the engine has top alone. Exact values are rationals, or mpmath's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np

MP = mpmath.mp.clone()
MP.prec = 400
INF, MAX, TINY, NORMAL = math.inf, float(np.finfo(np.float64).max), 2.0**-1074, 2.0**-1022
Ends = tuple[float, float]
TOP: Ends = (math.nan, math.nan)
Exact = Fraction | float | Any
"""A rational, an infinity, or a number of mpmath."""

SPECIAL = (
    0.0, TINY, 3 * TINY, NORMAL - TINY, NORMAL, 2.0**-540, 2.0**-511, 2.0**-60, 0.1, 0.5, 1 - 2.0**-53, 1.0,
    1 + 2.0**-52, 1.5, 2.0, 3.0, math.pi, 10.0, 1e3, 2.0**53 - 1, 2.0**53, 2.0**300, 2.0**511, 2.0**540, MAX / 2,
    MAX * (1 - 2.0**-53), MAX, INF,
)  # fmt: skip


def numbers(g: np.random.Generator, n: int) -> np.ndarray:
    """Special numbers of both signs, and some of any size."""
    special = g.choice(SPECIAL, n)
    spread = g.choice([2, 30, 1000], n)
    random = g.standard_normal(n) * np.exp2(np.clip(g.uniform(-1, 1, n) * spread, -1020, 1020))
    return np.where(g.random(n) < 0.6, special, np.abs(random)) * g.choice([-1.0, 1.0], n)


def boxes(g: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(lo, hi): points, neighbours, narrow and wide boxes, one end zero of either sign, one end infinite."""
    a, b = numbers(g, n), numbers(g, n)
    kind = g.integers(0, 8, n)
    b = np.where(kind == 0, a, b)
    b = np.where(kind == 1, np.nextafter(a, np.inf), b)
    b = np.where((kind == 2) & np.isfinite(a), a + np.abs(a) * g.random(n) * 2.0**-20, b)
    zero = np.where(g.random(n) < 0.5, 0.0, -0.0)
    b = np.where(kind == 3, zero, b)
    b = np.where(kind == 4, np.copysign(np.inf, b), b)
    lo, hi = np.minimum(a, b), np.maximum(a, b)
    flip = (lo == 0) & (kind != 0)  # either sign of a zero at either end
    return np.where(flip, zero, lo), hi


def below(x: Exact) -> float:
    """The largest float64 not above x."""
    if isinstance(x, float):
        return x
    near = _near(x)
    return float(np.nextafter(near, -INF)) if _exceeds(near, x) else near


def above(x: Exact) -> float:
    return -below(-x)


def _near(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:
        return INF if x > 0 else -INF


def _exceeds(near: float, x: Any) -> bool:
    if math.isinf(near):
        return near > 0
    return bool((MP.mpf(near) if isinstance(x, MP.mpf) else Fraction(near)) > x)


def range_of(values: Iterable[Exact]) -> Ends:
    """The tightest float64 interval around all values."""
    found = list(values)
    if any(isinstance(v, float) and math.isnan(v) for v in found):
        return TOP
    return min(map(below, found)), max(map(above, found))


def exact(x: float) -> Exact:
    return x if math.isinf(x) else Fraction(x)


def times(x: Exact, y: Exact) -> Exact:
    if isinstance(x, float) or isinstance(y, float):
        return math.nan if x == 0 or y == 0 else (INF if (x > 0) == (y > 0) else -INF)
    return x * y


def plus(x: Exact, y: Exact) -> Exact:
    if isinstance(x, float):
        return math.nan if isinstance(y, float) and x != y else x
    return y if isinstance(y, float) else x + y


def _zero(x: Ends) -> list[float]:
    """Ends, and zero between them."""
    return [*x, *([0.0] if x[0] < 0 < x[1] else [])]


def add(x: Ends, y: Ends) -> Ends:
    return range_of(plus(exact(a), exact(b)) for a, b in product(x, y))


def sub(x: Ends, y: Ends) -> Ends:
    return add(x, (-y[1], -y[0]))


def mul(x: Ends, y: Ends) -> Ends:
    return range_of(times(exact(a), exact(b)) for a, b in product(_zero(x), _zero(y)))


def square(x: Ends) -> Ends:
    return range_of(times(exact(a), exact(a)) for a in _zero(x))


def fma(x: Ends, y: Ends, z: Ends) -> Ends:
    return range_of(plus(times(exact(a), exact(b)), exact(c)) for a, b, c in product(_zero(x), _zero(y), z))


def div(x: Ends, y: Ends) -> Ends:
    if y[0] <= 0 <= y[1]:
        infinite = all(math.isinf(a) or math.isinf(b) for a, b in (x, y))
        return TOP if x[0] <= 0 <= x[1] or infinite else (-INF, INF)
    return range_of(_by(exact(a), exact(b)) for a, b in product(x, y))


def _by(x: Exact, y: Exact) -> Exact:
    if isinstance(y, float):
        return math.nan if isinstance(x, float) else Fraction(0)
    return (INF if (x > 0) == (y > 0) else -INF) if isinstance(x, float) else x / y


def magnitude(x: Ends) -> Ends:
    return range_of(abs(exact(a)) for a in _zero(x))


def negative(x: Ends) -> Ends:
    return -x[1], -x[0]


def largest(x: Ends, y: Ends) -> Ends:
    return max(x[0], y[0]), max(x[1], y[1])


def least(x: Ends, y: Ends) -> Ends:
    return min(x[0], y[0]), min(x[1], y[1])


def hull(x: Ends, y: Ends) -> Ends:
    return min(x[0], y[0]), max(x[1], y[1])


def stepped(function: Callable[[float], float]) -> Callable[[Ends], Ends]:
    """floor, ceil and the like: monotone, and integral results are exact."""

    def over(x: Ends) -> Ends:
        low, high = (a if math.isinf(a) else float(function(a)) for a in x)
        return low, high

    return over


def power(x: Ends, y: Ends) -> Ends | None:
    """x^y; None where a negative base meets another exponent than one integer."""
    whole = y[0] == y[1] and math.isfinite(y[0]) and y[0] == math.floor(y[0])
    if x[0] < 0 and not whole:
        return None
    if y == (0.0, 0.0) or x == (1.0, 1.0):
        return 1.0, 1.0
    values = [_raised(a, b) for a, b in product(_signed_zeros(x, y[0] == y[1]), _exponents(y))]
    return range_of(v for v in values if v is not None)


def _signed_zeros(x: Ends, point: bool) -> list[float]:
    """The sign of a zero base is followed through one exponent, not through a box of them."""
    known = point and x[0] == x[1] == 0 and math.copysign(1, x[0]) == math.copysign(1, x[1])
    if known:
        return [x[0]]
    return [*(a for a in x if a != 0), *([0.0, -0.0] if x[0] <= 0 <= x[1] else []), *([1.0] if x[0] < 1 < x[1] else [])]


def _exponents(y: Ends) -> list[float | int]:
    """Ends, and the odd integers that the sign of a zero base asks for: every box that holds one holds the extremes.

    Integers stay Python's own: beyond 2^53 a float64 would be even.
    """
    inner = [n for n in (math.ceil(y[0]), math.ceil(y[0]) + 1) if n <= y[1]] if math.isfinite(y[0]) else []
    inner += [n for n in (math.floor(y[1]), math.floor(y[1]) - 1) if n >= y[0]] if math.isfinite(y[1]) else []
    outer = [-1.0, 1.0, -3.0] if y[0] != y[1] else []
    return [*y, *inner, *(n for n in outer if y[0] <= n <= y[1]), *([0.0] if y[0] < 0 < y[1] else [])]


def _raised(x: float, y: float | int) -> Exact | None:
    if y == 0 or x == 1:
        return Fraction(1)
    odd = (isinstance(y, int) or (math.isfinite(y) and y == math.floor(y))) and int(y) % 2 == 1
    if x == 0 or math.isinf(x) or math.isinf(y):
        special = 0.0 if (abs(x) < 1) == (y > 0) else INF
        if abs(x) == 1:
            return Fraction(1)
        sign = -1 if odd and math.copysign(1, x) < 0 else 1
        return Fraction(0) if special == 0 else sign * INF
    size = abs(y * math.log2(abs(x)))
    if size > 1e6:
        grows = (abs(x) > 1) == (y > 0)
        value = MP.mpf(2) ** (100000 if grows else -100000)
    else:
        value = MP.power(MP.mpf(abs(x)), MP.mpf(y))
    return -value if odd and x < 0 else value


def clamp(x: Ends, low: Ends, high: Ends) -> Ends:
    return least(largest(x, low), high)


def monotone(function: Callable[[Any], Any], domain: Ends, up: bool = True) -> Callable[[Ends], Ends | None]:
    """Range of a function of mpmath that is monotone on its domain; top outside of it, None where mpmath gives up."""

    def over(x: Ends) -> Ends | None:
        if x[0] < domain[0] or x[1] > domain[1]:
            return TOP
        try:
            values = [function(MP.mpf(a)) for a in (x if up else x[::-1])]
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
        if any(MP.isnan(v) for v in values):
            return None
        low, high = (float(v) if MP.isinf(v) else v for v in values)
        return below(low), above(high)

    return over


def signed(x: Ends, y: Ends) -> Ends:
    """|x| with the signs that y may have: a zero of known sign is a point."""
    low, high = magnitude(x)
    known = y[0] == y[1] and math.copysign(1, y[0]) == math.copysign(1, y[1])
    minus = y[0] < 0 or (y[0] <= 0 <= y[1] and not known) or math.copysign(1, y[0]) < 0
    plus = y[1] > 0 or (y[0] <= 0 <= y[1] and not known) or math.copysign(1, y[1]) > 0
    return (-high if minus else low), (high if plus else -low)


def positive_difference(x: Ends, y: Ends) -> Ends:
    low, high = sub(x, y)
    return TOP if math.isnan(low) else (max(low, 0.0), max(high, 0.0))


def root_of_squares(x: Ends, y: Ends) -> Ends:
    def root(a: float, b: float) -> Exact:
        return INF if math.isinf(a) or math.isinf(b) else MP.sqrt(MP.mpf(a) ** 2 + MP.mpf(b) ** 2)

    (a, b), (c, d) = magnitude(x), magnitude(y)
    return below(root(a, c)), above(root(b, d))


def ulps(x: float, y: float) -> float:
    """float64 numbers between the two, infinities counted as the next beyond the largest."""
    if math.isnan(x) or math.isnan(y):
        return 0.0 if math.isnan(x) and math.isnan(y) else INF
    return abs(_place(x) - _place(y))


def _place(x: float) -> int:
    bits = int(np.float64(abs(x)).view(np.int64))
    return -bits if x < 0 else bits


def pairs(x: tuple[np.ndarray, np.ndarray]) -> Iterator[Ends]:
    return ((float(a), float(b)) for a, b in zip(*x, strict=True))
