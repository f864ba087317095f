"""Formulas of arithmetic: correctly rounded operations, quotients, remainders, integral values, extrema, ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from interval_ops.formats.model import Format
from render.exact import intervals as iv
from render.exact.formats import FP32, nearest, rounded
from render.exact.intervals import Maybe
from render.exact.points import ONE, ZERO, ceil, floor, integer, least, most, power, rint, times_up, truncated, up
from render.witness import errors
from render.witness.document import Operation
from render.witness.rule import Rule, Value, fmt_of

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator


def rounding(formula: Callable[..., Maybe]) -> Rule:
    """A correctly rounded operation."""
    return lambda e, op, k: rounded(formula(*e.args(op, k)), fmt_of(op))


def difference(e: Evaluator, op: Operation, k: int) -> Maybe:
    """0 where both are one literal beyond any data (`-1e30`): its ends, which nothing else has, say so."""
    x, y = e.args(op, k)
    if x is not None and x == y and any(x == iv.interval(*ends) for ends in e.sentinels):
        return (ZERO, ZERO)
    return rounded(_cancelled(e, op, k, iv.sub(x, y)), fmt_of(op))


def addition(e: Evaluator, op: Operation, k: int) -> Maybe:
    return rounded(_cancelled(e, op, k, iv.add(*e.args(op, k))), fmt_of(op))


_SIGN = {"fadd": 1, "fsub": -1}
DEPTH = 4
"""Sums whose terms are looked at: the corrections of compensated sums need three."""


def _cancelled(e: Evaluator, op: Operation, k: int, plain: Maybe) -> Maybe:
    """A sum written out in the terms of its terms, the latest first: where some cancel, their bounds do not count.

    Each sum that is written out is 2^(1-p) (|sum| + |terms|) off at most: its rounding, and products among the terms
    that a compiler contracts into one sum and not into another.
    """
    terms = {int(op.operands[0][k]): 1}
    second = int(op.operands[1][k])
    terms[second] = terms.get(second, 0) + _SIGN[op.op]
    radius, found = ZERO, plain
    for _ in range(DEPTH):
        number = max((n for n, times in terms.items() if times), default=-1)
        if number < 0 or (made := e.ops[e.owner[number]]).op not in _SIGN or made.attrs["fmt"] != op.attrs["fmt"]:
            break
        times, at = terms.pop(number), number - made.start
        parts = [(int(made.operands[0][at]), times), (int(made.operands[1][at]), times * _SIGN[made.op])]
        sizes = [e.values[n] for n in (number, *(n for n, _ in parts))]
        if any(size is None or iv.infinite(size) for size in sizes):
            break
        unit = power(1 - fmt_of(op).p)
        for size in sizes:
            radius = up(radius, times_up(iv.magnitude(size), unit) * abs(times))
        fewer = False
        for n, count in parts:
            terms[n] = terms.get(n, 0) + count
            fewer |= terms[n] == 0
        if fewer:
            found = _both(found, _written_out(e, terms, radius))
    return found


def _written_out(e: Evaluator, terms: dict[int, int], radius: Any) -> Maybe:
    total: Maybe = (ZERO, ZERO)
    for number, times in terms.items():
        for _ in range(abs(times)):
            value = e.values[number]
            total = iv.add(total, value) if times > 0 else iv.sub(total, value)
    return iv.spread(total, radius)


def _both(x: Maybe, y: Maybe) -> Maybe:
    if x is None or y is None:
        return x if y is None else y
    return most((x[0], y[0])), least((x[1], y[1]))


def product(e: Evaluator, op: Operation, k: int) -> Maybe:
    first, second = (int(operand[k]) for operand in op.operands)
    x, y = e.args(op, k)
    return rounded(iv.square(x) if first == second else iv.mul(x, y), fmt_of(op))


def fma(e: Evaluator, op: Operation, k: int) -> Maybe:
    x, y, z = e.args(op, k)
    return fused(x, y, z, fmt_of(op))


def fused(x: Maybe, y: Maybe, z: Maybe, fmt: Format) -> Maybe:
    """x y + z with one rounding; formats of few bits have no fused instruction everywhere, so two as well."""
    once = rounded(iv.add(iv.mul(x, y), z), fmt)
    if fmt.p >= 11:
        return once
    return iv.hull(once, rounded(iv.add(rounded(iv.mul(x, y), fmt), z), fmt))


def quotient(key: str) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        x, y = e.args(op, k)
        fmt = fmt_of(op)
        wide = fmt if fmt.bits == 64 else FP32
        out = errors.within(iv.div(x, y), e.error(key, fmt), wide, False)
        return out if out is None or fmt.bits >= 32 else iv.hull(out, tuple(nearest(end, fmt) for end in out))  # type: ignore[arg-type]

    return rule


def remainder(e: Evaluator, op: Operation, k: int) -> Maybe:
    x, y = e.args(op, k)
    return fmod(x, y, fmt_of(op))


def fmod(x: Maybe, y: Maybe, fmt: Format) -> Maybe:
    """x - n y with one rounding, n = trunc(x / y) of a quotient that may be off by u."""
    ratio = iv.div(x, y)
    if ratio is None or iv.infinite(ratio):
        return None
    u = power(-23 if fmt.bits < 64 else -50)
    about = iv.spread(ratio, times_up(iv.magnitude(ratio), u))
    assert about is not None and x is not None and y is not None
    first, last = (truncated(end) for end in about)
    if first == last:
        return rounded(iv.sub(x, iv.mul((first, first), y)), fmt)
    small = times_up(iv.magnitude(x), u)
    reach = up(iv.magnitude(y), small)
    low = -(reach if x[0] < ZERO else small)
    return rounded((low, reach if x[1] > ZERO else small), fmt)


def half_away(x: Any) -> Any:
    """Nearest integer, halves away from zero."""
    whole = floor(abs(x) + 0.5)
    return -whole if x < 0 else whole


def integral_ends(way: Callable[..., Any], x: Maybe) -> Maybe:
    """A monotone integral function at both ends; infinities stay."""
    return None if x is None else tuple(end if iv.infinite((end, end)) else way(end) for end in x)  # type: ignore[return-value]


WAYS: dict[str, Callable[[Any], Any]] = {
    "floor": floor,
    "ceil": ceil,
    "trunc": truncated,
    "nearest": rint,
    "half away": half_away,
}
"""Integral functions by name."""


def integral(way: str) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        (x,) = e.args(op, k)
        return integral_ends(WAYS[way], errors.with_zero(x, FP32) if fmt_of(op).bits == 32 else x)

    return rule


def absolute(e: Evaluator, op: Operation, k: int) -> Maybe:
    (x,) = e.args(op, k)
    return None if x is None else iv.magnitudes(x)


def extremum(pick: Any) -> Rule:
    return lambda e, op, k: extreme(pick, e.args(op, k))


def extreme(pick: Any, xs: list[Maybe]) -> Maybe:
    known = [x for x in xs if x is not None]
    if len(known) < len(xs):
        return None
    return pick(x[0] for x in known), pick(x[1] for x in known)


def ranked(e: Evaluator, op: Operation, k: int) -> Value:
    """The term of a rank (operand 0) among those of operand 1 in ascending order.

    A rank is nondecreasing in every term, so the sorted lower and upper ends decide.
    """
    (rank,) = (e.values[op.operands[0][k]],)
    terms = e.terms(op, k, 1)
    known = [x for x in terms if x is not None]
    if len(known) < len(terms):
        return None
    at = integer(rank[0])
    return tuple(sorted(x[end] for x in known)[at] for end in (0, 1))


def clamped(x: Maybe) -> Maybe:
    """Into [0, 1]; NaN gives 0 (CUDA: __saturatef)."""
    if x is None:
        return ZERO, ONE
    low, high = (most((ZERO, least((ONE, end)))) for end in x)
    return low, high
