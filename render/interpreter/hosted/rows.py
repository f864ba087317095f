"""Reductions, scans and losses of host operations, and the frame for all that works on rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.bounds import Pair, each
from interval_ops.formats import casting
from interval_ops.formats.model import FP64, Format
from interval_ops.functions.elementary import unary
from interval_ops.library import joint
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.rule import prod_axis, sum_axis
from render.interpreter.hosted.algebra import by_reciprocal
from render.interpreter.hosted.call import Bounds, Call, Exact, Result, Rule, finished, inner_of, same_rank
from render.interpreter.hosted.elementwise import by_formula
from render.ops.aten import Aten
from render.ops.dtypes import FORMAT_OF
from render.ops.rows import Joined, along

UP = 1.0 + 2.0**-20
"""Second-order terms of sums of at most some thousand unit roundoffs, and float64's own rounding."""


class Rows:
    """The first operand, its elements joined to rows as the operation takes them, and the format of the result."""

    def __init__(self, call: Call, layout: Callable[..., Joined] = along) -> None:
        source, fmt = FORMAT_OF.get(call.x.dtype), FORMAT_OF.get(call.get("dtype") or call.x.dtype)
        self.call, self.profile, self.joined = call, call.profile, layout(call.named, call.x.shape)
        self.n = self.joined.n
        self.usable = fmt is not None and source is not None and casting.holds(fmt, source) and call.x.numel() > 0
        self.fmt = fmt or FP64
        self.inner = inner_of(self.fmt)

    @property
    def pair(self) -> Pair:
        return self.of(self.call.pair(self.call.x))

    def of(self, pair: Pair) -> Pair:
        return each(pair, lambda x: np.ascontiguousarray(self.joined.rows(np.asarray(x, np.float64))))

    def reduced(self, pair: Pair, rounded: bool = True) -> Bounds:
        """One result per row; one that is not `rounded` stays in the format that torch computes in."""
        made = each(pair, lambda x: np.asarray(x).reshape(self.joined.kept))
        return finished(made, self.fmt, self.profile) if rounded else Bounds(*made)

    def back(self, pair: Pair) -> Pair:
        return each(pair, self.joined.back)

    def full(self, pair: Pair) -> Bounds:
        return finished(self.back(pair), self.fmt, self.profile)

    def affine(self, pair: Pair, kept: float = 0.0) -> Bounds:
        """Rows of a norm, times its weight plus its bias, which may be rounded to within `kept`; contracted or not."""
        made = self.back(pair)
        for name, step in (("weight", arithmetic.mul), ("bias", arithmetic.add)):
            operand = self.call.get(name)
            if operand is not None:
                given = each(self.call.pair(operand), lambda x: np.asarray(x, np.float64).reshape(self.joined.side))
                if name == "bias":
                    given = given[0] - kept * np.abs(given[0]), given[1] + kept * np.abs(given[1])
                made, given = same_rank([made, given])
                made = step(made, given, self.inner, self.profile)
        return finished(made, self.fmt, self.profile)


Close = Callable[[Pair, Format, Profile], Pair]
"""Rows, (rows, elements), to one result per row, in float32 or float64."""


def unit(fmt: Format, profile: Profile, cause: str) -> float:
    return 0.0 if profile.muted(cause) else fmt.u


def relative(name: str, fmt: Format, profile: Profile) -> float:
    return 0.0 if profile.muted("function") else profile.fn(name, fmt.name).r


def reduced(close: Close) -> Rule:
    """A reduction, computed in float32 or float64 and rounded once."""

    def rule(call: Call) -> Result:
        rows = Rows(call)
        return rows.reduced(close(rows.pair, rows.inner, rows.profile)) if rows.usable else None

    return rule


def total(pair: Pair, fmt: Format, profile: Profile) -> Pair:
    return sum_axis(pair, 1, pair[0].shape, fmt, profile)


def average(pair: Pair, fmt: Format, profile: Profile) -> Pair:
    low, high = total(pair, fmt, profile)
    n = np.full((1,) * low.ndim, float(pair[0].shape[1]))
    return by_reciprocal((low, high), (n, n), fmt, profile)


def product(call: Call) -> Result:
    """prod, whose kernels multiply narrow types in the type itself."""
    rows = Rows(call)
    pair = rows.pair if rows.usable else None
    return None if pair is None else rows.reduced(prod_axis(pair, 1, pair[0].shape, rows.fmt, rows.profile))


def scanned(scan_: Callable[..., Pair]) -> Rule:
    """cumsum and cumprod; torch's GPU kernels accumulate narrow types in the type itself."""

    def rule(call: Call) -> Result:
        rows = Rows(call)
        if not rows.usable and call.x.numel():
            return None
        pair = each(call.pair(call.x), lambda e: np.ascontiguousarray(np.atleast_1d(e), np.float64))
        lo, hi = scan_(pair, int(call.get("dim")) % max(call.x.dim(), 1), False, rows.fmt, call.profile)
        return Bounds(lo.reshape(call.x.shape), hi.reshape(call.x.shape))

    return rule


def running_log_sum(call: Call) -> Result:
    """logcumsumexp: of j elements, in any order of at most j - 1 steps max + log1p(exp(-|x - y|)).

    A step is off by u |result| for its sum, u/e for the rounding of x - y (d e^-d <= 1/e), the error of exp, and that
    of log1p times log 2; its derivatives by x and y are positive and add up to 1, so that errors of both sides together
    become no larger and those of the steps add up. GPU kernels keep partial results in a narrow type
    (aten/src/ATen/native/cuda/LogcumsumexpKernel.cu).
    """
    rows = Rows(call)
    if not rows.usable:
        return None
    fmt, profile = rows.fmt, rows.profile
    low, high = (np.logaddexp.accumulate(end, 1) for end in rows.pair)
    held = np.maximum(*(np.where(np.isfinite(end), np.abs(end), 0.0) for end in rows.pair))
    steps = np.arange(rows.n)
    most = np.maximum.accumulate(held, 1) + np.log1p(steps)
    own = 2.0**-50 * (most + 1)
    if not profile.muted("function"):
        exp, log = (profile.fn(name, rows.inner.name) for name in ("exp", "log1p"))
        own = own + fmt.u * most + rows.inner.u + exp.r + exp.a + log.r + log.a + fmt.half_subnormal
    low, high = low - (steps + 1) * own * UP, high + (steps + 1) * own * UP
    return rows.full((low, high))


# --- norms of vectors ---------------------------------------------------------------------------------------------


def norm_of(pair: Pair, order: float, fmt: Format, profile: Profile) -> Pair | None:
    sizes = arithmetic.abs_(pair)
    if math.isinf(order):
        pick = np.max if order > 0 else np.min
        return pick(sizes[0], -1), pick(sizes[1], -1)
    if order == 0:
        return None

    if order == 1:
        return total(sizes, fmt, profile)
    if order == 2:
        return unary("sqrt", total(arithmetic.square(pair, fmt, profile), fmt, profile), fmt, profile)
    p, inverse = (np.full((1,) * sizes[0].ndim, v) for v in (order, 1 / order))
    powers = total(joint.power(sizes, (p, p), fmt, profile), fmt, profile)
    near = np.nextafter(inverse, 0.0) if fmt == FP64 else inverse.astype(np.float32).astype(np.float64)
    ends = [np.minimum(near, inverse) * (1 - 2.0**-52), np.maximum(near, inverse) * (1 + 2.0**-52)]
    powers, exponents = same_rank([powers, (ends[0], ends[1])])
    return joint.power(powers, exponents, fmt, profile)


def vector_norm(call: Call) -> Result:
    rows, order = Rows(call), call.get("ord", call.get("p", 2))
    if not rows.usable or not isinstance(order, (int, float, type(None))):
        return None
    pair = norm_of(rows.pair, 2.0 if order is None else float(order), rows.inner, rows.profile)
    return None if pair is None else rows.reduced(pair)


# --- losses -------------------------------------------------------------------------------------------------------


def loss(op: Aten) -> Rule:
    """An elementwise formula, then nothing, the mean or the sum of all."""
    elements = by_formula(op)

    def rule(call: Call) -> Result:
        fmt, how = FORMAT_OF.get(call.x.dtype), int(call.get("reduction", 1))
        found = elements(call)
        if fmt is None or not isinstance(found, Bounds) or how == 0:
            return found if how == 0 else None
        close = average if how == 1 else total
        flat = found.lo.reshape(1, -1), found.hi.reshape(1, -1)
        return finished(each(close(flat, inner_of(fmt), call.profile), lambda x: x[0]), fmt, call.profile)

    return rule


def _cascaded(n: int) -> float:
    """Additions that an element passes in torch's sums of losses in the type itself: 16 on each of at most 8 levels.

    Source: cascade_sum_num_levels of aten/src/ATen/native/LossNLL.cpp and LossNLL2d.cpp; more than 2^32 elements double
    the 16.
    """
    levels = min(8, math.ceil(math.log(max(n, 2), 16)) + 1)
    return min(n, 16.0 * levels * max(1.0, n / 2.0**32) + 8)


def _added(pair: Pair, call: Call, fmt: Format) -> Pair:
    """The sum of a row, in float32 in any order or by levels in a narrow type."""
    low, high = total(pair, inner_of(fmt), call.profile)
    if fmt != inner_of(fmt) and not call.profile.muted("accumulation"):
        size = np.maximum(np.abs(pair[0]), np.abs(pair[1])).sum()
        steps = _cascaded(pair[0].size)
        room = math.expm1(steps * fmt.u) * size * UP + steps * fmt.half_subnormal
        low, high = low - room, high + room
    return low, high


def nll_loss(call: Call) -> Result:
    """-w[target_i] x[i, target_i], summed or averaged by the weights of the targets that count; classes second."""
    x, target, weight = call.x, call.args[1], call.get("weight")
    fmt = FORMAT_OF.get(x.dtype)
    if fmt is None or x.dim() not in (1, 2, 4) or (weight is not None and weight.dtype != x.dtype):
        return None
    goals = target.reshape(-1).numpy()
    kept = goals != int(call.get("ignore_index", -100))
    at = np.where(kept, goals, 0)
    last = [np.moveaxis(np.asarray(end, np.float64), min(1, x.dim() - 1), -1) for end in call.pair(x)]
    ends = [np.ascontiguousarray(end).reshape(len(at), -1)[np.arange(len(at)), at] for end in last]
    terms = np.where(kept, -ends[1], 0.0), np.where(kept, -ends[0], 0.0)
    weights = np.where(kept, 1.0, 0.0), np.where(kept, 1.0, 0.0)
    if weight is not None:
        low, high = (np.where(kept, np.asarray(end, np.float64)[at], 0.0) for end in call.pair(weight))
        weights, terms = (low, high), arithmetic.mul((low, high), terms, fmt, call.profile)
    how = int(call.get("reduction"))
    if how == 0:
        return Bounds(*(end.reshape(target.shape) for end in terms)), Exact() if weight is None else None
    if not kept.any():
        return None
    whole = each(weights, lambda end: end[kept][None])
    count = _added(whole, call, fmt) if weight is not None else each(weights, lambda end: np.atleast_1d(end.sum()))
    pair = _added(each(terms, lambda end: end[kept][None]), call, fmt)
    if how == 1:
        pair, whole = (finished(p, fmt, call.profile).pair for p in (pair, count))
        pair = by_reciprocal(pair, whole, inner_of(fmt), call.profile)
    found = finished(each(pair, lambda end: end[0]), fmt, call.profile)
    return found, finished(each(count, lambda end: end[0]), fmt, call.profile)
