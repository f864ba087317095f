"""Numbers in which formulas of combine functions are evaluated (`means`): exact, with derivatives, with errors.

Each knows the casts of a formula and its tests for one value: a test that a box leaves open gives no number, so that
whoever asks for a proof has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from interval_ops.bounds import Pair
from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.functions import derivatives
from interval_ops.profiles.profile import MissingRule, Profile
from render.interpreter.hosted.algebra import Errors, Estimate, Interval, Pairs
from render.interpreter.hosted.call import exact_profile

FORMATS = {"float32": FP32, "float64": FP64, "float16": FP16, "bfloat16": BF16}
"""What a formula casts to, by Triton's names."""


def _is(lo: np.ndarray, hi: np.ndarray, number: float) -> tuple[np.ndarray, np.ndarray]:
    """Where a box is this number alone, and where it does not hold it."""
    return (lo == number) & (hi == number), (lo > number) | (hi < number)


class ExactNumbers(Pairs):
    """Numbers without rounding."""

    def __init__(self) -> None:
        super().__init__(FP64, exact_profile())

    def point(self, x: Any) -> Interval:
        return self.of((np.asarray(x, np.float64),) * 2)

    def constant(self, x: float) -> Interval:
        return self.point(np.full(1, x))

    def cast(self, name: str, x: Interval) -> Interval:
        return x

    def met(self, xs: list[Interval]) -> list[Interval]:
        return xs

    def quotient(self, x: Interval, y: Interval) -> Interval:
        return x / y

    def equal(self, x: Interval, number: float, yes: Interval, no: Interval) -> Interval:
        surely, never = _is(*x.pair, number)
        ends = [np.where(surely, a, np.where(never, b, np.nan)) for a, b in zip(yes.pair, no.pair, strict=True)]
        return self.of((ends[0], ends[1]))


@dataclass(frozen=True, eq=False)
class Slope:
    """A value over boxes with its derivatives by both operands."""

    value: Interval
    by: tuple[Interval, Interval]
    own: Slopes

    def _made(self, value: Interval, by: Callable[[int], Interval]) -> Slope:
        return Slope(value, (by(0), by(1)), self.own)

    def __add__(self, x: Slope) -> Slope:
        return self._made(self.value + x.value, lambda i: self.by[i] + x.by[i])

    def __sub__(self, x: Slope) -> Slope:
        return self._made(self.value - x.value, lambda i: self.by[i] - x.by[i])

    def __mul__(self, x: Slope) -> Slope:
        return self._made(self.value * x.value, lambda i: self.by[i] * x.value + x.by[i] * self.value)

    def __truediv__(self, x: Slope) -> Slope:
        made = self.value / x.value
        return self._made(made, lambda i: (self.by[i] - made * x.by[i]) / x.value)

    def __abs__(self) -> Slope:
        lo, hi = self.value.pair
        sign = self.own.exact.of((np.where(lo >= 0, 1.0, -1.0), np.where(hi <= 0, -1.0, 1.0)))
        return self._made(abs(self.value), lambda i: sign * self.by[i])


class Slopes:
    """Numbers with derivatives, in exact arithmetic over boxes."""

    def __init__(self) -> None:
        self.exact = ExactNumbers()

    def operands(self, a: Pair, b: Pair) -> tuple[Slope, Slope]:
        ones, zeros = (self.exact.of((np.full(a[0].shape, x),) * 2) for x in (1.0, 0.0))
        return Slope(self.exact.of(a), (ones, zeros), self), Slope(self.exact.of(b), (zeros, ones), self)

    def constant(self, x: float) -> Slope:
        zero = self.exact.point(np.zeros(1))
        return Slope(self.exact.point(np.full(1, x)), (zero, zero), self)

    def cast(self, name: str, x: Slope) -> Slope:
        return x

    def met(self, xs: list[Slope]) -> list[Slope]:
        return xs

    def call(self, name: str, x: Slope) -> Slope:
        slope = self.exact.of(derivatives.over(name, x.value.pair))
        return Slope(self.exact.call(name, x.value), (slope * x.by[0], slope * x.by[1]), self)

    def quotient(self, x: Slope, y: Slope) -> Slope:
        return x / y

    def equal(self, x: Slope, number: float, yes: Slope, no: Slope) -> Slope:
        a, b = (self.exact.equal(x.value, number, yes.by[i], no.by[i]) for i in (0, 1))
        return Slope(self.exact.equal(x.value, number, yes.value, no.value), (a, b), self)

    def larger(self, x: Slope, y: Slope) -> Slope:
        return self._chosen(x, y, self.exact.larger(x.value, y.value), 1)

    def smaller(self, x: Slope, y: Slope) -> Slope:
        return self._chosen(x, y, self.exact.smaller(x.value, y.value), -1)

    def _chosen(self, x: Slope, y: Slope, value: Interval, way: int) -> Slope:
        (xl, xh), (yl, yh) = x.value.pair, y.value.pair
        first, second = (xl > yh, yl > xh) if way > 0 else (xh < yl, yh < xl)

        def by(i: int) -> Interval:
            (a, b), (c, d) = x.by[i].pair, y.by[i].pair
            low, high = np.minimum(a, c), np.maximum(b, d)
            return self.exact.of((np.where(first, a, np.where(second, c, low)),
                                  np.where(first, b, np.where(second, d, high))))  # fmt: skip

        return Slope(value, (by(0), by(1)), self)


class StepErrors(Errors):
    """Errors of one step by the target's functions, with its division; small results may be flushed.

    Every number has the format of its type, so that what is cast to float32 on the way is off by that alone. A number
    of the text takes the type of what it meets.
    """

    def __init__(self, fmt: Format, profile: Profile) -> None:
        own = {"log1p": profile.fn("libdevice_log1p")} if "libdevice_log1p" in profile.functions else {}
        super().__init__(fmt, replace(profile, functions={**profile.functions, **own}))
        self.division = profile.fn("div", fmt.name).r if self.u else 0.0
        self.tiny = max(self.tiny, 2.0 ** (fmt if fmt.bits > 16 else FP32).emin)
        self._target, self._root, self._others = profile, fmt, {fmt.name: self}

    def _in(self, fmt: Format) -> StepErrors:
        if fmt.name not in self._others:
            other = self._others[fmt.name] = StepErrors(fmt, self._target)
            other._root, other._others = self._root, self._others
        return self._others[fmt.name]

    def made(self, range_: Interval, error: Any, exact: bool = False) -> Estimate:
        """As it is; what is 0 or infinite of exact operands is no rounding."""
        found = super().made(range_, error, exact)
        still = (found.lo == found.hi) & (np.isinf(found.lo) | ((found.lo == 0) & (np.asarray(error) == 0)))
        return replace(found, error=np.where(still, 0.0, found.error))

    def constant(self, x: float) -> float:
        return x

    def cast(self, name: str, x: Any) -> Any:
        narrow = self._in(FORMATS.get(name, self._root))
        if isinstance(x, (int, float)):
            return narrow.number(x)
        if narrow.fmt.p >= x.own.fmt.p and narrow.fmt.max >= x.own.fmt.max:
            return replace(x, own=narrow)
        return narrow.made(x.range, x.error)

    def met(self, xs: list[Any]) -> list[Any]:
        """In the widest format of them; two narrow ones meet in float32."""
        formats = {x.own.fmt for x in xs if isinstance(x, Estimate)}
        if not formats:
            return [self.number(x) for x in xs]
        fmt = max(formats, key=lambda f: f.bits)
        own = self._in(FP32 if fmt.bits == 16 and len(formats) > 1 else fmt)
        return [(x if x.own is own else replace(x, own=own)) if isinstance(x, Estimate) else own.number(x) for x in xs]

    def call(self, name: str, x: Any) -> Estimate:
        own = x.own if isinstance(x, Estimate) else self
        found = Errors.call(own, name, own.lift(x))
        if name != "sqrt":
            return found
        still = (x.lo == 0) & (x.hi == 0) & (x.error == 0)  # IEEE 754 and PTX ISA 8, sqrt.approx: +0 of +0
        return replace(found, error=np.where(still, 0.0, found.error))

    def quotient(self, x: Estimate, y: Estimate) -> Estimate:
        found = x / y
        assert isinstance(found.own, StepErrors)
        return replace(found, error=found.error + found.own.division * (found.most + found.error) * (found.error > 0))

    def larger(self, a: Estimate, b: Estimate) -> Estimate:
        return Errors.larger(a.own, a, b)

    def smaller(self, a: Estimate, b: Estimate) -> Estimate:
        return Errors.smaller(a.own, a, b)

    def equal(self, x: Estimate, number: float, yes: Any, no: Any) -> Estimate:
        first, second = self.met([yes, no])
        surely, never = _is(x.lo - x.error, x.hi + x.error, number)
        lo, hi, error = (
            np.where(surely, a, np.where(never, b, np.nan))
            for a, b in zip((first.lo, first.hi, first.error), (second.lo, second.hi, second.error), strict=True)
        )
        return Estimate(lo, hi, error, first.own)


def errors_in(fmt: Format, profile: Profile) -> StepErrors | None:
    """None where the target says nothing of such a step."""
    try:
        return StepErrors(fmt, profile)
    except MissingRule:
        return None
