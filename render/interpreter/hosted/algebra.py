r"""Formulas on intervals: their exact range, their natural extension with every rounding, and how far torch may be off.

    Pairs    intervals; with `exact_profile` in float64 a rigorous enclosure of the exact range, else with all roundings
    Errors   the range of each step over the box, and e, the most that the computed step may be off at any one point:
             e(x + y) = e_x + e_y + u |z|,  e(x y) = |x| e_y + |y| e_x + e_x e_y + u |z|,
             e(x / y) = (e_x + |z| e_y) / (|y| - e_y) + u |z|,  e(f(x)) = |f'| e_x + r |z| + a,   |f'| over the box

(Higham, ASNA, sec. 3.3, with every second-order term). An error that is not finite says nothing, e.g. where an
intermediate result overflows; the natural extension holds there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic import selection
from interval_ops.arithmetic.broadcast import BLOCK
from interval_ops.bounds import Pair, each, is_point
from interval_ops.formats.model import FP64, Format
from interval_ops.functions import derivatives
from interval_ops.functions.elementary import unary
from interval_ops.profiles.profile import Profile
from render.interpreter.hosted.call import exact_profile, inner_of, number, same_rank, typed_number
from render.ops.formulas import Formula

_UP = 1.0 + 2.0**-40
THROUGH_EXP2 = 1.25 * 2.0**-24
"""What fl(x fl(log2 e)) is off by, of x: exp(x) = ex2 of it (`elementary._exp_through_exp2` has 1.224)."""
NARROW = 2.0**-20
"""Relative width of a box in which roundings decide: there the natural extension was never the wider one."""


@dataclass(frozen=True, eq=False)
class Interval:
    """A number of `Pairs`: bounds, in one rank for all numbers of an evaluation."""

    pair: Pair
    own: Pairs

    def _two(self, function: Callable[..., Pair], a: Any, b: Any) -> Interval:
        x, y = same_rank([self.own.number(v).pair if isinstance(v, (int, float)) else v.pair for v in (a, b)])
        return Interval(function(x, y, self.own.fmt, self.own.profile), self.own)

    def __add__(self, other: Any) -> Interval:
        return self._two(arithmetic.add, self, other)

    def __radd__(self, other: Any) -> Interval:
        return self._two(arithmetic.add, other, self)

    def __sub__(self, other: Any) -> Interval:
        return self._two(arithmetic.sub, self, other)

    def __rsub__(self, other: Any) -> Interval:
        return self._two(arithmetic.sub, other, self)

    def __mul__(self, other: Any) -> Interval:
        if other is self:
            return Interval(arithmetic.square(self.pair, self.own.fmt, self.own.profile), self.own)
        return self._two(arithmetic.mul, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Interval:
        return self._two(quotient, self, other)

    def __rtruediv__(self, other: Any) -> Interval:
        return self._two(quotient, other, self)

    def __neg__(self) -> Interval:
        return Interval(arithmetic.neg(self.pair), self.own)

    def __abs__(self) -> Interval:
        return Interval(arithmetic.abs_(self.pair), self.own)

    def __pow__(self, count: int) -> Interval:
        assert count == 2
        return self * self


def quotient(x: Pair, y: Pair, fmt: Format, profile: Profile) -> Pair:
    # float16 and bfloat16 divide in float32 and round once more; `div` encloses both.
    return arithmetic.div(x, y, fmt, profile, "div_rn")


def by_reciprocal(x: Pair, y: Pair, fmt: Format, profile: Profile) -> Pair:
    """x / y, or x (1 / y) with the reciprocal rounded: what torch's GPU kernels make of a number as divisor."""
    plain = quotient(x, y, fmt, profile)
    one = (np.ones((1,) * np.ndim(y[0])),) * 2
    other = arithmetic.mul(x, quotient(one, y, inner_of(fmt), profile), fmt, profile)
    return np.minimum(plain[0], other[0]), np.maximum(plain[1], other[1])


class Pairs:
    """Natural interval extension in `fmt`, which is float32 or float64; `quick`: functions are (`elementary.unary`)."""

    def __init__(self, fmt: Format, profile: Profile, quick: bool = False) -> None:
        self.fmt, self.profile, self.quick = fmt, profile, quick

    def of(self, pair: Pair) -> Interval:
        return Interval(pair, self)

    def number(self, x: float) -> Interval:
        return Interval(typed_number(x, self.fmt), self)

    def call(self, name: str, x: Interval) -> Interval:
        return Interval(unary(name, x.pair, self.fmt, self.profile, quick=self.quick), self)

    def larger(self, a: Interval, b: Interval) -> Interval:
        x, y = same_rank([a.pair, b.pair])
        return Interval(selection.maximum(x, y, True), self)

    def smaller(self, a: Interval, b: Interval) -> Interval:
        x, y = same_rank([a.pair, b.pair])
        return Interval(selection.minimum(x, y, True), self)

    def pi(self) -> Interval:
        low = np.array(math.pi)
        return Interval((low, np.nextafter(low, 4.0)) if self.fmt == FP64 else number(math.pi, self.fmt), self)

    def choose(self, x: Interval, above: Callable[[], Interval], below: Callable[[], Interval]) -> Interval:
        zero = (np.zeros((1,) * x.pair[0].ndim),) * 2
        first, second, sides = same_rank([above().pair, below().pair, x.pair])
        shape = np.broadcast_shapes(first[0].shape, second[0].shape, sides[0].shape)
        surely, possibly = (np.broadcast_to(c, shape) for c in selection.compare("gt", sides, zero))
        a, b = ((np.broadcast_to(lo, shape), np.broadcast_to(hi, shape)) for lo, hi in (first, second))
        return Interval(selection.select(surely, possibly, a, b), self)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number of `Errors`: exact range over the box, and the largest error at a point of it."""

    lo: np.ndarray
    hi: np.ndarray
    error: np.ndarray
    own: Errors

    @property
    def most(self) -> np.ndarray:
        found: np.ndarray = np.maximum(np.abs(self.lo), np.abs(self.hi))
        return found

    @property
    def least(self) -> np.ndarray:
        return np.where((self.lo <= 0) & (self.hi >= 0), 0.0, np.minimum(np.abs(self.lo), np.abs(self.hi)))

    def _made(self, range_: Interval, error: Any, exact: bool = False) -> Estimate:
        return self.own.made(range_, error, exact)

    def __add__(self, other: Any) -> Estimate:
        x = self.own.lift(other)
        return self._made(self.range + x.range, self.error + x.error)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Estimate:
        x = self.own.lift(other)
        return self._made(self.range - x.range, self.error + x.error)

    def __rsub__(self, other: Any) -> Estimate:
        return self.own.lift(other) - self

    def __mul__(self, other: Any) -> Estimate:
        x = self.own.lift(other)
        range_ = self.range * (self.range if other is self else x.range)
        return self._made(range_, _product(self.most, x.error) + _product(x.most, self.error) + self.error * x.error)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Estimate:
        x, range_ = self.own.lift(other), self.range / self.own.lift(other).range
        most, gap = self.own.made(range_, 0.0, True).most, x.least - x.error
        error = np.where(gap > 0, (self.error + _product(most, x.error)) / np.where(gap > 0, gap, 1.0), np.inf)
        return self._made(range_, error)

    def __rtruediv__(self, other: Any) -> Estimate:
        return self.own.lift(other) / self

    def __neg__(self) -> Estimate:
        return self._made(-self.range, self.error, True)

    def __abs__(self) -> Estimate:
        return self._made(abs(self.range), self.error, True)

    def __pow__(self, count: int) -> Estimate:
        assert count == 2
        return self * self

    @property
    def range(self) -> Interval:
        return self.own.exact.of((self.lo, self.hi))


def _product(size: np.ndarray, error: np.ndarray) -> np.ndarray:
    """size * error, where an exact operand (error 0) adds nothing however large the other is."""
    return np.where(error == 0, 0.0, size * error)


class Errors:
    """Errors of a formula in `fmt` (float32 or float64), with the functions' errors of `profile`."""

    def __init__(self, fmt: Format, profile: Profile) -> None:
        self.fmt, self.profile, self.exact = fmt, profile, _exact(fmt)
        self.u = 0.0 if profile.muted("arith") else fmt.u
        self.tiny = 0.0 if profile.muted("arith") else max(fmt.half_subnormal, 2.0**-1074)

    def of(self, pair: Pair) -> Estimate:
        lo, hi = (np.asarray(end, np.float64) for end in pair)
        return Estimate(lo, hi, np.zeros_like(lo), self)

    def lift(self, x: Any) -> Estimate:
        return self.number(x) if isinstance(x, (int, float)) else x

    def number(self, x: float) -> Estimate:
        """A constant of the formula is one number; the nearest of the format is off by its rounding."""
        lo, hi = number(x, self.fmt)
        exact = np.array(float(x))
        return Estimate(exact, exact, np.maximum(hi - exact, exact - lo), self)

    def made(self, range_: Interval, error: Any, exact: bool = False) -> Estimate:
        lo, hi = (np.asarray(end, np.float64) for end in range_.pair)
        found = Estimate(lo, hi, np.broadcast_to(np.asarray(error, np.float64), lo.shape), self)
        if exact:
            return found
        own = self.u * (found.most + found.error) + self.tiny
        total = (found.error + own) * _UP
        return Estimate(lo, hi, np.where(found.most + total < self.fmt.max, total, np.inf), self)

    def call(self, name: str, x: Estimate) -> Estimate:
        wide = (x.lo - x.error, x.hi + x.error)
        slope = np.maximum(*map(np.abs, derivatives.over(name, wide))) if name in derivatives.DERIVATIVES else np.inf
        moved = x.error
        if self.fmt.bits < 64 and self.profile.through_exp2(name):
            moved = np.where(np.isinf(x.most), moved, moved + THROUGH_EXP2 * (x.most + x.error))
        found = self.made(self.exact.call(name, x.range), np.where(moved == 0, 0.0, slope * moved), True)
        if self.profile.muted("function"):
            return found
        error = self.profile.fn(name, self.fmt.name)
        total = (found.error + error.r * (found.most + found.error) + error.a + self.tiny) * _UP
        limit = min(self.fmt.max, error.huge)
        return Estimate(found.lo, found.hi, np.where(found.most + total < limit, total, np.inf), self)

    def larger(self, a: Estimate, b: Estimate) -> Estimate:
        return self.made(self.exact.larger(a.range, b.range), np.maximum(a.error, b.error), True)

    def smaller(self, a: Estimate, b: Estimate) -> Estimate:
        return self.made(self.exact.smaller(a.range, b.range), np.maximum(a.error, b.error), True)

    def pi(self) -> Estimate:
        return self.number(math.pi)

    def choose(self, x: Estimate, above: Callable[[], Estimate], below: Callable[[], Estimate]) -> Estimate:
        """Where a rounding may turn the choice, the other side's value counts as an error."""
        first, second = above(), below()
        range_ = self.exact.choose(x.range, lambda: first.range, lambda: second.range)
        surely, never = x.lo - x.error > 0, x.hi + x.error <= 0
        apart = np.maximum(first.hi - second.lo, second.hi - first.lo) + first.error + second.error
        error = np.where(surely, first.error, np.where(never, second.error, np.maximum(apart, 0.0)))
        turned = (x.error > 0) & ~surely & ~never
        error = np.where(turned | surely | never, error, np.maximum(first.error, second.error))
        return self.made(range_, error, True)


def _exact(fmt: Format) -> Pairs:
    """Arithmetic without rounding but float64's own, finer than results in `fmt` ask for."""
    return Pairs(FP64, exact_profile(), quick=fmt.bits < 64)


def range_of(formula: Formula, pair: Pair, fmt: Format, turns: tuple[float, ...], keywords: dict[str, Any]) -> Pair:
    """Exact range of a formula of one operand that is monotone between its turns (to 2^-40 relative)."""
    lo, hi = each(pair, lambda end: np.asarray(end, np.float64))
    exact = _exact(fmt)

    def at(x: np.ndarray, y: np.ndarray) -> Pair:
        found: Pair = formula(exact, exact.of((x, y)), **keywords).pair
        return found

    low, high = at(lo, lo)
    if not is_point((lo, hi)):
        other = at(hi, hi)
        low, high = np.minimum(low, other[0]), np.maximum(high, other[1])
    for turn in turns:
        inside = (lo <= turn + 2.0**-40) & (hi >= turn - 2.0**-40)
        if inside.any():
            room = abs(turn) * 2.0**-40
            x = np.full((1,) * lo.ndim, turn)
            first, last = at(x - room, x + room)
            low, high = np.where(inside, np.minimum(low, first), low), np.where(inside, np.maximum(high, last), high)
    return low, high


def natural(formula: Formula, pairs: list[Pair], fmt: Format, profile: Profile, keywords: dict[str, Any]) -> Pair:
    """The natural extension with every step rounded to `fmt`, which may be a narrow one."""
    with np.errstate(all="ignore"):
        own = Pairs(fmt, profile)
        found: Pair = formula(own, *_operands(own, pairs), **keywords).pair
    return found


def _operands(own: Any, pairs: list[Pair]) -> list[Any]:
    """As numbers of an evaluation: one object for what is one operand, so that a square is seen as such."""
    made = {id(p): own.of(p) for p in pairs}
    return [made[id(p)] for p in pairs]


def enclosed(
    formula: Formula, computed: Formula, pairs: list[Pair], fmt: Format, profile: Profile,
    turns: tuple[float, ...] | None, keywords: dict[str, Any],
) -> Pair:  # fmt: skip
    """What torch may make of a formula in `fmt` (float32 or float64) and its exact value, over a box.

    The natural extension with every rounding, and where the formula's pieces are known the exact range with the largest
    error at a point around it; both hold, so what is in both counts. Block by block: what stands between operand and
    result then stays in the cache.
    """
    if len(pairs) == 1 and pairs[0][0].size > BLOCK:
        return in_blocks(pairs[0], lambda p: enclosed(formula, computed, [p], fmt, profile, turns, keywords))
    with np.errstate(all="ignore"):
        lo, hi = natural(computed, pairs, fmt, profile, keywords)
        if turns is None or len(pairs) > 1:
            if formula is not computed:
                exact = _exact(fmt)
                low, high = formula(exact, *_operands(exact, pairs), **keywords).pair
                lo, hi = np.minimum(lo, low), np.maximum(hi, high)
            return lo, hi
        known = None
        if formula is not computed:  # the natural extension is that of another formula: the exact range belongs to it
            known = range_of(formula, pairs[0], fmt, turns, keywords)
            lo, hi = np.minimum(lo, known[0]), np.maximum(hi, known[1])
        return _narrowed((formula, computed), pairs[0], (lo, hi), known, fmt, profile, turns, keywords)


def _around(
    range_: Pair, computed: Formula, pair: Pair, fmt: Format, profile: Profile, keywords: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The exact range with the largest error at a point around it, and where that says something."""
    errors = Errors(fmt, profile)
    error = computed(errors, errors.of(pair), **keywords).error
    low, high = range_
    low, high = np.nextafter(low - error, -np.inf), np.nextafter(high + error, np.inf)
    return low, high, np.isfinite(error) & ~np.isnan(low) & ~np.isnan(high)


def _narrowed(
    formulas: tuple[Formula, Formula], pair: Pair, natural: Pair, known: Pair | None, fmt: Format, profile: Profile,
    turns: tuple[float, ...], keywords: dict[str, Any],
) -> Pair:  # fmt: skip
    """What is in both: `natural` and, for boxes that are not `NARROW`, `_around`; a fifth of the work for most.

    `known`: the exact range, where it was computed.
    """
    x, y = (np.asarray(end, np.float64) for end in pair)
    lo, hi = (np.array(np.broadcast_to(end, x.shape), np.float64) for end in natural)
    open_ = ~((y - x <= NARROW * np.minimum(np.abs(x), np.abs(y))) & np.isfinite(lo) & np.isfinite(hi))
    if open_.any():
        formula, computed = formulas
        some = x[open_], y[open_]
        exact = None if known is None else (known[0][open_], known[1][open_])
        exact = exact or range_of(formula, some, fmt, turns, keywords)
        low, high, usable = _around(exact, computed, some, fmt, profile, keywords)
        lo[open_] = np.where(usable, np.fmax(low, lo[open_]), lo[open_])
        hi[open_] = np.where(usable, np.fmin(high, hi[open_]), hi[open_])
    return lo, hi


def in_blocks(pair: Pair, rule: Callable[[Pair], Pair]) -> Pair:
    """A rule on elements, on so many at once that what it makes on the way stays in the cache."""
    flat = each(pair, lambda end: np.ascontiguousarray(end).reshape(-1))
    out = np.empty((2, flat[0].size))
    for start in range(0, flat[0].size, BLOCK):
        cut = slice(start, start + BLOCK)
        out[:, cut] = rule(each(flat, lambda end, cut=cut: end[cut]))  # type: ignore[misc]
    return out[0].reshape(pair[0].shape), out[1].reshape(pair[0].shape)
