"""Functions of several arguments on boxes: x^y, atan2, norms, and exact ones of the vendor's library.

A function that is monotone in each argument while the others are held fixed takes its extrema over a box at corners:
moving one argument at a time to an end never loses ground.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import mpmath
from mpmath import libmp
from mpmath.libmp import finf, fninf, fone, from_int, fzero

from interval_ops.formats.model import Format
from render.witness import balls as b
from render.witness.balls import PREC, Interval, Maybe, Raw
from render.witness.functions import end

_ctx = mpmath.MPContext()
_ctx.prec = PREC + 40


def _corners(function: Callable[..., Any], box: Sequence[Interval]) -> Interval:
    places = list(product(*(set(x) for x in box)))
    return (
        b.least(end(function, "f", *place) for place in places),
        b.most(end(function, "c", *place) for place in places),
    )


def power(x: Maybe, y: Maybe) -> Maybe:
    """x^y; a base that may be negative needs one integer exponent."""
    if x is None or y is None:
        return None
    if not b.less(x[0], fzero):
        return _corners(_power, (x, y))
    if y[0] != y[1] or b.infinite(y) or libmp.mpf_floor(y[0], PREC) != y[0]:
        return None
    return integer_power(x, libmp.to_int(y[0]))


def _power(x: Any, y: Any) -> Any:
    """C99 pow for x >= 0."""
    if y == 0 or x == 1:
        return _ctx.one
    if x == 0 or x == _ctx.inf:
        return _ctx.zero if (x == 0) == (y > 0) else _ctx.inf
    if abs(y) == _ctx.inf:
        return _ctx.inf if (x > 1) == (y > 0) else _ctx.zero
    return _ctx.power(x, y)


def integer_power(x: Maybe, n: int) -> Maybe:
    """x^n: even in x or odd, with a pole at 0 for n < 0."""
    if x is None or (n < 0 and b.has_zero(x)):
        return None if x is None or x[0] != x[1] or n % 2 else (finf, finf)
    count = from_int(n)
    if n % 2 == 0:
        return _corners(_power, (b.sorted_magnitudes(x), (count, count)))
    low, high = (_signed(a, count, way) for a, way in zip(x if n > 0 else x[::-1], "fc", strict=True))
    return low, high


def _signed(x: Raw, n: Raw, way: str) -> Raw:
    if not b.less(x, fzero):
        return end(_power, way, x, n)
    return libmp.mpf_neg(end(_power, "c" if way == "f" else "f", libmp.mpf_abs(x), n))


def atan2(y: Maybe, x: Maybe) -> Maybe:
    """Angle of (x, y); everything from -pi to pi where the box meets the origin or the cut left of it."""
    if x is None or y is None:
        return None
    if b.has_zero(y) and not b.less(fzero, x[0]):
        pi = end(lambda: _ctx.pi * 1, "c")
        return libmp.mpf_neg(pi), pi
    return _corners(_angle, (y, x))


def _angle(y: Any, x: Any) -> Any:
    if abs(y) == _ctx.inf and abs(x) == _ctx.inf:
        return _ctx.sign(y) * _ctx.pi * (_ctx.mpf(1 if x > 0 else 3) / 4)
    if abs(y) == _ctx.inf:
        return _ctx.sign(y) * _ctx.pi / 2
    if abs(x) == _ctx.inf:
        return _ctx.zero if x > 0 else _ctx.sign(y) * _ctx.pi
    return _ctx.atan2(y, x)


def norm(args: Sequence[Maybe], inverse: bool) -> Maybe:
    """Root of the sum of the squares, or its reciprocal; an infinite argument decides (C99 hypot)."""
    low = high = fzero
    for x in args:
        if x is None:
            return None
        least, most = b.sorted_magnitudes(x)
        low, high = libmp.mpf_add(low, libmp.mpf_mul(least, least)), libmp.mpf_add(high, libmp.mpf_mul(most, most))
    root: Interval = end(_ctx.sqrt, "f", low), end(_ctx.sqrt, "c", high)
    if not inverse:
        return root
    return (
        fzero if root[1] == finf else libmp.mpf_div(fone, root[1], PREC, "f") if root[1] != fzero else finf,
        finf if root[0] == fzero else libmp.mpf_div(fone, root[0], PREC, "c") if root[0] != finf else fzero,
    )


def ieee_remainder(x: Maybe, y: Maybe) -> Maybe:
    """x - n y, n the integer nearest to x / y (ties to even); [-|y| / 2, |y| / 2] where n is open."""
    ratio = b.div(x, y)
    if ratio is None or b.infinite(ratio) or x is None or y is None:
        return None
    half = libmp.mpf_shift(b.magnitude(y), -1)
    if x[0] == x[1] and y[0] == y[1]:
        n = _nearest_quotient(x[0], y[0])
        exact = libmp.mpf_sub(x[0], libmp.mpf_mul(n, y[0]))
        return exact, exact
    first, last = (libmp.mpf_nint(v, 5000) for v in ratio)
    tied = any(libmp.mpf_sub(v, libmp.mpf_floor(v, 5000)) == b.power(-1) for v in ratio)
    if first == last and not tied:
        found = b.sub(x, b.mul((first, first), y))
        if found is not None:
            return b.most((found[0], libmp.mpf_neg(half))), b.least((found[1], half))
    return libmp.mpf_neg(half), half


def _nearest_quotient(x: Raw, y: Raw) -> Raw:
    """The integer nearest to x / y, exactly."""
    p, q = libmp.to_rational(x), libmp.to_rational(y)
    top, bottom = p[0] * q[1], p[1] * q[0]
    top, bottom = (-top, -bottom) if bottom < 0 else (top, bottom)
    n, rest = divmod(top, bottom)
    n += 2 * rest > bottom or (2 * rest == bottom and n % 2)
    return from_int(n)


def copysign(x: Maybe, y: Maybe) -> Maybe:
    """|x| with the sign of y; both signs where that is open (a zero may be -0)."""
    if x is None:
        return None
    size = b.sorted_magnitudes(x)
    below = (libmp.mpf_neg(size[1]), libmp.mpf_neg(size[0]))
    if y is None or b.has_zero(y):
        return b.hull(size, below)
    return below if b.less(y[0], fzero) else size


def positive_difference(x: Maybe, y: Maybe) -> Maybe:
    """max(x - y, 0), exactly."""
    found = b.sub(x, y)
    return None if found is None else (b.most((found[0], fzero)), b.most((found[1], fzero)))


def exponent(x: Maybe) -> Maybe:
    """floor(log2 |x|); -inf at 0, inf at infinities (C99 logb)."""
    if x is None:
        return None
    low, high = (_exponent_of(v) for v in b.sorted_magnitudes(x))
    return low, high


def _exponent_of(x: Raw) -> Raw:
    if x == fzero:
        return fninf
    return finf if x == finf else from_int(b.binary_exponent(x))


def neighbours(x: Maybe, y: Maybe, fmt: Format) -> Maybe:
    """The numbers of the format next to x towards y; to either side where that is open."""
    if x is None or y is None:
        return None
    up = (x[0], _stepped(x[1], fmt, 1))
    down = (_stepped(x[0], fmt, -1), x[1])
    if b.less(x[1], y[0]):
        return (_stepped(x[0], fmt, 1), up[1]) if x[0] == x[1] else up
    if b.less(y[1], x[0]):
        return (down[0], _stepped(x[1], fmt, -1)) if x[0] == x[1] else down
    return x if x == y and x[0] == x[1] else b.hull(up, down)


def _stepped(x: Raw, fmt: Format, way: int) -> Raw:
    """The nearest number of the format above (1) or below (-1); an infinity past the largest."""
    if x in (finf, fninf):
        return x if (x == finf) == (way > 0) else b.raw(fmt.max * -way)
    tiny = b.power(fmt.emin - fmt.p - 40)
    moved = libmp.mpf_add(x, tiny if way > 0 else libmp.mpf_neg(tiny))
    from render.witness.casts import directed

    return directed(moved, fmt, "ru" if way > 0 else "rd")


def scaled(x: Maybe, n: int) -> Maybe:
    """x 2^n."""
    if x is None:
        return None
    bounded = max(-6000, min(6000, n))
    low, high = (v if v in (finf, fninf) else libmp.mpf_shift(v, bounded) for v in x)
    return low, high
