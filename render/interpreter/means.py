r"""Combine functions whose errors do not grow on the way: a bound for every tree.

    shifts    f(a + c, b + c) = f(a, b) + c, as log(e^a + e^b)           an error is absolute
    scales    f(c a, c b) = c f(a, b), as sqrt(a^2 + b^2), 1 / (1/a + 1/b)   an error is relative

If such an f grows in both operands, errors of these do no more than the larger of them does: df/da + df/db = 1 for the
first kind, and a f_a + b f_b = f for the second (Euler). So after n - 1 steps the error is at most n - 1 times that of
one step, in every tree. What kind f is follows from its formula (`mean_forms`). That it grows is shown by its
derivatives over boxes (`_BoxSlope`), which cover all values that a tree may meet: those of k elements lie between f of
k copies of the least and of the largest of them. The error of one step is the largest over the same boxes, with the
target's functions.

That trees agree without rounding does not follow from such a formula, as (a + b) / 2 shows, nor from elements, which
may all be equal: it is tried with numbers that lie apart (`_regroups`). The caller has tried it with the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from interval_ops.bounds import Pair
from interval_ops.formats.model import FP64, Format
from interval_ops.functions import derivatives
from interval_ops.profiles.profile import Profile
from render.interpreter.hosted.algebra import Errors, Interval, Pairs
from render.interpreter.hosted.call import exact_profile
from render.interpreter.mean_forms import Mean

CELLS, WIDE = (96, 512), 6.0
"""Of the range of an operand, in which derivatives and errors are looked at: so many of each 1 where f shifts."""
BESIDE = 2.0**-20
"""What derivatives of boxes may miss [0, 1] by: errors grow by (1 + 2 BESIDE)^n."""
LONGEST = 1 << 14
APART = np.array([0.0, 0.21, 0.57, 1.0])
"""Where in a range numbers lie with which groupings are tried."""
NARROW = 2.0**-36
"""What such a trial may be off by, of itself and of 1."""


# --- derivatives over boxes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _BoxSlope:
    """A value over boxes with its derivatives by both operands."""

    value: Interval
    by: tuple[Interval, Interval]
    own: _BoxSlopes

    def _made(self, value: Interval, by: Callable[[int], Interval]) -> _BoxSlope:
        return _BoxSlope(value, (by(0), by(1)), self.own)

    def __add__(self, x: _BoxSlope) -> _BoxSlope:
        return self._made(self.value + x.value, lambda i: self.by[i] + x.by[i])

    def __sub__(self, x: _BoxSlope) -> _BoxSlope:
        return self._made(self.value - x.value, lambda i: self.by[i] - x.by[i])

    def __mul__(self, x: _BoxSlope) -> _BoxSlope:
        return self._made(self.value * x.value, lambda i: self.by[i] * x.value + x.by[i] * self.value)

    def __truediv__(self, x: _BoxSlope) -> _BoxSlope:
        made = self.value / x.value
        return self._made(made, lambda i: (self.by[i] - made * x.by[i]) / x.value)

    def __abs__(self) -> _BoxSlope:
        lo, hi = self.value.pair
        sign = self.own.exact.of((np.where(lo >= 0, 1.0, -1.0), np.where(hi <= 0, -1.0, 1.0)))
        return self._made(abs(self.value), lambda i: sign * self.by[i])


class _BoxSlopes:
    """Numbers with derivatives, in exact arithmetic over boxes."""

    def __init__(self) -> None:
        self.exact = Pairs(FP64, exact_profile())

    def operands(self, a: Pair, b: Pair) -> tuple[_BoxSlope, _BoxSlope]:
        ones, zeros = (self.exact.of((np.full(a[0].shape, x),) * 2) for x in (1.0, 0.0))
        return _BoxSlope(self.exact.of(a), (ones, zeros), self), _BoxSlope(self.exact.of(b), (zeros, ones), self)

    def number(self, x: float) -> _BoxSlope:
        zero = self.exact.of((np.zeros(1),) * 2)
        return _BoxSlope(self.exact.of((np.full(1, x),) * 2), (zero, zero), self)

    def call(self, name: str, x: _BoxSlope) -> _BoxSlope:
        slope = self.exact.of(derivatives.over(name, x.value.pair))
        return _BoxSlope(self.exact.call(name, x.value), (slope * x.by[0], slope * x.by[1]), self)

    def larger(self, x: _BoxSlope, y: _BoxSlope) -> _BoxSlope:
        return self._chosen(x, y, self.exact.larger(x.value, y.value), 1)

    def smaller(self, x: _BoxSlope, y: _BoxSlope) -> _BoxSlope:
        return self._chosen(x, y, self.exact.smaller(x.value, y.value), -1)

    def _chosen(self, x: _BoxSlope, y: _BoxSlope, value: Interval, way: int) -> _BoxSlope:
        (xl, xh), (yl, yh) = x.value.pair, y.value.pair
        first, second = (xl > yh, yl > xh) if way > 0 else (xh < yl, yh < xl)

        def by(i: int) -> Interval:
            (a, b), (c, d) = x.by[i].pair, y.by[i].pair
            low, high = np.minimum(a, c), np.maximum(b, d)
            return self.exact.of((np.where(first, a, np.where(second, c, low)),
                                  np.where(first, b, np.where(second, d, high))))  # fmt: skip

        return _BoxSlope(value, (by(0), by(1)), self)


class _StepErrors(Errors):
    """Errors of one step by the target's functions, with its division; small results may be flushed."""

    def __init__(self, fmt: Format, profile: Profile) -> None:
        own = {"log1p": profile.fn("libdevice_log1p")} if "libdevice_log1p" in profile.functions else {}
        super().__init__(fmt, replace(profile, functions={**profile.functions, **own}))
        self.u = max(self.u, profile.fn("div", fmt.name).r) if self.u else 0.0
        self.tiny = max(self.tiny, 2.0**fmt.emin)


# --- the rule -----------------------------------------------------------------------------------------------------


def along(found: Mean, pair: Pair, axis: int, reverse: bool, fmt: Format, profile: Profile) -> Pair | None:
    """Bounds of every prefix along an axis, for every tree; None where f is not seen to grow, or says too little.

    The result of the whole is the last prefix.
    """
    lo, hi = (np.moveaxis(np.asarray(end, np.float64), axis, 0) for end in pair)
    n, first = lo.shape[0], (lo[-1], hi[-1]) if reverse else (lo[0], hi[0])
    if found.even:
        low = np.where((lo <= 0) & (hi >= 0), 0.0, np.minimum(np.abs(lo), np.abs(hi)))
        lo, hi = low, np.maximum(np.abs(lo), np.abs(hi))
    if reverse:
        lo, hi = lo[::-1], hi[::-1]
    if not 2 <= n <= LONGEST or not (np.isfinite(lo).all() and np.isfinite(hi).all()):
        return None
    if not found.shifts and not (lo > 0).all():
        return None
    reach = _reach(found, float(lo.min()), float(hi.max()), n)
    step = None if reach is None or not _regroups(found, reach) else _step(found, reach, fmt, profile)
    if step is None or reach is None:
        return None
    grown = step * (1 + 2 * BESIDE) ** n * np.arange(n)
    if grown[-1] > reach.room:
        return None
    low, high = (np.stack([v + way * off for v, off in _folded(found, list(x))]) for x, way in ((lo, -1), (hi, 1)))
    low[0], high[0] = first
    error = grown.reshape(-1, *(1,) * (low.ndim - 1)) * (1 if found.shifts else np.maximum(np.abs(low), np.abs(high)))
    low, high = np.nextafter(low - error, -np.inf), np.nextafter(high + error, np.inf)
    if np.isnan(low + high).any() or np.abs([low, high]).max() >= fmt.max:
        return None
    if reverse:
        low, high = low[::-1], high[::-1]
    return np.moveaxis(low, 0, axis), np.moveaxis(high, 0, axis)


def _folded(found: Mean, xs: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """f of the first elements in exact arithmetic, and what float64 is off: its errors add up, too."""
    exact, value, off = Pairs(FP64, exact_profile()), xs[0], np.zeros_like(xs[0])
    yield value, off
    for x in xs[1:]:
        low, high = found.formula(exact, exact.of((value, value)), exact.of((x, x))).pair
        value, off = (low + high) / 2, off + (high - low)
        yield value, off * (1 + 2.0**-10)


class _Reach(NamedTuple):
    """What values of a tree lie between, with errors of up to `room` (of themselves where f scales)."""

    low: float
    high: float
    room: float


def _reach(found: Mean, low: float, high: float, n: int) -> _Reach | None:
    """f of up to n copies of the least and of the largest element."""
    least, most, each = low, high, np.array([low, high])
    for value, off in _folded(found, [each] * n):
        least, most = min(least, float((value - off).min())), max(most, float((value + off).max()))
    if not (math.isfinite(least) and math.isfinite(most)) or (not found.shifts and least <= 0):
        return None
    room = 2.0**-8 * max(most - least, 2.0**-8) if found.shifts else 2.0**-8
    return _Reach(least, most, room)


def _regroups(found: Mean, reach: _Reach) -> bool:
    """Whether three numbers give the same in each grouping and order, near to each other and as far as values are."""
    exact, low = Pairs(FP64, exact_profile()), reach.low
    spans = (1.0, reach.high - low) if found.shifts else (math.e, reach.high / low)
    for span in spans:
        points = low + span * APART if found.shifts else low * span**APART
        a, b, c = (exact.of((x.ravel(),) * 2) for x in np.meshgrid(points, points, points))
        with np.errstate(all="ignore"):
            first, swapped = (found.formula(exact, *pair) for pair in ((a, b), (b, a)))
            made = (found.formula(exact, first, c), found.formula(exact, a, found.formula(exact, b, c)),
                    found.formula(exact, swapped, c))  # fmt: skip
            lows, highs = (np.stack([x.pair[end] for x in made]) for end in (0, 1))
            meet = lows.max(0) <= highs.min(0)
            narrow = (highs - lows).max(0) <= NARROW * (np.abs(highs).max(0) + found.shifts)
        if not (meet & narrow).all():
            return False
    return True


def _step(found: Mean, reach: _Reach, fmt: Format, profile: Profile) -> float | None:
    """The largest error of one step, once f is seen to grow in both operands everywhere."""
    if found.shifts:
        cells = int(min(max(CELLS[0], WIDE * (reach.high - reach.low)), CELLS[1]))
        edges = np.linspace(reach.low - reach.room, reach.high + reach.room, cells + 1)
    else:
        cells = CELLS[0]
        edges = np.geomspace(reach.low * (1 - reach.room), reach.high * (1 + reach.room), cells + 1)
    below, above = np.nextafter(edges[:-1], -np.inf), np.nextafter(edges[1:], np.inf)
    a, b = ((np.repeat(below, cells), np.repeat(above, cells)), (np.tile(below, cells), np.tile(above, cells)))
    with np.errstate(all="ignore"):
        for formula, mine in zip(found.ordered, (a[1] >= b[0], b[1] >= a[0]), strict=True):
            if not _grows(formula, found.shifts, *((x[0][mine], x[1][mine]) for x in (a, b))):
                return None
        errors = _StepErrors(fmt, profile)
        one = found.formula(errors, errors.of(a), errors.of(b))
        error = one.error if found.shifts else one.error / one.least
    worst = float(np.max(error))
    return worst if math.isfinite(worst) else None


def _grows(formula: Callable[..., Any], shifts: bool, a: Pair, b: Pair) -> bool:
    """Whether derivatives are nowhere below 0; that they are nowhere above 1 follows."""
    slopes = _BoxSlopes()
    operands = slopes.operands(a, b)
    made = formula(slopes, *operands)
    shares = (by if shifts else by * x.value / made.value for by, x in zip(made.by, operands, strict=True))
    return all(bool((share.pair[0] >= -BESIDE).all()) for share in shares)
