r"""Values that are made of each other: quotients by their own sum, norms by their own squares, errors of a sum.

Interval rules take operands for independent. Where a handle knows what it was made of, some results are known better:

*Own totals.* t = sum_j |x_j|^p along axes (p = 1, or 2 through x * x), phi a chain of positive scalings, additions of
c >= 0, roots, reciprocals, and y = x phi(t). With R the sum of the others, y_i = x_i phi(|x_i|^p + R) grows with x_i,
for it is odd, if |t phi' / phi| <= 1/p: d ln y / d ln x = 1 - p |t phi' / phi| |x|^p / (|x|^p + R) >= 0. Scalings and
additions keep or lower that elasticity, a root halves it, a reciprocal keeps it. So the ends are taken at those of x_i,
with the R that goes the same way, and every rounding on the way counts relatively: rounding is monotone, but two of
one chain need not fall alike, so all of them are charged at either end.

*Own extremes.* x less the largest of its row is not positive, less the smallest not negative, but for a contraction.

*Errors of sums.* s = a + b is within u |s| of a + b, so s - a is within that of b, and b - (s - a) within that of 0:
TwoSum, Kahan's and Neumaier's corrections. A compiler may contract an operand that is a product, which moves it by
u |operand| in one place and not in another: charged at every operand.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 2.2, 4.2, 4.3. References to operands are
weak: what nobody holds any more cannot be asked for again. Every rule only narrows what the plain one gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from weakref import ref

import numpy as np

from interval_ops import threads
from interval_ops.bounds import Pair, each
from interval_ops.formats.model import Format
from interval_ops.functions.tables import FUNCTIONS
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.kernels import growth
from interval_ops.reduction.rule import rounding_unit, sum_cause
from render.interpreter.handle import Handle
from render.ops.rule import NON_NEGATIVE, Rule, Shape
from render.ops.table import RULES

WIDE = 2.0**-8
"""Relative width from which an operand counts as wide: what is narrower gains nothing worth its time."""
FLOAT64 = 2.0**-50
Array = np.ndarray


class Ref:
    """A value by its arrays, not held. A value that was broadcast has the same arrays, and another shape."""

    __slots__ = ("_hi", "_lo", "_v", "shape")

    def __init__(self, h: Handle) -> None:
        lo, hi = h.pair
        self._v, self._lo, self._hi = ref(h.computed), ref(lo), ref(hi)
        self.shape = h.shape

    def is_(self, h: Handle) -> bool:
        return h.pend is None and self._v() is h.computed and self._lo() is h.pair[0]

    @property
    def ends(self) -> Pair | None:
        lo, hi = self._lo(), self._hi()
        return None if lo is None or hi is None else (lo, hi)


class Unmoved:
    """What is known of a value where it is, and not behind a movement."""

    def moved(self, move: Callable[[Array], Array]) -> None:
        return None


@dataclass(frozen=True)
class Addend:
    """x as the addends of a sum know it: each is |x|^power, or x itself, and they lie along these axes of x."""

    of: Ref
    axes: tuple[int, ...]
    power: int = 1
    signed: bool = True


@dataclass(frozen=True)
class Powers(Unmoved):
    """|x| or x^2, lane by lane."""

    of: Ref
    power: int

    def exact(self) -> Powers | None:
        return self if self.power == 1 else None

    def along(self, axes: tuple[int, ...]) -> Addend:
        return Addend(self.of, axes, self.power, signed=False)


@dataclass(frozen=True)
class Flat(Unmoved):
    """All lanes of a block in one row."""

    addends: tuple[Addend, ...]

    def exact(self) -> Flat:
        return Flat(tuple(a for a in self.addends if a.power == 1))


@dataclass(frozen=True)
class OwnExtreme:
    """The largest (sign 1) or smallest (-1) of x along axes; `rows` as those of a `Total`."""

    of: tuple[Addend, ...]
    sign: int
    rows: Array

    def moved(self, move: Callable[[Array], Array]) -> OwnExtreme:
        return replace(self, rows=move(self.rows))


class Terms(Unmoved):
    """a + sign b, rounded once with unit `u`."""

    __slots__ = ("a", "b", "sign", "u")

    def __init__(self, a: Ref, b: Ref, sign: int, u: float) -> None:
        self.a, self.b, self.sign, self.u = a, b, sign, u


@dataclass(frozen=True)
class Near(Unmoved):
    """sign times the value `of`, give or take `radius`."""

    of: Ref
    sign: int
    radius: Array


@dataclass(frozen=True)
class Total:
    """phi of a sum: its addends, `steps` of phi, relative error of all roundings so far, phi's elasticity.

    `rows` numbers the sums: after movements it tells which one stands where. `falls`: phi decreases.
    """

    of: tuple[Addend, ...]
    rows: Array
    error: float
    subnormal: float
    steps: tuple[tuple[str, float, float], ...] = ()
    elasticity: float = 1.0
    falls: bool = False

    def moved(self, move: Callable[[Array], Array]) -> Total:
        return replace(self, rows=move(self.rows))

    def then(self, kind: str, ends: tuple[float, float], error: float) -> Total:
        """One more step: "scale", "shift" (by a number between these ends), "power" (with this exponent, twice)."""
        found = replace(self, steps=(*self.steps, (kind, *ends)), error=compounded(self.error, error))
        if kind != "power":
            return found
        return replace(found, elasticity=self.elasticity * abs(ends[0]), falls=self.falls != (ends[0] < 0))


def compounded(*errors: float) -> float:
    """Relative errors r_k one after the other, above or below: at most prod 1 / (1 - r_k) - 1; inf where it is none."""
    if not all(r < 0.5 for r in errors):
        return math.inf
    return math.expm1(-sum(math.log1p(-r) for r in errors)) * (1 + FLOAT64)


# what is remembered


def summed(x: Handle, out: Handle, axis: int, fmt: Format, profile: Profile) -> None:
    """`out` is the sum of x along this axis."""
    if x.is_point or out.is_point:
        return
    n, u = x.shape[axis], 0.0 if profile.muted(sum_cause(fmt)) else rounding_unit(fmt)
    levels = (n - 1).bit_length() if profile.trees else n - 1
    plain = rounding_unit(fmt)  # an addend that is a product may be contracted, a square is rounded
    error = compounded(growth(float(levels), u), *(() if profile.muted("arith") else (plain, plain)), FLOAT64)
    tiny = n * (fmt.half_subnormal + 2.0**-1074)
    out.kin = Total(_addends(x, (axis,)), _rows(out), error, tiny)


def chosen(x: Handle, out: Handle, axis: int, sign: int) -> None:
    """`out` is the largest or smallest of x along this axis."""
    if not x.is_point:
        out.kin = OwnExtreme(_addends(x, (axis,)), sign, _rows(out))


def flattened(x: Handle, out: Handle) -> None:
    """`out` has the lanes of x in one row."""
    if not x.is_point and out.kin is None:
        out.kin = Flat(_addends(x, tuple(range(len(x.shape)))))


def raised(x: Handle, out: Handle, power: int) -> None:
    if not x.is_point and not out.is_point:
        out.kin = Powers(Ref(x), power)


def widened(x: Handle, out: Handle) -> None:
    """`out` is x in a wider format. What was rounded in the narrower one has errors and a range that are not known."""
    kin = x.kin.exact() if isinstance(x.kin, (Powers, Flat)) else x.kin
    out.kin = None if isinstance(kin, Total) else kin


def _addends(x: Handle, axes: tuple[int, ...]) -> tuple[Addend, ...]:
    own = Addend(Ref(x), axes)
    if isinstance(x.kin, Powers):
        return own, x.kin.along(axes)
    return (own, *x.kin.addends) if isinstance(x.kin, Flat) else (own,)


def _rows(out: Handle) -> Array:
    return np.arange(prod(out.shape), dtype=np.int32).reshape(1, *out.shape)


def made(
    out: Handle, operands: tuple[Handle, ...], near: Near | None, fmt: Format, profile: Profile, rule: Rule
) -> None:
    """Remembers what `out` is made of, where a later operation may ask."""
    out.kin = near
    if out.is_point or near is not None:
        return
    if rule.op == "fabs":
        raised(operands[0], out, 1)
        return
    for h in operands:
        if isinstance(h.kin, Total):
            out.kin = _step(rule, operands, _error(rule, fmt, profile))
            break
    if out.kin is None and rule.shape is Shape.LINEAR:
        u = 0.0 if profile.muted("arith") else rounding_unit(fmt)
        out.kin = Terms(Ref(operands[0]), Ref(operands[1]), 1 if rule.op == "fadd" else -1, u)


def _error(rule: Rule, fmt: Format, profile: Profile) -> float:
    """Relative error of one operation in the normal range."""
    if rule.cause is not None and profile.muted(rule.cause):
        return FLOAT64
    r = rounding_unit(fmt)
    if rule.entry:
        entry = profile.fn(rule.entry, fmt.name)
        r = math.inf if entry.until != math.inf else max(r, entry.r + rounding_unit(fmt))
    return r + FLOAT64


def _scalar(h: Handle) -> tuple[float, float] | None:
    """The ends of a positive number that all lanes share."""
    if h.pend is not None or h.taint or isinstance(h.kin, Total):
        return None
    lo, hi = h.pair
    ends = float(lo.min()), float(hi.max())
    same = bool((lo == ends[0]).all() and (hi == ends[1]).all())
    return ends if same and ends[0] > 0 and ends[1] < math.inf else None


def _scalar_beside(operands: tuple[Handle, ...]) -> Iterator[tuple[Total, tuple[float, float], bool]]:
    """(total, ends of the number that it meets, whether the total comes first)."""
    for k, (t, c) in enumerate((operands, operands[::-1])):
        if isinstance(t.kin, Total) and (ends := _scalar(c)) is not None:
            yield t.kin, ends, k == 0


def _step(rule: Rule, operands: tuple[Handle, ...], error: float) -> Total | None:
    """The total behind one more operation, if it is one that phi may have."""
    if degree(rule):
        kin = operands[0].kin
        return kin.then("power", (degree(rule),) * 2, error) if isinstance(kin, Total) else None
    for kin, ends, first in _scalar_beside(operands):
        if rule.shape is Shape.LINEAR:
            return kin.then("shift", ends, error) if rule.op == "fadd" else None
        if rule.shape is Shape.BILINEAR:
            return kin.then("scale", ends, error)
        if divides(rule):
            turned = kin if first else kin.then("power", (-1.0, -1.0), 0.0)
            return turned.then("scale", (1 / ends[1], 1 / ends[0]) if first else ends, error)
    return None


def divides(rule: Rule) -> bool:
    return rule.entry.startswith("div") and rule.arity == 2


@cache
def degree(rule: Rule) -> float:
    """d for a function x^d of positive numbers, a root or its reciprocal; 0 for any other."""
    if not rule.function or rule.domain != NON_NEGATIVE:
        return 0.0
    found = np.empty(3)
    FUNCTIONS[rule.function].evaluate(np.array([1.0, 4.0, 256.0]), found)
    one, four, many = found.tolist()
    d = math.log(four, 4) if one == 1.0 and four > 0 else 0.0
    return d if abs(d) == 0.5 and many == 256.0**d else 0.0


KNOWN = frozenset(
    op for op, rule in RULES.items()
    if rule.shape is Shape.LINEAR or (rule.shape is Shape.BILINEAR and rule.arity == 2) or divides(rule) or degree(rule)
    or op == "fabs"
)  # fmt: skip
"""Operations that make or ask for such values."""


# what is known better


def narrowed(
    operands: tuple[Handle, ...], ends: Pair, fmt: Format, profile: Profile, rule: Rule
) -> tuple[Pair, Near | None]:
    """The plain rule's ends, or narrower ones; and what the result lies near to."""
    for h in operands:
        if h.kin is not None:
            break
    else:
        return ends, None
    if rule.shape is Shape.LINEAR:
        u = 0.0 if profile.muted("arith") else rounding_unit(fmt)
        return _of_sum(rule.op, operands, _by_extreme(rule.op, operands, ends, u, fmt), u, fmt)
    if len(operands) == 2 and any(isinstance(h.kin, Total) for h in operands):
        return _by_total(divides(rule), operands, ends, fmt, _error(rule, fmt, profile)), None
    return ends, None


def _by_extreme(op: str, operands: tuple[Handle, ...], ends: Pair, u: float, fmt: Format) -> Pair:
    """x - max(x) and max(x) - x: rounding keeps the sign, and an x that is a product may be contracted in one place."""
    for (x, t), turn in ((operands, 1), (operands[::-1], -1)) if op == "fsub" else ():
        kin = t.kin
        if isinstance(kin, OwnExtreme) and (of := _own(x, kin)) is not None and of.signed:
            room = (2 * u + FLOAT64) * _size(x.pair) + fmt.half_subnormal
            low, high = (ends[0], room) if turn * kin.sign > 0 else (-room, ends[1])
            return _within(ends, (low, high), fmt)
    return ends


def _own(x: Handle, kin: Total | OwnExtreme) -> Addend | None:
    """How each element of x is an addend of the sum that it meets: once, so that lanes that repeat it are others."""
    found = next((a for a in kin.of if a.of.is_(x) and a.of.shape == x.shape), None)
    return found if found is not None and _in_place(x, found.axes, kin.rows) else None


def _by_total(quotient: bool, operands: tuple[Handle, ...], ends: Pair, fmt: Format, error: float) -> Pair:
    for x, t in (operands,) if quotient else (operands, operands[::-1]):
        kin = t.kin
        if not isinstance(kin, Total) or (of := _own(x, kin)) is None:
            continue
        if quotient:
            kin = kin.then("power", (-1.0, -1.0), 0.0)
        if not kin.falls or kin.elasticity * of.power > 1:
            continue
        lo, hi = x.pair
        if not ((hi - lo) > WIDE * np.maximum(np.abs(lo), np.abs(hi))).any():
            continue
        return _shared(x, of, kin, ends, fmt, error)
    return ends


def _shared(x: Handle, of: Addend, kin: Total, ends: Pair, fmt: Format, error: float) -> Pair:
    """The part of the ends that is in `_share`, program by program."""
    programs = max(len(end) for end in (*ends, *x.pair))

    def run(start: int, stop: int) -> Pair:
        own, plain = (each(p, lambda end: end[start:stop] if len(end) > 1 else end) for p in (x.pair, ends))
        return _within(plain, _share(own, x.shape, of, kin, fmt, error), fmt)

    found = threads.spread(run, programs, prod(x.shape))
    lo, hi = (f[0] if len(f) == 1 else np.concatenate(f) for f in zip(*found, strict=True))
    return lo, hi


def _in_place(x: Handle, axes: tuple[int, ...], rows: Array) -> bool:
    """Whether each element of x meets the sum that it is a term of."""
    kept = [n for k, n in enumerate(x.shape) if k not in axes]
    own = np.arange(prod(kept), dtype=np.int32).reshape(1, *kept)
    own = np.expand_dims(own, tuple(a + 1 for a in axes))
    if rows.ndim != own.ndim:
        return False
    try:
        return bool((np.broadcast_to(rows, (rows.shape[0], *own.shape[1:])) == own).all())
    except ValueError:
        return bool((rows == own).all()) if rows.shape[1:] == tuple(x.shape) else False


def _share(pair: Pair, shape: tuple[int, ...], of: Addend, kin: Total, fmt: Format, error: float) -> Pair:
    """Ends of x phi(|x|^p + R); NaN where the rule does not hold."""
    lo, hi = (np.broadcast_to(np.asarray(e, np.float64), (e.shape[0], *shape)) for e in pair)
    axes, n, p = tuple(a + 1 for a in of.axes), prod(shape[a] for a in of.axes), of.power
    rho = compounded(kin.error, error, 4 * len(kin.steps) * FLOAT64 + 4 * FLOAT64)
    with np.errstate(all="ignore"):
        below_zero, above_zero = np.abs(lo) ** p, np.abs(hi) ** p
        least = np.where((lo <= 0) & (hi >= 0), 0.0, np.minimum(below_zero, above_zero))
        most = np.maximum(below_zero, above_zero)
        low, high = least.sum(axes, keepdims=True), most.sum(axes, keepdims=True)
        slack = (n + 8) * 2.0**-52
        below = np.maximum(low - least - slack * low - kin.subnormal, 0.0)
        above = (high - most) + slack * high + kin.subnormal
        up, up_fits = _phi(above_zero, np.where(hi > 0, below, above), kin, fmt)
        down, down_fits = _phi(below_zero, np.where(lo >= 0, above, below), kin, fmt)
        upper = hi * np.where(hi > 0, up[1] * (1 + rho), up[0] * (1 - rho)) + fmt.min_normal
        lower = lo * np.where(lo >= 0, down[0] * (1 - rho), down[1] * (1 + rho)) - fmt.min_normal
        row = np.isfinite(high) if not of.signed else np.isfinite(high) & (lo >= 0).all(axes, keepdims=True)
        valid = row & up_fits & down_fits & (rho < 0.5)
    return np.where(valid, lower, np.nan), np.where(valid, upper, np.nan)


def _phi(own: Array, rest: Array, kin: Total, fmt: Format) -> tuple[Pair, Array]:
    """(phi at own + rest with the constants' ends, where all of its values are far from under- and overflow)."""
    t = own + rest
    lo = hi = t
    fits = np.ones(t.shape, bool)
    small, large = 2.0**20 * fmt.min_normal, 2.0**-4 * fmt.max
    fits &= hi < large
    for kind, less, more in kin.steps:
        if kind == "power":  # what it is of is no subnormal number
            fits &= lo > small
            lo, hi = (lo**less, hi**less) if less > 0 else (hi**less, lo**less)
        else:
            lo, hi = (lo * less, hi * more) if kind == "scale" else (lo + less, hi + more)
        fits &= (lo > small) & (hi < large)
    return (lo, hi), fits


def _of_sum(op: str, operands: tuple[Handle, ...], ends: Pair, u: float, fmt: Format) -> tuple[Pair, Near | None]:
    x, y = operands
    sign = 1 if op == "fadd" else -1
    for one, other in ((x, y), (y, x)):
        near = one.kin
        if isinstance(near, Near) and near.sign == -sign and near.of.is_(other):  # they cancel
            radius = near.radius * (1 + 2 * u + FLOAT64) + (2 * u + FLOAT64) * _size(other.pair) + fmt.half_subnormal
            return _within(ends, (-radius, radius), fmt), None
    if op == "fadd":
        return ends, None
    found = _remainder(x, y, 1) or _remainder(y, x, -1)
    if found is None:
        return ends, None
    of, sign, off = found
    between = of.ends
    if between is None:
        return ends, None
    radius = off * (1 + u + FLOAT64) + (2 * u + FLOAT64) * _size(between) + fmt.half_subnormal
    low, high = (between[0], between[1]) if sign > 0 else (-between[1], -between[0])
    return _within(ends, (low - radius, high + radius), fmt), Near(of, sign, radius)


def _remainder(s: Handle, a: Handle, turn: int) -> tuple[Ref, int, Array] | None:
    """turn (s - a) for s = a + b: (b, its sign, how far from it); for an `a` that is only near to the term, too."""
    kin = s.kin
    if not isinstance(kin, Terms) or s.pend is not None:
        return None
    first, second = kin.a.ends, kin.b.ends
    if first is None or second is None:
        return None
    with np.errstate(all="ignore"):
        off = kin.u * _size(s.pair) + (2 * kin.u + FLOAT64) * (_size(first) + _size(second) + _size(s.pair))
    if kin.a.is_(a):
        return kin.b, turn * kin.sign, off
    if kin.sign > 0 and kin.b.is_(a):
        return kin.a, turn, off
    near = a.kin
    if not isinstance(near, Near) or near.sign < 0:
        return None
    if _same(near.of, kin.a):
        return kin.b, turn * kin.sign, off + near.radius
    if kin.sign > 0 and _same(near.of, kin.b):
        return kin.a, turn, off + near.radius
    return None


def _same(x: Ref, y: Ref) -> bool:
    return x._v() is not None and x._v() is y._v() and x._lo() is y._lo()


def _size(ends: Pair) -> Array:
    found: Array = np.maximum(np.abs(np.asarray(ends[0], np.float64)), np.abs(np.asarray(ends[1], np.float64)))
    return found


def _within(ends: Pair, known: Pair, fmt: Format) -> Pair:
    """The part of a bound that is in another one, where both are known and the other one's numbers do not overflow; a
    bound that is anything stays so."""
    lo, hi = ends
    inside = (known[0] >= -fmt.max) & (known[1] <= fmt.max) & ~np.isnan(lo) & ~np.isnan(hi)
    low, high = np.where(inside, np.maximum(lo, known[0]), lo), np.where(inside, np.minimum(hi, known[1]), hi)
    return low, high
