r"""Functions of one number by a table: on each cell of a fine grid their slope, and how far off torch's value may be.

    f(x') in E + [min, max] of f'(cell) (x' - x),   computed in that -+ e(cell),   E = f(x) in float64

for all x' in a box that lies in a few neighbouring cells (mean value theorem; e from `algebra.Errors` over them). Cells
are 2^-7 of x wide: e is little above that of a point, and the slope multiplies the width of the box alone. One
evaluation of f serves instead of the six of `algebra.enclosed`. A cell in which a branch turns has no slope; what has
none is left to `enclosed`, and boxes that are `NARROW` to the natural extension where that knows how each step rounds
and misses the exact range alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from interval_ops.arithmetic import selection
from interval_ops.bounds import Array, Pair
from interval_ops.compiled import compiled, inlined
from interval_ops.formats.model import FP64, Format
from interval_ops.formats.rounding import _bits
from interval_ops.functions import derivatives
from interval_ops.profiles.profile import MissingRule, Profile, load_profile
from render.interpreter.hosted.algebra import NARROW, Errors, Interval, Pairs, natural
from render.interpreter.hosted.call import exact_profile
from render.ops.formulas import Formula, Refused

LEAST, MOST, STEPS = -126, 16, 128
KEEN = 0.75
SPAN = 16
"""So many cells a box may reach over."""
CELLS = 1 + (MOST - LEAST) * STEPS
"""Cells are those of magnitudes up to 2^`LEAST` together, then `STEPS` for each power of two up to 2^`MOST`."""
SLACK = 2.0**8
"""Errors of functions in float64 are measured maxima, too; they are taken so many times, and are nothing beside e."""
_SHIFT = 52 - 7  # `STEPS` is 2^7
_FIRST = ((LEAST + 1023) << 7) - 1
_SOME = 256
KNOWN, EXACT, OPEN = 0, 1, 2
"""What ends of a box are: what torch makes of it and its exact range, that range alone, nothing."""
Ends = tuple[np.ndarray, np.ndarray, np.ndarray]
_UP = 1.0 + 2.0**-40


@dataclass(frozen=True, eq=False)
class Dual:
    """A number of `DualKind`: its range over a box, and that of its derivative."""

    value: Interval
    slope: Interval

    @classmethod
    def _of(cls, own: Pairs, x: Any) -> Dual:
        return x if isinstance(x, Dual) else cls(own.number(x), own.number(0.0))

    def _pair(self, other: Any) -> tuple[Interval, Interval, Interval, Interval]:
        x = self._of(self.value.own, other)
        return self.value, self.slope, x.value, x.slope

    def __add__(self, other: Any) -> Dual:
        a, s, b, t = self._pair(other)
        return Dual(a + b, s + t)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        a, s, b, t = self._pair(other)
        return Dual(a - b, s - t)

    def __rsub__(self, other: Any) -> Dual:
        return self._of(self.value.own, other) - self

    def __mul__(self, other: Any) -> Dual:
        a, s, b, t = self._pair(other)
        return Dual(a * a, 2 * a * s) if other is self else Dual(a * b, a * t + b * s)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        a, s, b, t = self._pair(other)
        found = a / b
        return Dual(found, (s - found * t) / b)

    def __rtruediv__(self, other: Any) -> Dual:
        return self._of(self.value.own, other) / self

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __abs__(self) -> Dual:
        x = self.value.pair
        sign = _hull(np.where(x[1] > 0, 1.0, -1.0), np.where(x[0] < 0, -1.0, 1.0))
        return Dual(abs(self.value), self.slope * self.value.own.of(sign))

    def __pow__(self, count: int) -> Dual:
        assert count == 2
        return self * self


class DualKind:
    """Formulas with their derivatives over boxes, without rounding but float64's own."""

    def __init__(self) -> None:
        self.exact = Pairs(FP64, exact_profile(), quick=True)

    def of(self, pair: Pair) -> Dual:
        return Dual(self.exact.of(pair), self.exact.number(1.0))

    def number(self, x: float) -> Dual:
        return Dual(self.exact.number(x), self.exact.number(0.0))

    def pi(self) -> Dual:
        return Dual(self.exact.pi(), self.exact.number(0.0))

    def call(self, name: str, x: Dual) -> Dual:
        """KeyError where the derivative is not known."""
        return Dual(self.exact.call(name, x.value), self.exact.of(derivatives.over(name, x.value.pair)) * x.slope)

    def larger(self, a: Dual, b: Dual) -> Dual:
        return Dual(self.exact.larger(a.value, b.value), self._either(a.slope, b.slope))

    def smaller(self, a: Dual, b: Dual) -> Dual:
        return Dual(self.exact.smaller(a.value, b.value), self._either(a.slope, b.slope))

    @classmethod
    def over(cls, formula: Formula, box: Pair, told: dict[str, Any]) -> Pair:
        """The range of a formula's derivative, all that there is where it is not known."""
        own = cls()
        lo, hi = formula(own, own.of(box), **told).slope.pair
        known = (lo <= hi) & np.isfinite(lo) & np.isfinite(hi)
        return np.where(known, lo, -np.inf), np.where(known, hi, np.inf)

    def _either(self, a: Interval, b: Interval) -> Interval:
        (x, y), (v, w) = a.pair, b.pair
        return self.exact.of((np.minimum(x, v), np.maximum(y, w)))

    def choose(self, x: Dual, above: Callable[[], Dual], below: Callable[[], Dual]) -> Dual:
        """Where the choice may turn the function may jump, too: no slope."""
        zero = (np.zeros((1,) * x.value.pair[0].ndim),) * 2
        surely, possibly = selection.compare("gt", x.value.pair, zero)
        first, second = above(), below()
        jump = np.where(surely == possibly, 0.0, np.inf)
        chosen = self.exact.choose(x.value, lambda: first.slope, lambda: second.slope).pair
        found = self.exact.choose(x.value, lambda: first.value, lambda: second.value)
        return Dual(found, self.exact.of((chosen[0] - jump, chosen[1] + jump)))


def _hull(a: np.ndarray, b: np.ndarray) -> Pair:
    return np.minimum(a, b), np.maximum(a, b)


class Curve(NamedTuple):
    """By cell: the range of f', the error of E, and e. `rounded`: boxes that are `NARROW` are left to the natural
    extension, which is of points less than `KEEN` as wide by median."""

    least: np.ndarray
    most: np.ndarray
    fine: np.ndarray
    error: np.ndarray
    rounded: bool

    def around(self, x: np.ndarray, value: np.ndarray, box: Pair) -> Ends:
        """(lo, hi, what they are) of a box around x, f(x) = `value`: `KNOWN`, `EXACT` or `OPEN`."""
        out, kind = np.empty((2, x.size)), np.empty(x.size, np.uint8)
        if _within(x, value, box, self, out, kind):
            _around(x, value, box, self, out, kind)
        return out[0], out[1], kind


@inlined
def _cell(x: float) -> int:
    """Of the grid; of numbers beyond it the last one."""
    place: int = min(max((_bits(abs(x)) >> _SHIFT) - _FIRST, 0), CELLS - 1)  # exponent, first bits after the point
    return CELLS + place if x < 0 else place


@inlined
def _is_beyond(x: float) -> bool:
    return not abs(x) < 2.0**MOST


@inlined
def _ends(
    at: float, value: float, low: float, high: float, down: float, up: float, off: float
) -> tuple[float, float]:  # fmt: skip
    """Of a box around `at`, where the slope lies in [down, up]."""
    left, right = low - at, high - at
    off += (max(abs(down), abs(up)) * max(-left, right) + off + abs(value)) * 2.0**-50
    first = value + min(0.0, min(down * right, up * left)) - off
    return first, value + max(0.0, max(up * right, down * left)) + off


@compiled
def _within(x: Array, value: Array, box: Pair, curve: Curve, out: Array, kind: Array) -> int:
    """Boxes in one cell. How many others there are, which stay `OPEN`.

    In steps over some elements, of which those without a look into the table are vectorised.
    """
    cells, kinds, found = np.empty(_SOME, np.int64), np.empty(_SOME, np.int64), np.empty((3, _SOME))
    down, up, off, others = found[0], found[1], found[2], 0
    for start in range(0, x.size, _SOME):
        part = slice(start, min(start + _SOME, x.size))
        at, lo, hi, y = x[part], box[0][part], box[1][part], value[part]
        for i in range(at.size):
            u, v, here = lo[i], hi[i], np.float64(at[i])
            cells[i] = a = _cell(u)
            known = (a == _cell(v)) & (u <= here) & (here <= v) & (abs(u) < 2.0**MOST) & (abs(v) < 2.0**MOST)
            narrow = curve.rounded & (v - u <= NARROW * min(abs(u), abs(v)))
            kinds[i] = (EXACT if narrow else KNOWN) if known else OPEN
        for i in range(at.size):
            a = cells[i]
            down[i], up[i] = curve.least[a], curve.most[a]
            off[i] = curve.fine[a] if kinds[i] == EXACT else curve.error[a]
        low, high, told = out[0, part], out[1, part], kind[part]
        for i in range(at.size):
            low[i], high[i] = _ends(np.float64(at[i]), y[i], lo[i], hi[i], down[i], up[i], off[i])
            kinds[i] = kinds[i] if (abs(low[i]) < math.inf) & (abs(high[i]) < math.inf) else OPEN
        for i in range(at.size):
            told[i] = kinds[i]
            others += kinds[i] == OPEN
    return others


@compiled
def _around(x: Array, value: Array, box: Pair, curve: Curve, out: Array, kind: Array) -> None:
    (lo, hi), (low, high) = box, (out[0], out[1])
    least, most, fine, error = curve.least, curve.most, curve.fine, curve.error
    for i in range(x.size):
        if kind[i] != OPEN:
            continue
        a, b, at = _cell(lo[i]), _cell(hi[i]), np.float64(x[i])
        a, b = min(a, b), max(a, b)
        beyond = _is_beyond(lo[i]) | _is_beyond(hi[i]) | ((a < CELLS) & (b >= CELLS))
        if beyond | (b - a > SPAN) | (not lo[i] <= at) | (not at <= hi[i]):
            continue
        narrow = curve.rounded & (hi[i] - lo[i] <= NARROW * min(abs(lo[i]), abs(hi[i])))
        bound = fine if narrow else error
        down, up, off = least[a], most[a], bound[a]
        for c in range(a + 1, b + 1):
            down, up, off = min(down, least[c]), max(up, most[c]), max(off, bound[c])
        low[i], high[i] = _ends(at, value[i], lo[i], hi[i], down, up, off)
        if abs(low[i]) < math.inf and abs(high[i]) < math.inf:
            kind[i] = EXACT if narrow else KNOWN


@compiled
def _moved(x: Array, slopes: Pair, rates: tuple[float, float, float], value: Array, out: Array) -> bool:
    (least, most), (unit, beside, own), known = slopes, rates, True
    for i in range(x.size):
        size, a = abs(np.float64(x[i])), _cell(np.float64(x[i]))
        moved = (max(abs(least[a]), abs(most[a])) * unit + beside) * size + own * abs(value[i])
        out[i] = moved
        known &= (size < 2.0**MOST) & (moved < math.inf)
    return known


def moved(x: Array, value: Array, slopes: Pair, rates: tuple[float, float, float]) -> Array | None:
    """How far f(x) = `value` moves, in float32, where x moves by a part of itself, by the largest slope of its cell;
    None where one is not known. `rates`: that part, and of x and of f(x) what is added."""
    out = np.empty(x.size, np.float32)
    return out if _moved(x, slopes, rates, value, out) else None


def grid() -> Pair:
    """The cells of both signs, closed."""
    ends = np.ldexp(np.tile(1.0 + np.arange(STEPS) / STEPS, (MOST - LEAST, 1)), np.arange(LEAST, MOST)[:, None])
    ends = np.concatenate([[0.0], ends.reshape(-1), [2.0**MOST]])
    return np.concatenate([ends[:-1], -ends[1:]]), np.concatenate([ends[1:], -ends[:-1]])


@lru_cache(64)
def slopes_of(formula: Formula, keywords: tuple[tuple[str, Any], ...]) -> Pair | None:
    """The range of f' by cell; None where some function of the formula has no known derivative."""
    cells = grid()
    try:
        with np.errstate(all="ignore"):
            found = DualKind.over(formula, cells, dict(keywords))
    except (KeyError, MissingRule, Refused):
        return None
    least, most = (np.ascontiguousarray(np.broadcast_to(x, cells[0].shape), np.float64) for x in found)
    return least, most


@lru_cache(64)
def curve_of(
    name: str, formula: Formula, computed: Formula, fmt: Format, profile: Profile, keywords: tuple[tuple[str, Any], ...]
) -> Curve | None:
    """None where some function of the formula has no known derivative, or no error.

    `name`: torch's operation, whose value in float64 E is.
    """
    told, cells, slopes = dict(keywords), grid(), slopes_of(formula, keywords)
    if slopes is None:
        return None
    try:
        with np.errstate(all="ignore"):
            errors = [_errors(computed, cells, *by, told) for by in
                      ((fmt, profile), (FP64, load_profile("torch-cpu").inside(name)))]  # fmt: skip
    except (KeyError, MissingRule, Refused):
        return None
    fine = SLACK * errors[1] * _UP
    found = (fine, (errors[0] + fine) * _UP)
    fine, error = (np.ascontiguousarray(np.broadcast_to(x, cells[0].shape), np.float64) for x in found)
    return Curve(*slopes, fine, error, _knows(computed, cells[0], found[1], fmt, profile, told))


def _knows(
    computed: Formula, points: np.ndarray, error: np.ndarray, fmt: Format, profile: Profile, told: dict[str, Any]
) -> bool:
    low, high = natural(computed, [(points, points)], fmt, profile, told)
    with np.errstate(all="ignore"):
        share = (high - low) / (2 * error)
    return bool(np.nanmedian(share[np.abs(points) > 2.0**-20]) < KEEN)


def _errors(computed: Formula, cells: Pair, fmt: Format, profile: Profile, told: dict[str, Any]) -> np.ndarray:
    errors = Errors(fmt, profile)
    found: np.ndarray = computed(errors, errors.of(cells), **told).error
    return np.where(np.isnan(found), np.inf, found)


__all__ = ["EXACT", "KNOWN", "OPEN", "Curve", "DualKind", "curve_of", "grid", "moved", "slopes_of"]
