"""What the mean value form (`meanvalue`) needs of one operation: slopes, a value close by, and how far executions are.

`away` bounds |d - r| there: the rounding or documented error of the target's operation, as the plain formulas have it
(`arithmetic`, `errors`, `casts`, `sums`, `chains`), and float64's own error in the value close by. A value whose
operation has no formula here, or whose formula cannot be had (an open selection, an overflow), is one of its own: its
middle, its half width, and no slopes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.formats.model import FORMATS, Format
from render.exact import functions
from render.exact import intervals as iv
from render.exact.intervals import Interval, Maybe
from render.exact.points import above, below, up
from render.witness import chains, products
from render.witness import floats as f
from render.witness.sums import plain_sum
from render.witness.tally import Tally
from render.witness.values import Ends

if TYPE_CHECKING:
    from render.witness.document import Operation
    from render.witness.evaluate import Evaluator

Array = np.ndarray
Slope = tuple[Array, Array, Array]
"""Numbers of an operand (-1: none) and the ends of the slope in it."""
_U, _TINY = 2.0**-52, 2.0**-1070
_FP32 = FORMATS["fp32"]
_ONE = (np.ones(1), np.ones(1))


@dataclass(frozen=True)
class Link:
    """Of some values of one operation."""

    centre: Array
    away: Array
    slopes: Sequence[Slope] = field(default=())


@dataclass(frozen=True)
class Wanted:
    """Some values of an operation: `rows` in it, what the plain evaluation allows for them, values close by of all."""

    e: Evaluator
    op: Operation
    rows: Array
    ends: Ends
    centre: Array

    @property
    def fmt(self) -> Format:
        return FORMATS[self.op.attrs["fmt"]]

    def numbers(self, place: int) -> Array:
        found: Array = self.op.operands[place][self.rows]
        return found

    def of(self, numbers: Array) -> tuple[Ends, Array]:
        """What some values may be, and what is close by."""
        return self.e.values.ends(np.maximum(numbers, 0)), self.centre[np.maximum(numbers, 0)]


def linked(e: Evaluator, op: Operation, rows: Array, centre: Array) -> Link:
    numbers = op.start + rows
    if e.values.truth[numbers].any():
        return Link(np.full(rows.size, np.nan), np.full(rows.size, np.inf))
    low, high = e.values.ends(numbers)
    one = op.attrs.get("function", op.op.removeprefix("precise_"))
    rule = _RULES.get(op.op) or (_function if one in functions.KNOWN else None)
    made = None if rule is None else rule(Wanted(e, op, rows, (low, high), centre))
    alone = np.where(low == high, low, low / 2 + high / 2)
    half = np.where(low == high, 0.0, f.up(np.maximum(high - alone, alone - low)))
    half = np.where(np.isfinite(half), half, np.inf)
    if made is None:
        return Link(alone, half)
    inside = np.clip(made.centre, low, high)
    away = f.up(f.up(made.away + np.abs(made.centre - inside)) * (1 + 2**-40))
    known = np.isfinite(away) & np.isfinite(inside) & np.isfinite(low) & np.isfinite(high)
    for operand, least, most in made.slopes:
        fine = (np.isfinite(least) & np.isfinite(most)) | (operand < 0)
        known &= fine if fine.ndim == 1 else fine.all(axis=1)
    known &= ~(half <= away)  # no slope is needed for what is as close as that
    slopes = [(np.where(known if o.ndim == 1 else known[:, None], o, -1), *ends) for o, *ends in made.slopes]
    return Link(np.where(known, inside, alone), np.where(known, away, half), slopes)  # type: ignore[arg-type]


# roundings


def _rounding(ends: Ends, fmt: Format) -> Array:
    """Of a correctly rounded operation whose result is in `ends`; below fp32 it may go through fp32."""
    size, through = f.magnitudes(ends)[1], fmt.p < _FP32.p
    unit = fmt.u * (1 + _FP32.u) + _FP32.u if through else fmt.u
    small = fmt.half_subnormal + (_FP32.half_subnormal if through else 0.0)
    return np.where(size > fmt.max, np.inf, size * unit * (1 + 2 * fmt.u) + small)


def _close(*parts: Array) -> Array:
    """float64's own error where such numbers are added or multiplied once or twice."""
    total: Array = np.sum(np.abs(np.broadcast_arrays(*parts)), axis=0)
    return 8 * _U * total + _TINY


def _unit(way: float, n: int) -> Ends:
    return np.full(n, way), np.full(n, way)


def _sum_of_two(sign: float) -> Callable[[Wanted], Link]:
    def rule(g: Wanted) -> Link:
        (_, x), (_, y) = (g.of(g.numbers(i)) for i in (0, 1))
        n = g.rows.size
        slopes = [(g.numbers(0), *_unit(1.0, n)), (g.numbers(1), *_unit(sign, n))]
        return Link(x + sign * y, _rounding(g.ends, g.fmt) + _close(x, y), slopes)

    return rule


def _product(g: Wanted) -> Link:
    (xs, x), (ys, y) = (g.of(g.numbers(i)) for i in (0, 1))
    away = _rounding(g.ends, g.fmt) + _close(x * y)
    return Link(x * y, away, [(g.numbers(0), *ys), (g.numbers(1), *xs)])


def _fma(g: Wanted) -> Link:
    (xs, x), (ys, y), (_, z) = (g.of(g.numbers(i)) for i in (0, 1, 2))
    away = _rounding(g.ends, g.fmt) + _close(x * y, z)
    if g.fmt.p < 11:
        away = away + _rounding(f.mul(xs, ys), g.fmt)
    slopes = [(g.numbers(0), *ys), (g.numbers(1), *xs), (g.numbers(2), *_unit(1.0, g.rows.size))]
    return Link(x * y + z, away, slopes)


def _documented(g: Wanted, error: dict[str, Any]) -> Array:
    """Of an operation within an error of the target: of the result, and its rounding to fewer bits."""
    wide = g.fmt if g.fmt.bits == 64 else _FP32
    r, a = max(float(error["r"]), wide.u), max(float(error["a"]), wide.half_subnormal)
    size = f.magnitudes(g.ends)[1]
    away = (size * r + a) * (1 + 2 * r) + (wide.min_normal if error["ftz"] else 0.0)
    return away if g.fmt.bits >= 32 else away + _rounding(g.ends, g.fmt)


def _quotient(key: str) -> Callable[[Wanted], Link]:
    def rule(g: Wanted) -> Link:
        (xs, x), (ys, y) = (g.of(g.numbers(i)) for i in (0, 1))
        one = f.div(_ONE, ys)
        slopes = [(g.numbers(0), *one), (g.numbers(1), *f.neg(f.div(xs, f.square(ys))))]
        return Link(x / y, _documented(g, g.e.error(key, g.fmt)) + _close(x / y), slopes)

    return rule


def _cast(g: Wanted) -> Link | None:
    """A rounding to nearest or towards zero, in one step or through a format between."""
    src, dst, mode = g.op.attrs["src"], FORMATS[g.op.attrs["dst"]], g.op.attrs["mode"]
    key, host = f"{src}->{dst.name}", "overflow" in g.op.attrs
    special = dst.name in ("e8m0", "e2m1", "fp8e4b15") or mode not in ("rtne", "rtz")
    if special or (not host and key in g.e.rules.get("older", {})):
        return None
    _, x = g.of(g.numbers(0))
    away, steps = np.zeros(g.rows.size), [dst]
    via = "" if host else g.e.rules["double_rounding"].get(key)
    if via:
        steps.append(FORMATS[str(via).removesuffix("rz")])
    elif FORMATS[src].bits == 64:
        steps.append(_FP32)
    size = f.magnitudes(g.ends)[1]
    for fmt in steps:  # towards zero a rounding is twice as large
        away = away + 2 * fmt.half_subnormal + (2 if mode == "rtz" or via else 1) * fmt.u * size * (1 + 4 * fmt.u)
    largest = min(fmt.max for fmt in steps)
    away = np.where(size >= largest, np.inf, away)  # past it a conversion does what it likes
    return Link(x, away + _close(x), [(g.numbers(0), *_unit(1.0, g.rows.size))])


def _from_first(way: float) -> Callable[[Wanted], Link]:
    def rule(g: Wanted) -> Link:
        _, x = g.of(g.numbers(0))
        return Link(way * x, np.zeros(g.rows.size), [(g.numbers(0), *_unit(way, g.rows.size))])

    return rule


def _magnitude(g: Wanted) -> Link:
    (lo, hi), x = g.of(g.numbers(0))
    return Link(
        np.abs(x), np.zeros(g.rows.size), [(g.numbers(0), np.where(lo < 0, -1.0, 1.0), np.where(hi > 0, 1.0, -1.0))]
    )


# selections and extrema


def _select(g: Wanted) -> Link | None:
    truths = [g.e.values[int(n)] for n in g.numbers(0)]
    open_ = np.array([surely != possibly for surely, possibly in truths])
    chosen = np.where([surely for surely, _ in truths], g.numbers(1), g.numbers(2))
    _, x = g.of(chosen)
    return Link(x, np.where(open_, np.inf, 0.0), [(chosen, *_unit(1.0, g.rows.size))])


def _extremum(way: int, terms: bool) -> Callable[[Wanted], Link]:
    """Slopes are those of the terms that may be it: 1 of the only one, else anything from 0 to 1 (of a maximum of
    several the generalised gradient is their convex hull: Clarke, Optimization and Nonsmooth Analysis, 1983, 2.3)."""

    def rule(g: Wanted) -> Link:
        numbers = g.numbers(0) if terms else np.stack([g.numbers(i) for i in range(len(g.op.operands))], 1)
        (lo, hi), x = g.of(numbers)
        there = numbers >= 0
        lo, hi = (lo, hi) if way > 0 else (-hi, -lo)
        lo, hi = np.where(there, lo, -np.inf), np.where(there, hi, -np.inf)
        may = there & ~(hi < lo.max(axis=1, keepdims=True))
        top = np.where(may, way * x, -np.inf).max(axis=1)
        only = may & (may.sum(axis=1, keepdims=True) == 1)
        return Link(way * top, np.zeros(g.rows.size), [(np.where(may, numbers, -1), only * 1.0, may * 1.0)])

    return rule


# functions of one argument


def _each(found: list[Maybe]) -> Ends:
    pairs = [(np.nan, np.nan) if y is None else (below(y[0]), above(y[1])) for y in found]
    return tuple(np.array(pairs).reshape(-1, 2).T)  # type: ignore[return-value]


def _ranges(of: Callable[[str, Interval], Maybe], name: str, x: Ends) -> Ends:
    """One value after the other."""
    given = [iv.interval(float(a), float(b)) for a, b in zip(*x, strict=True)]
    return _each([None if v is None else of(name, v) for v in given])


def _function(g: Wanted) -> Link | None:
    plain = g.op.op.removeprefix("precise_")
    name = g.op.attrs.get("function", plain)
    key = g.op.attrs.get("entry", name if plain == g.op.op else f"{name}_rn")
    error, wide = dict(g.e.error_of(g.op, key)), g.fmt if g.fmt.bits == 64 else _FP32
    xs, x = g.of(g.numbers(0))
    if "until" in error or error.get("breaks"):
        return None
    slope, middle = _ranges(functions.slopes, name, xs), _ranges(functions.over, name, (x, x))
    away = _documented(g, error) + (middle[1] - middle[0]) + _close(middle[0])
    if error["ftz"]:  # a subnormal argument may be read as 0
        away = away + wide.min_normal * f.magnitudes(slope)[1]
    if name == "exp" and g.e.rules["exp_via_exp2"] and wide is _FP32 and "error" not in g.op.attrs:
        turned = 2.1 * _FP32.u * f.magnitudes(xs)[1] + 2.0**-140  # 2^p, p = fl(x fl(log2 e)): two errors of x
        away = away + np.where(turned < 2.0**-7, 1.01 * turned * f.magnitudes(g.ends)[1], np.inf)
    return Link(middle[0] / 2 + middle[1] / 2, away, [(g.numbers(0), *slope)])


# sums


def _sum(g: Wanted) -> Link:
    numbers = g.numbers(0)
    there = numbers >= 0
    x = np.where(there, g.of(numbers)[1], 0.0)
    tree = bool(g.e.rules["trees"]) and "scan" not in g.op.attrs
    away = np.full(g.rows.size, np.inf)
    for i, k in enumerate(g.rows.tolist()):
        exact = Tally(g.e.each(g.op, k))
        found = plain_sum(g.e.each(g.op, k), g.op.terms(0, k).size, g.fmt, tree)
        if found is not None and exact.known:
            total = exact.total
            away[i] = max(above(up(found[1], -total[1])), above(up(total[0], -found[0])))
    own = (there.sum(axis=1) + 4) * _U * np.abs(x).sum(axis=1) + _TINY
    return Link(x.sum(axis=1), away + own, [(numbers, there * 1.0, there * 1.0)])


def _dot(g: Wanted) -> Link | None:
    """A chain of dots: the products and addends of all of it; not of those inside."""
    if (factors := products.factors(g.e, g.op, g.rows)) is not None:  # nothing rounds and nothing is added
        (xs, x), (ys, y) = map(g.of, factors)
        away = (x.shape[1] + 8) * _U * np.abs(x * y).sum(axis=1) + _TINY
        return Link((x * y).sum(axis=1), away, [(factors[0], *ys), (factors[1], *xs)])
    found = [_chain(g, int(k)) for k in g.rows]
    width = max(numbers.size for _, _, numbers, _ in found)
    numbers = np.full((g.rows.size, width), -1)
    low, high = np.zeros((2, g.rows.size, width))
    for i, (_, _, some, ends) in enumerate(found):
        numbers[i, : some.size] = some
        low[i, : some.size], high[i, : some.size] = ends
    return Link(np.array([c for c, *_ in found]), np.array([a for _, a, *_ in found]), [(numbers, low, high)])


def _chain(g: Wanted, k: int) -> tuple[float, float, Array, Ends]:
    """(close by, away, numbers of the factors and addends, slopes in them)."""
    chain, model = chains.Chain(), dict(g.e.rules["dots"][g.op.attrs["kind"]])
    left, right, addends = g.e.collect(g.op, k, chain, model)
    error = chains.deviation(chain, model)
    (xs, x), (ys, y), (_, c) = (g.of(numbers) for numbers in (left, right, addends))
    terms = np.concatenate([x * y, c])
    away = (np.inf if error is None else above(error)) + (terms.size + 8) * _U * float(np.abs(terms).sum()) + _TINY
    ends = [np.concatenate(parts) for parts in zip(ys, xs, _unit(1.0, c.size), strict=True)]
    return float(terms.sum()), away, np.concatenate([left, right, addends]), (ends[0], ends[1])


_RULES: dict[str, Callable[[Wanted], Link | None]] = {
    "fadd": _sum_of_two(1.0),
    "fsub": _sum_of_two(-1.0),
    "fmul": _product,
    "fma": _fma,
    "fdiv": _quotient("div"),
    "precise_divf": _quotient("div_rn"),
    "fneg": _from_first(-1.0),
    "fabs": _magnitude,
    "select": _select,
    **dict.fromkeys(("maxnumf", "maximumf"), _extremum(1, terms=False)),
    **dict.fromkeys(("minnumf", "minimumf"), _extremum(-1, terms=False)),
    "max": _extremum(1, terms=True),
    "min": _extremum(-1, terms=True),
    "cast": _cast,
    "sum": _sum,
    "dot": _dot,
    "fold": _dot,
}
