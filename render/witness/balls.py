"""Intervals of arbitrary-precision numbers, rounded outward, and the roundings of number formats.

An interval is a pair (lo, hi) of mpmath's raw numbers, ends included, infinities allowed; None is "anything, NaN
included". Everything is written for plainness, not for speed, and shares nothing with `interval_ops` but the table of
formats.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mpmath import libmp
from mpmath.libmp import finf, fnan, fninf, fone, from_float, from_int, from_man_exp, fzero

from interval_ops.formats.model import FORMATS, Format

PREC = 192
"""Bits of every rounded number."""

Raw = tuple[Any, Any, Any, Any]
Interval = tuple[Raw, Raw]
Maybe = Interval | None

FP32 = FORMATS["fp32"]
ZERO: Interval = (fzero, fzero)


def raw(x: float) -> Raw:
    return from_float(float(x))


def point(x: float | int) -> Maybe:
    """An exact number; NaN is anything."""
    r = from_int(x) if isinstance(x, int) else from_float(float(x))
    return None if r == fnan else (r, r)


def interval(lo: float, hi: float) -> Maybe:
    a, b = raw(lo), raw(hi)
    return None if fnan in (a, b) else (a, b)


def power(e: int) -> Raw:
    """2^e."""
    return from_man_exp(1, e)


def less(a: Raw, b: Raw) -> bool:
    return bool(libmp.mpf_lt(a, b))


def least(xs: Iterable[Raw]) -> Raw:
    out = finf
    for x in xs:
        out = x if libmp.mpf_lt(x, out) else out
    return out


def most(xs: Iterable[Raw]) -> Raw:
    out = fninf
    for x in xs:
        out = x if libmp.mpf_lt(out, x) else out
    return out


def down(a: Raw, b: Raw) -> Raw:
    """a + b rounded down."""
    return libmp.mpf_add(a, b, PREC, "f")


def up(a: Raw, b: Raw) -> Raw:
    """a + b rounded up."""
    return libmp.mpf_add(a, b, PREC, "c")


def times_up(a: Raw, b: Raw) -> Raw:
    return libmp.mpf_mul(a, b, PREC, "c")


def neg(x: Maybe) -> Maybe:
    return None if x is None else (libmp.mpf_neg(x[1]), libmp.mpf_neg(x[0]))


def magnitude(x: Interval) -> Raw:
    """Largest |x|."""
    return most((libmp.mpf_abs(x[0]), libmp.mpf_abs(x[1])))


def add(x: Maybe, y: Maybe) -> Maybe:
    """x + y; opposite infinities give anything."""
    if x is None or y is None:
        return None
    if (x[1] == finf and y[0] == fninf) or (x[0] == fninf and y[1] == finf):
        return None
    return down(x[0], y[0]), up(x[1], y[1])


def sub(x: Maybe, y: Maybe) -> Maybe:
    return add(x, neg(y))


def has_zero(x: Interval) -> bool:
    return not less(fzero, x[0]) and not less(x[1], fzero)


def infinite(x: Interval) -> bool:
    return x[0] in (finf, fninf) or x[1] in (finf, fninf)


def mul(x: Maybe, y: Maybe) -> Maybe:
    """x y; 0 times infinity gives anything."""
    if x is None or y is None:
        return None
    if (has_zero(x) and infinite(y)) or (has_zero(y) and infinite(x)):
        return None
    if x[0] == x[1] and y[0] == y[1]:
        exact = libmp.mpf_mul(x[0], y[0])
        if exact[3] <= PREC:
            return exact, exact
    pairs = [(a, b) for a in set(x) for b in set(y)]
    return (
        least(libmp.mpf_mul(a, b, PREC, "f") for a, b in pairs),
        most(libmp.mpf_mul(a, b, PREC, "c") for a, b in pairs),
    )


def square(x: Maybe) -> Maybe:
    """x x of one and the same value: never negative."""
    if x is None:
        return None
    low, high = sorted_magnitudes(x)
    return libmp.mpf_mul(low, low, PREC, "f"), libmp.mpf_mul(high, high, PREC, "c")


def sorted_magnitudes(x: Interval) -> Interval:
    """Least and largest |x|."""
    ends = libmp.mpf_abs(x[0]), libmp.mpf_abs(x[1])
    return (fzero if has_zero(x) else least(ends)), most(ends)


def div(x: Maybe, y: Maybe) -> Maybe:
    """x / y; a divisor with 0 inside gives anything, and so do two infinities."""
    if x is None or y is None or has_zero(y) or (infinite(x) and infinite(y)):
        return None
    pairs = [(a, b) for a in set(x) for b in set(y)]
    return (
        least(libmp.mpf_div(a, b, PREC, "f") for a, b in pairs),
        most(libmp.mpf_div(a, b, PREC, "c") for a, b in pairs),
    )


def hull(*xs: Maybe) -> Maybe:
    ends = [x for x in xs if x is not None]
    if len(ends) < len(xs):
        return None
    return least(x[0] for x in ends), most(x[1] for x in ends)


def spread(x: Maybe, by: Raw) -> Maybe:
    """[lo - by, hi + by]."""
    return None if x is None else (down(x[0], libmp.mpf_neg(by)), up(x[1], by))


# roundings of formats


def binary_exponent(x: Raw) -> int:
    """e with 2^e <= |x| < 2^(e+1), for finite x other than 0."""
    return int(x[2] + x[3] - 1)


def to_format(x: Raw, fmt: Format, mode: str = "rtne") -> Raw:
    """x rounded once, with an unbounded largest exponent.

    `mode`: to nearest, ties to even ("rtne") or away from zero ("away"); towards zero ("rtz") or away from it ("up").
    """
    sign, man, exp, _ = x
    if not man:
        return x
    step = max(binary_exponent(x), fmt.emin) - fmt.p + 1
    shift = step - exp
    if shift <= 0:
        return x
    kept, rest, half = man >> shift, man & ((1 << shift) - 1), 1 << (shift - 1)
    nearest_up = rest > half or (rest == half and (mode == "away" or kept & 1))
    if rest and (mode == "up" or (mode != "rtz" and nearest_up)):
        kept += 1
    return from_man_exp(-kept if sign else kept, step)


def too_large(x: Raw, fmt: Format) -> bool:
    return less(raw(fmt.max), libmp.mpf_abs(x))


def nearest(x: Raw, fmt: Format) -> Raw:
    """x as an operation in `fmt` rounds it: an infinity past the largest finite number."""
    y = to_format(x, fmt)
    return y if not too_large(y, fmt) else (fninf if less(y, fzero) else finf)


def rounded(x: Maybe, fmt: Format) -> Maybe:
    """The exact numbers of x and what they round to; formats below fp32 directly or through fp32.

    Rounding is monotone, so the ends decide.
    """
    if x is None:
        return None
    lows, highs = [x[0]], [x[1]]
    for ends, end in ((lows, x[0]), (highs, x[1])):
        ends.append(nearest(end, fmt))
        if fmt.p < FP32.p:
            ends += [nearest(end, FP32), nearest(nearest(end, FP32), fmt)]
    return least(lows), most(highs)


__all__ = ["Interval", "Maybe", "Raw", "fone"]
