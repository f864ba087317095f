"""Formulas of arithmetic: correctly rounded operations, quotients, remainders, integral values, extrema, ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mpmath import libmp
from mpmath.libmp import fone, fzero

from interval_ops.formats.model import Format
from render.witness import balls as b
from render.witness import errors
from render.witness.balls import Maybe
from render.witness.document import Operation
from render.witness.rule import Rule, Value, fmt_of

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator


def rounding(formula: Callable[..., Maybe]) -> Rule:
    """A correctly rounded operation."""
    return lambda e, op, k: b.rounded(formula(*e.args(op, k)), fmt_of(op))


def product(e: Evaluator, op: Operation, k: int) -> Maybe:
    first, second = (int(operand[k]) for operand in op.operands)
    x, y = e.args(op, k)
    return b.rounded(b.square(x) if first == second else b.mul(x, y), fmt_of(op))


def fma(e: Evaluator, op: Operation, k: int) -> Maybe:
    x, y, z = e.args(op, k)
    return fused(x, y, z, fmt_of(op))


def fused(x: Maybe, y: Maybe, z: Maybe, fmt: Format) -> Maybe:
    """x y + z with one rounding; formats of few bits have no fused instruction everywhere, so two as well."""
    once = b.rounded(b.add(b.mul(x, y), z), fmt)
    if fmt.p >= 11:
        return once
    return b.hull(once, b.rounded(b.add(b.rounded(b.mul(x, y), fmt), z), fmt))


def quotient(key: str) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        x, y = e.args(op, k)
        fmt = fmt_of(op)
        wide = fmt if fmt.bits == 64 else b.FP32
        out = errors.within(b.div(x, y), e.error(key, fmt), wide, False)
        return out if out is None or fmt.bits >= 32 else b.hull(out, tuple(b.nearest(end, fmt) for end in out))  # type: ignore[arg-type]

    return rule


def remainder(e: Evaluator, op: Operation, k: int) -> Maybe:
    x, y = e.args(op, k)
    return fmod(x, y, fmt_of(op))


def fmod(x: Maybe, y: Maybe, fmt: Format) -> Maybe:
    """x - n y with one rounding, n = trunc(x / y) of a quotient that may be off by u."""
    ratio = b.div(x, y)
    if ratio is None or b.infinite(ratio):
        return None
    u = b.power(-23 if fmt.bits < 64 else -50)
    about = b.spread(ratio, b.times_up(b.magnitude(ratio), u))
    assert about is not None and x is not None and y is not None
    first, last = (truncated(end) for end in about)
    if first == last:
        return b.rounded(b.sub(x, b.mul((first, first), y)), fmt)
    small = b.times_up(b.magnitude(x), u)
    reach = b.up(b.magnitude(y), small)
    low = libmp.mpf_neg(reach if b.less(x[0], fzero) else small)
    return b.rounded((low, reach if b.less(fzero, x[1]) else small), fmt)


def truncated(x: Any) -> Any:
    return libmp.mpf_floor(x, b.PREC) if not b.less(x, fzero) else libmp.mpf_ceil(x, b.PREC)


def half_away(x: Any) -> Any:
    """Nearest integer, halves away from zero."""
    whole = libmp.mpf_floor(libmp.mpf_add(libmp.mpf_abs(x), b.power(-1)), b.PREC)
    return libmp.mpf_neg(whole) if b.less(x, fzero) else whole


def integral_ends(way: Callable[..., Any], x: Maybe) -> Maybe:
    """A monotone integral function at both ends; infinities stay."""
    return None if x is None else tuple(end if b.infinite((end, end)) else way(end) for end in x)  # type: ignore[return-value]


WAYS: dict[str, Callable[[Any], Any]] = {
    "floor": lambda x: libmp.mpf_floor(x, b.PREC),
    "ceil": lambda x: libmp.mpf_ceil(x, b.PREC),
    "trunc": truncated,
    "nearest": lambda x: libmp.mpf_nint(x, b.PREC),
    "half away": half_away,
}
"""Integral functions by name."""


def integral(way: str) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        (x,) = e.args(op, k)
        return integral_ends(WAYS[way], errors.with_zero(x, b.FP32) if fmt_of(op).bits == 32 else x)

    return rule


def absolute(e: Evaluator, op: Operation, k: int) -> Maybe:
    (x,) = e.args(op, k)
    return None if x is None else b.sorted_magnitudes(x)


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
    at = libmp.to_int(rank[0])
    return tuple(_sorted([x[end] for x in known])[at] for end in (0, 1))


def _sorted(xs: list[Any]) -> list[Any]:
    from functools import cmp_to_key

    return sorted(xs, key=cmp_to_key(libmp.mpf_cmp))


def clamped(x: Maybe) -> Maybe:
    """Into [0, 1]; NaN gives 0 (CUDA: __saturatef)."""
    if x is None:
        return fzero, fone
    low, high = (b.most((fzero, b.least((fone, end)))) for end in x)
    return low, high
