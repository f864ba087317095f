"""Functions of Python's `math` of numbers that know their bounds.

What stands in `math` while numbers are followed gives any number among its arguments the say (`of_math` of the one
argument of a function in `MATH`, `of_any` of all arguments of any other); every other call goes to the plain function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, update_wrapper
from typing import Any, Protocol

from interval_ops.functions.tables import FUNCTIONS, Monotone
from render.interpreter.scope import Names

ULPS = 2.0**-50
"""The C library's error, relative (4 ulp; glibc documents at most 3)."""


class HasEnds(Protocol):
    """Bounds of one number."""

    lo: float
    hi: float


def _risen(function: Callable[[float], float], x: HasEnds) -> list[float]:
    """At both ends of what rises, with the C library's error."""
    found = []
    for end in (x.lo, x.hi):
        try:
            found.append(function(end))
        except (OverflowError, ValueError):
            return [math.nan]
    return [y + way * (abs(y) * ULPS + 5e-324) for y in found for way in (-1, 1)]


def _wave(function: Callable[[float], float], x: HasEnds) -> list[float]:
    """Within the reach of the operand of its value, and of 1."""
    middle = 0.5 * x.lo + 0.5 * x.hi
    if not math.isfinite(middle):
        return [-1.0, 1.0]
    y, reach = function(middle), (x.hi - x.lo) + 2.0**-50
    return [max(-1.0, y - reach), min(1.0, y + reach)]


RISING = [n for n, f in FUNCTIONS.items() if isinstance(f, Monotone) and f.up and not f.even and hasattr(math, n)]
MATH: dict[str, Callable[..., list[float]]] = {**dict.fromkeys(RISING, _risen), "sin": _wave, "cos": _wave}


def _sized(x: HasEnds) -> tuple[float, float]:
    """The least and the largest magnitude."""
    a, b = abs(x.lo), abs(x.hi)
    return (0.0 if x.lo <= 0 <= x.hi else min(a, b)), max(a, b)


def _widened(lo: float, hi: float, terms: int = 1) -> list[float]:
    room = ULPS * max(terms, 1)
    return [lo - abs(lo) * room - 5e-324, hi + abs(hi) * room + 5e-324]


def _hypot(*xs: HasEnds) -> list[float]:
    sizes = [_sized(x) for x in xs]
    return _widened(math.hypot(*(s[0] for s in sizes)), math.hypot(*(s[1] for s in sizes)), len(xs))


def _fsum(*xs: HasEnds) -> list[float]:
    return _widened(math.fsum(x.lo for x in xs), math.fsum(x.hi for x in xs))


def _copysign(x: HasEnds, y: HasEnds) -> list[float]:
    least, most = _sized(x)
    ways = [w for w, side in ((1.0, y.hi >= 0), (-1.0, y.lo <= 0)) if side]
    return [w * s for w in ways for s in (least, most)]


def _fabs(x: HasEnds) -> list[float]:
    return list(_sized(x))


def _scaled(factor: float) -> Callable[[HasEnds], list[float]]:
    return lambda x: _widened(min(x.lo * factor, x.hi * factor), max(x.lo * factor, x.hi * factor))


def _product(*xs: HasEnds) -> list[float]:
    lo, hi = 1.0, 1.0
    for x in xs:
        corners = [a * b for a in (lo, hi) for b in (x.lo, x.hi)]
        if any(c != c for c in corners):
            return [math.nan]
        lo, hi = _widened(min(corners), max(corners))
    return [lo, hi]


def _power(x: HasEnds, y: HasEnds) -> list[float]:
    if not x.lo > 0:
        return [math.nan]
    corners = [math.pow(a, b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    return _widened(min(corners), max(corners))


def _logarithm(x: HasEnds, base: HasEnds) -> list[float]:
    """Of a number to a base on one side of 1: a quotient of logarithms."""
    if not (x.lo > 0 and base.lo > 0 and (base.hi < 1 or base.lo > 1)):
        return [math.nan]
    corners = [math.log(a) / math.log(b) for a in (x.lo, x.hi) for b in (base.lo, base.hi)]
    return _widened(min(corners), max(corners), 4)


_JOINTLY: dict[Callable[..., Any], Callable[..., list[float]]] = {
    math.hypot: _hypot, math.fsum: _fsum, math.copysign: _copysign, math.fabs: _fabs, math.prod: _product,
    math.radians: _scaled(math.pi / 180), math.degrees: _scaled(180 / math.pi), math.pow: _power, math.log: _logarithm,
}  # fmt: skip
"""Ends of functions of several numbers: of the norm of magnitudes, of a sum, of a sign."""
JOINTLY = {function.__name__: ends for function, ends in _JOINTLY.items()}
ASKING = frozenset(f.__name__ for f in (math.isfinite, math.isnan, math.isinf))
"""Questions that finite ends answer."""
_LISTS = frozenset(f.__name__ for f in (math.fsum, math.prod, math.dist))


class MathFunction:
    """A function of Python's `math` that keeps the bounds of a `Number`.

    A number that is followed (`of_math`, `of_any`) says what it makes of it. It equals the plain function: tables that
    are keyed by functions (numba's, which it may fill and ask while the module is patched) find the same entry by both.
    """

    def __init__(self, name: str) -> None:
        plain = getattr(math, name)
        self._name, self._plain = name, getattr(plain, "_plain", plain)
        update_wrapper(self, self._plain)

    def __call__(self, *xs: Any, **named: Any) -> Any:
        if not xs:
            return self._plain(**named)  # the user's call
        x, *others = xs
        if not others and not named and self._name in MATH:
            followed = getattr(type(x), "of_math", None)
            return self._plain(x) if followed is None else followed(x, self._name, self._plain)  # the user's call
        if self._name in _LISTS and not isinstance(x, list | tuple):
            x = list(x)
        given = [
            y for part in (x, *others, *named.values()) for y in (part if isinstance(part, list | tuple) else [part])
        ]
        followed = next((f for y in given if (f := getattr(y, "of_any", None)) is not None), None)
        value = self._plain(x, *others, **named)  # the user's call
        return value if followed is None else followed(self._name, value, given)

    def __eq__(self, other: object) -> bool:
        return bool(self._plain == getattr(other, "_plain", other))

    def __hash__(self) -> int:
        return hash(self._plain)


@cache
def math_functions() -> dict[str, MathFunction]:
    """What stands in `math` while numbers are followed, by name; they hold nothing of a scope."""
    names = [name for name in dir(math) if name[0] != "_" and callable(getattr(math, name))]
    return Names({name: MathFunction(name) for name in names})
