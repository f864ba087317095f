"""The table of functions of one argument: how a ball is evaluated, and how the range over an interval follows from it.

A row names Arb's method, the domain and the shape. Monotone functions take their range at the ends, even ones at the
ends of |x|; the others have a rule for what lies between the ends. The names are those of `render.trace` and of the
vendor's library; `REFERENCE` has what the reference calls by another name, or alone.

Where the domain ends, Arb often says "anything": the row states the limit. Arguments beyond `far` give values beyond
every format (binary exponents of 2^13 and more): the range then follows from the value at `far`, as the function is
monotone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from render.exact import intervals as iv
from render.exact.intervals import Interval, Maybe
from render.exact.points import (
    INF,
    NINF,
    ONE,
    PREC,
    TWO,
    ZERO,
    Ball,
    Point,
    down,
    exponent,
    is_whole,
    least,
    most,
    number,
    power,
    precision,
    up,
)  # fmt: skip

Formula = Callable[[Any], Any]
"""A ball with the function of every number of a ball; NaN where it is not defined."""
Range = Callable[[Interval], Maybe]

EVERYWHERE: Interval = (NINF, INF)
NOT_NEGATIVE: Interval = (ZERO, INF)
UNIT: Interval = (-ONE, ONE)
_SPARE = 24
"""Bits of the precision that an evaluation may lose before it is repeated with more."""
_MOST_BITS = 4096


@dataclass(frozen=True)
class ArbMonotone:
    """`limits`: of the function at both ends of its domain, None where Arb finds them; `far`: see above. `floor`: no
    implementation gives less. `slope`: the derivative."""

    formula: Formula
    domain: Interval = EVERYWHERE
    limits: tuple[Any, Any] = (None, None)
    far: tuple[Any, Any] = (NINF, INF)
    rising: bool = True
    floor: Any = NINF
    slope: Formula | None = None

    def range(self, x: Interval) -> Maybe:
        """Anything where x leaves the domain."""
        if x[0] < self.domain[0] or x[1] > self.domain[1]:
            return None
        if x[0] is x[1]:
            return self._at(x[0])
        low, high = (self._at(end) for end in (x if self.rising else x[::-1]))
        return None if low is None or high is None else (low[0], high[1])

    def _at(self, x: Point) -> Maybe:
        for end, limit in zip(self.domain, self.limits, strict=True):
            if limit is not None and x == end:
                return limit, limit
        return self._bounded(self._beyond(x) or iv.enclosed(value(self.formula, x)))

    def _beyond(self, x: Point) -> Maybe:
        """Between the value at `far` and the limit."""
        for far, limit, past in zip(self.far, self.limits, (x < self.far[0], x > self.far[1]), strict=True):
            if past:
                inner = iv.enclosed(value(self.formula, far))
                return None if inner is None else (least((inner[0], limit)), most((inner[1], limit)))
        return None

    def _bounded(self, y: Maybe) -> Maybe:
        """No value lies beyond the limits."""
        if y is None:
            return None
        bottom, top = self.limits if self.rising else self.limits[::-1]
        low = bottom if bottom is not None and y[0] < bottom else y[0]
        high = top if top is not None and y[1] > top else y[1]
        return y if low is y[0] and high is y[1] else (low, high)


def value(formula: Formula, x: Point) -> Ball:
    """The function at a point, to nearly the precision in force."""
    y = formula(x)
    bits = PREC
    while not y.is_exact() and y.rel_accuracy_bits() < PREC - _SPARE and bits < _MOST_BITS and y.is_finite():
        bits *= 4
        with precision(bits):
            y = formula(x)
    return y if bits == PREC else +y


def _odd(formula: Formula) -> Formula:
    """An odd, rising function that Arb has for positive numbers."""

    def both(x: Ball) -> Ball:
        if x > 0:
            return formula(x)
        low, high = -x.lower(), x.upper()
        left = -formula(low) if low > 0 else ZERO
        return left.union(formula(high) if high > 0 else -formula(-high) if high < 0 else ZERO)

    return both


def _scaled_erfc(x: Ball) -> Ball:
    """exp(x^2) erfc(x); far out 1 / (x sqrt(pi)) (1 - t), 0 <= t <= 1 / (2 x^2) (NIST DLMF 7.12.1)."""
    if not x > _FAR_OUT:
        return (x * x).exp() * x.erfc()
    first = 1 / (x * Ball.pi().sqrt())
    return first.union(first * (1 - 1 / (2 * x * x)))


_FAR_OUT = power(100)
_GROWS = (-power(13), power(13))
_FALLS_FAST = power(7)

MONOTONE: dict[str, ArbMonotone] = {
    "exp": ArbMonotone(lambda x: x.exp(), limits=(ZERO, INF), far=_GROWS, floor=ZERO, slope=lambda x: x.exp()),
    "exp2": ArbMonotone(lambda x: TWO**x, limits=(ZERO, INF), far=_GROWS, floor=ZERO,
                        slope=lambda x: TWO.log() * TWO**x),
    "exp10": ArbMonotone(lambda x: number(10) ** x, limits=(ZERO, INF), far=_GROWS, floor=ZERO),
    "expm1": ArbMonotone(lambda x: x.expm1(), limits=(-ONE, INF), far=_GROWS, slope=lambda x: x.exp()),
    "log": ArbMonotone(lambda x: x.log(), NOT_NEGATIVE, (NINF, INF), slope=lambda x: 1 / x),
    "log2": ArbMonotone(lambda x: x.log_base(2), NOT_NEGATIVE, (NINF, INF), slope=lambda x: 1 / (x * TWO.log())),
    "log10": ArbMonotone(lambda x: x.log_base(10), NOT_NEGATIVE, (NINF, INF)),
    "log1p": ArbMonotone(lambda x: x.log1p(), (-ONE, INF), (NINF, INF), slope=lambda x: 1 / (1 + x)),
    "sqrt": ArbMonotone(lambda x: x.sqrt(), NOT_NEGATIVE, (ZERO, INF), floor=ZERO, slope=lambda x: x.rsqrt() / 2),
    "rsqrt": ArbMonotone(lambda x: x.rsqrt(), NOT_NEGATIVE, (INF, ZERO), rising=False, floor=ZERO,
                         slope=lambda x: -x.rsqrt() / (2 * x)),
    "cbrt": ArbMonotone(_odd(lambda x: x.root(3)), limits=(NINF, INF)),
    "erf": ArbMonotone(lambda x: x.erf(), limits=UNIT, slope=lambda x: 2 * (-x * x).exp() / Ball.pi().sqrt()),
    "erfc": ArbMonotone(lambda x: x.erfc(), limits=(TWO, ZERO), far=(NINF, _FALLS_FAST), rising=False, floor=ZERO),
    "erfcx": ArbMonotone(_scaled_erfc, limits=(INF, ZERO), far=(-_FALLS_FAST, INF), rising=False, floor=ZERO),
    "normcdf": ArbMonotone(lambda x: (-x / TWO.sqrt()).erfc() / 2, limits=(ZERO, ONE), far=(-2 * _FALLS_FAST, INF),
                           floor=ZERO),
    "erfinv": ArbMonotone(lambda x: x.erfinv(), UNIT, (NINF, INF)),
    "erfcinv": ArbMonotone(lambda x: x.erfcinv(), (ZERO, TWO), (INF, NINF), rising=False),
    "normcdfinv": ArbMonotone(lambda p: -TWO.sqrt() * (2 * p).erfcinv(), (ZERO, ONE), (NINF, INF)),
    "tanh": ArbMonotone(lambda x: x.tanh(), limits=UNIT, slope=lambda x: 1 - x.tanh() * x.tanh()),
    "sinh": ArbMonotone(lambda x: x.sinh(), limits=(NINF, INF), far=_GROWS, slope=lambda x: x.cosh()),
    "asinh": ArbMonotone(lambda x: x.asinh(), limits=(NINF, INF)),
    "acosh": ArbMonotone(lambda x: x.acosh(), (ONE, INF), (ZERO, INF)),
    "atanh": ArbMonotone(lambda x: x.atanh(), UNIT, (NINF, INF)),
    "asin": ArbMonotone(lambda x: x.asin(), UNIT),
    "acos": ArbMonotone(lambda x: x.acos(), UNIT, rising=False),
    "atan": ArbMonotone(lambda x: x.atan(), slope=lambda x: 1 / (1 + x * x)),
    "cyl_bessel_i1": ArbMonotone(lambda x: x.bessel_i(1), limits=(NINF, INF), far=_GROWS),
}  # fmt: skip

EVEN: dict[str, ArbMonotone] = {
    "cosh": ArbMonotone(lambda x: x.cosh(), NOT_NEGATIVE, (ONE, INF), (ZERO, _GROWS[1])),
    "cyl_bessel_i0": ArbMonotone(lambda x: x.bessel_i(0), NOT_NEGATIVE, (ONE, INF), (ZERO, _GROWS[1])),
}
"""Rising from 0 on."""


def _even(row: ArbMonotone) -> Range:
    return lambda x: row.range(iv.magnitudes(x))


# waves and poles


def _wave(formula: Formula, top: float, turns: bool) -> Range:
    """A wave with its maximum 1 at `top` half turns and its minimum -1 one further; `turns`: x counts half turns."""

    def rule(x: Interval) -> Maybe:
        if iv.infinite(x):
            return None
        found = iv.hull(*(iv.enclosed(value(formula, end)) for end in iv.ends(x)))
        if found is None:
            return None
        low, high = most((-ONE, found[0])), least((ONE, found[1]))
        if iv.single(x):
            return low, high
        return -ONE if _meets(x, turns, top + 1, 2) else low, ONE if _meets(x, turns, top, 2) else high

    return rule


def _meets(x: Interval, turns: bool, place: float, period: int) -> bool:
    """Whether `place` + k `period` half turns may lie in x for an integer k."""
    size = iv.magnitude(x)
    with precision(PREC + min(_MOST_BITS, max(0, exponent(size) if size > 0 else 0))):
        first, last = ((end if turns else end / Ball.pi()) - place for end in x)
        return bool((first / period).lower().ceil() <= (last / period).upper().floor())


def _tan(x: Interval) -> Maybe:
    """Rising between the poles, which are half a half turn off the integers."""
    if iv.infinite(x) or (not iv.single(x) and _meets(x, False, 0.5, 1)):
        return None
    return ArbMonotone(lambda v: v.tan()).range(x)


def _rcbrt(x: Interval) -> Maybe:
    """Falling on either side of 0."""
    if iv.has_zero(x):
        return None if iv.single(x) else EVERYWHERE
    return ArbMonotone(lambda v: 1 / MONOTONE["cbrt"].formula(v), rising=False).range(x)


_VALLEY = Ball(1.4616321449683623, 1e-15)
"""Where the gamma function of positive numbers is least (OEIS A030169)."""


def _gamma(formula: Formula, left: Formula, far: Point) -> Range:
    """Falls to the valley and rises behind it; left of 0 points only, which are no poles."""
    falling = ArbMonotone(formula, NOT_NEGATIVE, (INF, None), rising=False)
    rising = ArbMonotone(formula, NOT_NEGATIVE, (None, INF), (ZERO, far))

    def rule(x: Interval) -> Maybe:
        if iv.infinite(x):
            return None
        if not x[0] > 0:
            return iv.enclosed(value(left, x[0])) if iv.single(x) and not is_whole(x[0]) else None
        if x[1] < _VALLEY:
            return falling.range(x)
        if x[0] > _VALLEY or iv.single(x):
            return rising.range(x)
        return iv.hull(falling.range(x[:1] * 2), rising.range(x[1:] * 2), iv.enclosed(formula(_VALLEY)))

    return rule


# Bessel functions of the first and second kind

PIECES = 64
_NARROW = 2.0**-10


def bessel(kind: str, n: int, x: Interval) -> Maybe:
    """What J_n ("j") or Y_n ("y") may be over x; anything where Y_n has a pole or no value.

    Values in the middle of many pieces, and as far from there as the slope can lead: |J_n'| <= 2 / pi, the mean of
    |sin t| (NIST DLMF 10.9.2). J_n^2 + Y_n^2 falls with x (10.9.30, Nicholson), so that its root at the left end of a
    piece bounds Y_n there, and Y_n' = Y_(n-1) - (n / x) Y_n (10.6.2) with it. Over a narrow interval Arb encloses the
    slope itself, half the difference of the neighbours (10.6.1).
    """
    if iv.infinite(x) or (kind == "y" and not x[0] > 0):
        return None
    formula: Formula = (lambda v: v.bessel_j(n)) if kind == "j" else (lambda v: v.bessel_y(n))
    if iv.single(x):
        return iv.enclosed(value(formula, x[0]))
    near = _narrow(formula, kind, n, x) if up(x[1], -x[0]) < _NARROW else None
    if near is not None:
        return near
    step = up(x[1], -x[0]) / PIECES
    found: list[Maybe] = []
    for k in range(PIECES):
        left, right = down(x[0], (step * k).lower()), up(x[0], (step * (k + 1)).upper())
        middle = down(left, (step / 2).lower())
        found.append(iv.spread(iv.enclosed(value(formula, middle)), (_slope(kind, n, left) * (right - middle)).upper()))
    return iv.hull(*found)


def _narrow(formula: Formula, kind: str, n: int, x: Interval) -> Maybe:
    all_of_it = x[0].union(x[1])
    neighbours = [getattr(all_of_it, f"bessel_{kind}")(m) for m in (n - 1, n + 1)]
    slope = abs(neighbours[0] - neighbours[1]) / 2
    if not slope.is_finite():
        return None
    middle = ((x[0] + x[1]) / 2).lower()
    reach = (slope * most(((x[1] - middle).upper(), (middle - x[0]).upper()))).upper()
    return iv.spread(iv.enclosed(value(formula, middle)), reach)


def _slope(kind: str, n: int, x: Point) -> Ball:
    if kind == "j":
        return 2 / Ball.pi()
    return _modulus(n - 1, x) + abs(n) / x * _modulus(n, x)


def _modulus(n: int, x: Point) -> Ball:
    first, second = (value(f, x) for f in (lambda v: v.bessel_j(n), lambda v: v.bessel_y(n)))
    return (first * first + second * second).sqrt()


def _order(kind: str, n: int) -> Range:
    return lambda x: bessel(kind, n, x)


def _waved(formula: Formula, top: float, turns: bool) -> tuple[Formula, Range]:
    return formula, _wave(formula, top, turns)


_OTHERS: dict[str, tuple[Formula | None, Range | None]] = {
    "sin": _waved(lambda x: x.sin(), 0.5, False),
    "cos": _waved(lambda x: x.cos(), 0.0, False),
    "sinpi": _waved(lambda x: x.sin_pi(), 0.5, True),
    "cospi": _waved(lambda x: x.cos_pi(), 0.0, True),
    "tan": (lambda x: x.tan(), _tan),
    "rcbrt": (None, _rcbrt),
    "gamma": (lambda x: x.gamma(), None),
    "tgamma": (None, _gamma(lambda x: x.gamma(), lambda x: x.gamma(), _GROWS[1])),
    "lgamma": (lambda x: abs(x.gamma()).log(), _gamma(lambda x: x.lgamma(), lambda x: abs(x.gamma()).log(), INF)),
    "digamma": (lambda x: x.digamma(), None),
    "floor": (lambda x: x.floor(), None),
    "ceil": (lambda x: x.ceil(), None),
    **{f"{kind}{n}": (None, _order(kind, n)) for kind in "jy" for n in (0, 1)},
}
"""Formula and range of the functions that are not monotone; None where nobody asks for one."""
FORMULAS: dict[str, Formula] = {
    **{name: row.formula for name, row in (MONOTONE | EVEN).items()},
    **{name: formula for name, (formula, _) in _OTHERS.items() if formula},
}
"""What balls can be put into, wide ones as well."""
RANGES: dict[str, Range] = {
    **{name: row.range for name, row in MONOTONE.items()},
    **{name: _even(row) for name, row in EVEN.items()},
    **{name: range_ for name, (_, range_) in _OTHERS.items() if range_},
}
KNOWN = frozenset(RANGES)
NEVER_NEGATIVE = frozenset(name for name, row in MONOTONE.items() if row.floor is ZERO)


def over(name: str, x: Maybe) -> Maybe:
    """The range of the function over x; anything where x leaves the domain."""
    return None if x is None else RANGES[name](x)


def slopes(name: str, x: Interval) -> Maybe:
    """The range of a function's derivative; anything where x has no finite range of it, or none is known."""
    if iv.infinite(x):
        return None
    if name in ("sin", "cos"):
        return over("cos", x) if name == "sin" else iv.neg(over("sin", x))
    row = MONOTONE.get(name)
    if row is None or row.slope is None:
        return None
    found = iv.enclosed(row.slope(x[0].union(x[1])))
    return None if found is None or iv.infinite(found) else found
