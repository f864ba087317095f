"""Exact points, and balls that hold what is computed from them.

`Ball` is Arb's `mid +- rad` (Johansson, IEEE Trans. Comput. 66 (2017) 1281), or `portable.Ball` where python-flint is
not installed. A point is a ball without radius, infinities included, of at most as many bits as the precision in force:
then -x and |x| are points again. Whatever else is computed is a ball that holds the exact result; `lower` and `upper`
of it are points outside of it.

Arb's precision is one number for the whole process. `precision` sets it for a block and keeps other threads that ask
for one waiting; a block that finds it changed by somebody else in the meantime raises ArithmeticError, as negations may
have been rounded. Balls hold the exact result at any precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from threading import RLock
from types import TracebackType
from typing import Any

try:
    from flint import arb as Ball
    from flint import ctx as _ctx
except ImportError:
    from render.exact.portable import Ball
    from render.exact.portable import ctx as _ctx

PREC = 192
"""Bits of every rounded point."""
FULL = 1 << 14
"""Bits that hold any sum of products of float64 numbers."""
ARITHMETIC: str = "arb" if Ball.__module__.startswith("flint") else "mpmath"

Point = Any
"""A ball without radius."""

ZERO, ONE, TWO, INF, NINF = Ball(0), Ball(1), Ball(2), Ball(math.inf), Ball(-math.inf)
_turn = RLock()


class precision:
    """`with precision(bits):` inside, results are rounded to so many bits."""

    def __init__(self, bits: int = PREC) -> None:
        self.bits, self.before = bits, 0

    def __enter__(self) -> None:
        _turn.acquire()
        self.before = _ctx.prec
        _ctx.prec = self.bits

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        found, _ctx.prec = _ctx.prec, self.before
        _turn.release()
        if found != self.bits and kind is None:
            raise ArithmeticError("the precision of Arb was changed from outside while numbers were computed")


def number(x: float) -> Point:
    """A float or integer, exactly; NaN is no point."""
    return Ball(x)


@lru_cache(maxsize=8192)
def power(e: int) -> Point:
    """2^e."""
    return Ball((1, e))


def endless(x: Point) -> bool:
    return bool(x in (INF, NINF))


def least(xs: Iterable[Point]) -> Point:
    out = INF
    for x in xs:
        out = x if x < out else out
    return out


def most(xs: Iterable[Point]) -> Point:
    out = NINF
    for x in xs:
        out = x if x > out else out
    return out


def down(a: Point, b: Point) -> Point:
    """a + b rounded down."""
    return (a + b).lower()


def up(a: Point, b: Point) -> Point:
    """a + b rounded up."""
    return (a + b).upper()


def times_up(a: Point, b: Point) -> Point:
    return (a * b).upper()


def times_down(a: Point, b: Point) -> Point:
    return (a * b).lower()


def half(x: Point) -> Point:
    return shifted(x, -1)


def shifted(x: Point, by: int) -> Point:
    """x 2^by, exactly."""
    return x * power(by)


def floor(x: Point) -> Point:
    return x.floor()


def ceil(x: Point) -> Point:
    return x.ceil()


def truncated(x: Point) -> Point:
    return x.ceil() if x < 0 else x.floor()


def rint(x: Point) -> Point:
    """The nearest integer, ties to the even one."""
    below = x.floor()
    rest = x - below
    return below if rest < 0.5 or (rest == 0.5 and is_whole(half(below))) else below + 1


def is_whole(x: Point) -> bool:
    return bool(x.floor() == x)


def parts(x: Point) -> tuple[int, int]:
    """(m, e) with x = m 2^e of a finite point, m odd (or 0)."""
    man, exp = x.man_exp()
    return int(man), int(exp)


def integer(x: Point) -> int:
    """Towards zero."""
    man, exp = parts(x)
    size = abs(man) << exp if exp >= 0 else abs(man) >> -exp
    return -size if man < 0 else size


def exponent(x: Point) -> int:
    """e with 2^e <= |x| < 2^(e+1), for finite x other than 0."""
    man, exp = parts(x)
    return man.bit_length() + exp - 1


def lowest_bit(x: Point) -> int:
    """e with x an odd multiple of 2^e, for finite x other than 0."""
    return int(x.man_exp()[1])


def above(x: Point) -> float:
    """The least float64 number that is at least x; of numbers below every subnormal one 0 or the smallest."""
    near = float(x)
    return near if x <= near else math.nextafter(near, math.inf)


def below(x: Point) -> float:
    near = float(x)
    return near if x >= near else math.nextafter(near, -math.inf)
