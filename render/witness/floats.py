"""Arithmetic on arrays of intervals with float64 ends, rounded outward: what `balls` does, for many values at once.

float64 rounds to nearest (IEEE 754), so the next number on either side of a result encloses the exact one; where the
rounding error of a sum is known (Knuth's TwoSum) or a product fits, no step is needed. NaN in both ends is anything.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops.formats.model import FORMATS, Format
from render.exact.functions import MONOTONE, NEVER_NEGATIVE
from render.witness.values import Ends

Array = np.ndarray
INF = np.inf
_FP32 = FORMATS["fp32"]


def down(x: Array) -> Array:
    found: Array = np.nextafter(x, -INF)
    return found


def up(x: Array) -> Array:
    found: Array = np.nextafter(x, INF)
    return found


def whole(lo: Array, hi: Array) -> Ends:
    """Ends of which one is NaN are anything."""
    open_ = np.isnan(lo) | np.isnan(hi)
    return (np.where(open_, np.nan, lo), np.where(open_, np.nan, hi)) if open_.any() else (lo, hi)


def _plus(x: Array, y: Array) -> tuple[Array, Array]:
    """(x + y rounded down, rounded up)."""
    s = x + y
    part = s - x
    error = (x - (s - part)) + (y - part)
    known, endless = np.isfinite(error), np.isinf(x) | np.isinf(y)
    return (np.where(known & (error >= 0) | endless, s, down(s)), np.where(known & (error <= 0) | endless, s, up(s)))


def add(x: Ends, y: Ends) -> Ends:
    return whole(_plus(x[0], y[0])[0], _plus(x[1], y[1])[1])


def neg(x: Ends) -> Ends:
    return -x[1], -x[0]


def sub(x: Ends, y: Ends) -> Ends:
    return add(x, neg(y))


def _short(x: Array) -> Array:
    """At most 24 significant bits."""
    found: Array = x.astype(np.float32) == x
    return found


def _times(x: Array, y: Array) -> tuple[Array, Array]:
    """(x y rounded down, rounded up)."""
    p = x * y
    exact = (_short(x) & _short(y) & (np.abs(p) >= 2.0**-1022)) | (x == 0) | (y == 0) | np.isinf(x) | np.isinf(y)
    return np.where(exact, p, down(p)), np.where(exact, p, up(p))


def mul(x: Ends, y: Ends) -> Ends:
    """0 times infinity gives anything."""
    if x[0] is x[1] and y[0] is y[1]:
        return whole(*_times(x[0], y[0]))
    corners = [_times(a, c) for a in x for c in y]
    lo, hi = corners[0]
    for below, above in corners[1:]:
        lo, hi = np.minimum(lo, below), np.maximum(hi, above)
    infinite = has_zero(x) & endless(y) | has_zero(y) & endless(x)
    return whole(np.where(infinite, np.nan, lo), hi)


def square(x: Ends) -> Ends:
    """x x of one and the same value."""
    low, high = magnitudes(x)
    return whole(_times(low, low)[0], _times(high, high)[1])


def div(x: Ends, y: Ends) -> Ends:
    """A divisor with 0 inside gives anything, and so do two infinities."""
    quotients = [(a / c, np.isinf(a)) for a in x for c in y]
    lo = np.minimum.reduce([np.where(endless, q, down(q)) for q, endless in quotients])
    hi = np.maximum.reduce([np.where(endless, q, up(q)) for q, endless in quotients])
    open_ = has_zero(y) | (endless(x) & endless(y))
    return whole(np.where(open_, np.nan, lo), hi)


def has_zero(x: Ends) -> Array:
    return (x[0] <= 0) & (x[1] >= 0)


def endless(x: Ends) -> Array:
    return np.isinf(x[0]) | np.isinf(x[1])


def magnitudes(x: Ends) -> Ends:
    """Least and largest |x|."""
    first, second = np.abs(x[0]), np.abs(x[1])
    return np.where(has_zero(x), 0.0, np.minimum(first, second)), np.maximum(first, second)


# roundings of formats


def to_format(x: Array, fmt: Format, cut: bool = False) -> Array:
    """x rounded once, to nearest even or towards zero, with an unbounded largest exponent."""
    _, exponent = np.frexp(x)
    step = np.maximum(exponent - 1, fmt.emin) - fmt.p + 1
    scaled = np.ldexp(x, -step)
    return np.where(np.isfinite(x), np.ldexp(np.trunc(scaled) if cut else np.rint(scaled), step), x)


def nearest(x: Array, fmt: Format) -> Array:
    """An infinity past the largest finite number."""
    y = to_format(x, fmt)
    return np.where(np.abs(y) > fmt.max, np.copysign(INF, y), y)


def rounded(x: Ends, fmt: Format) -> Ends:
    """The exact numbers and what they round to; formats below fp32 directly or through fp32."""
    lows, highs = [x[0], nearest(x[0], fmt)], [x[1], nearest(x[1], fmt)]
    if fmt.p < _FP32.p:
        for ends, end in ((lows, x[0]), (highs, x[1])):
            single = nearest(end, _FP32)
            ends += [single, nearest(single, fmt)]
    return whole(np.minimum.reduce(lows), np.maximum.reduce(highs))


# functions

_MARGIN, _TINY = 2.0**-40, 2.0**-1070
"""float64 functions of numpy are documented to be within 4 units in the last place (2^-50); this allows for 2^-40."""
NUMPY: dict[str, Callable[[Array], Array]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "tanh")},
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
"""Monotone functions of `render.exact.functions`."""


def function(name: str, x: Ends) -> Ends:
    """The range of a function of `NUMPY`; anything where x leaves the domain."""
    f, row = NUMPY[name], MONOTONE[name]
    ends = x if row.rising else (x[1], x[0])
    low, high = f(ends[0]), f(ends[1])
    largest = np.finfo(np.float64).max
    low = np.where(np.isfinite(ends[0]) & (low == INF), largest, low)
    high = np.where(np.isfinite(ends[1]) & (high == -INF), -largest, high)
    low, high = (np.where(np.isinf(y), y, y + way * (np.abs(y) * _MARGIN + _TINY)) for y, way in ((low, -1), (high, 1)))
    if name in NEVER_NEGATIVE:
        low = np.maximum(low, 0.0)
    return whole(np.where(x[0] < float(row.domain[0]), np.nan, low), high)
