"""Elementwise operations: functions of the engine, formulas, powers and remainders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic.broadcast import BLOCK
from interval_ops.bounds import Pair, each
from interval_ops.formats import casting
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.functions.elementary import unary
from interval_ops.library import joint
from interval_ops.profiles.profile import Profile
from render.interpreter.hosted.algebra import by_reciprocal, enclosed, in_blocks, natural, quotient
from render.interpreter.hosted.call import (
    Bounds,
    Call,
    Exact,
    Result,
    Rule,
    exact_profile,
    finished,
    inner_of,
    number,
    same_rank,
)
from render.interpreter.hosted.curves import EXACT, OPEN, curve_of, slopes_of
from render.ops.aten import ATEN, Aten, base_name, named
from render.ops.dtypes import FORMAT_OF
from render.ops.formulas import BY_STEPS, HALF_POWERS
from render.ops.nested import leaves_of


def by_function(op: Aten) -> Rule:
    """A function of one argument that the engine knows, in float32 or float64, then rounded."""
    steps = BY_STEPS.get(op.function)

    def rule(call: Call) -> Result:
        fmt = call.format(call.x)
        pair = None if fmt is None else call.operand(call.x, inner_of(fmt))
        if fmt is None or pair is None:
            return None
        found = unary(op.function, pair, inner_of(fmt), call.profile)
        found = _narrowed(op, found, fmt, call.profile)
        if steps is not None and fmt.bits < 32:
            found = _hull(found, natural(steps, [pair], fmt, call.profile, {}))
        return finished(found, fmt, call.profile)

    return rule


def _narrowed(op: Aten, pair: Pair, fmt: Format, profile: Profile) -> Pair:
    """With what kernels for 16-bit types are off."""
    if not op.narrow or fmt.bits > 16 or profile.muted("function"):
        return pair
    return pair[0] - op.narrow, pair[1] + op.narrow


def by_formula(op: Aten) -> Rule:
    """A formula of the first operands; the rest of its arguments are numbers."""
    formula = op.formula
    assert formula is not None

    def rule(call: Call) -> Result:
        names = [a.name for a in call.op._schema.arguments[: op.operands]]
        operands = [call.get(name) for name in names]
        keywords = {name: call.get(name) for name in op.keywords if call.get(name) is not None}
        fmt = call.format(*operands)
        if fmt is None or any(isinstance(v, torch.Tensor) for v in keywords.values()):
            return None
        inner = inner_of(fmt)
        pairs = call.operands(operands, inner)
        if pairs is None:
            return None
        first = {id(x): p for x, p in reversed([*zip(operands, pairs, strict=True)])}
        pairs = [first[id(x)] for x in operands]  # an operand that stands twice is one number
        turns = None if op.turns is None else op.turns(**keywords)
        profile = call.profile.inside(op.name)
        found = _by_curve(call, op, pairs, fmt, profile, keywords) if len(pairs) == 1 and turns is not None else None
        found = found or enclosed(formula, op.computed or formula, pairs, inner, profile, turns, keywords)
        if op.stepwise and fmt != inner:
            found = _hull(found, natural(op.computed or formula, pairs, fmt, profile, keywords))
        found = _narrowed(op, found, fmt, profile)
        return finished(found, fmt, call.profile)

    return rule


def _by_curve(
    call: Call, op: Aten, pairs: list[Pair], fmt: Format, profile: Profile, keywords: dict[str, Any]
) -> Pair | None:
    """Of many numbers in float32: by the table of the function, the few that it says nothing of as others are."""
    (pair,) = pairs
    assert op.formula is not None and op.turns is not None
    if fmt != FP32 or pair[0].size < BLOCK or pair[0].shape != tuple(call.x.shape):
        return None
    told, computed = tuple(sorted(keywords.items())), op.computed or op.formula
    curve = curve_of(op.name, op.formula, computed, fmt, profile, told)
    if curve is None:
        return None
    lo, hi = each(pair, lambda end: np.ascontiguousarray(end, np.float64).reshape(-1))
    x, value = call.evaluated or (lo, None)
    if value is None:
        (value,) = leaves_of(call.run(lambda t: torch.from_numpy(lo.copy()) if isinstance(t, torch.Tensor) else t))[:1]
        value = value.numpy()
    low, high, kind = curve.around(x.reshape(-1), value.reshape(-1), (lo, hi))
    for which in (EXACT, OPEN):
        at = np.flatnonzero(kind == which)
        if not at.size:
            continue
        some = each((lo, hi), lambda end, at=at: end[at])  # type: ignore[misc]
        if which == EXACT:
            rounded = in_blocks(some, lambda p: natural(computed, [p], fmt, profile, keywords))
            ends = _hull((low[at], high[at]), rounded)
        else:
            ends = enclosed(op.formula, computed, [some], fmt, profile, op.turns(**keywords), keywords)
        low[at], high[at] = ends
    return low.reshape(pair[0].shape), high.reshape(pair[0].shape)


def function_slopes(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Pair | None:
    """Slopes of a smooth formula of one operand, the first, by cells (`curves`); None of other operations."""
    op = ATEN.get(base_name(func._schema.name))
    if op is None or op.formula is None or op.operands != 1 or op.turns is None:
        return None
    named_ = named(func._schema, args, kwargs)
    keywords = {name: named_[name] for name in op.keywords if named_.get(name) is not None}
    if any(isinstance(v, torch.Tensor) for v in keywords.values()):
        return None
    return slopes_of(op.formula, tuple(sorted(keywords.items())))


def _hull(a: Pair, b: Pair) -> Pair:
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def binary(function: Callable[..., Pair]) -> Rule:
    """One operation of the engine on two operands, in the format of the result."""

    def rule(call: Call) -> Result:
        args = call.args
        if len(args) < 2 or args[2:] or set(call.kwargs) - {"out", "alpha"} or call.kwargs.get("alpha", 1) != 1:
            return None
        fmt = call.format(*args)
        if fmt is None:
            return None
        pairs = call.operands(args, fmt)
        return None if pairs is None else Bounds(*function(*pairs, fmt, call.profile))

    return rule


def product(call: Call) -> Result:
    """mul; of a tensor and itself a square."""
    operands = [id(x) for x in call.args[:2] if isinstance(x, torch.Tensor)]
    square = len(operands) == 2 and len(set(operands)) == 1
    return _SQUARED(call) if square else _MULTIPLIED(call)


_MULTIPLIED = binary(arithmetic.mul)
_SQUARED = binary(lambda x, _, fmt, profile: arithmetic.square(x, fmt, profile))


def scaled_sum(function: Callable[..., Pair]) -> Rule:
    """add and sub, whose second operand may have a factor: a product before, contracted or not."""
    plain = binary(function)

    def rule(call: Call) -> Result:
        alpha, fmt = call.get("alpha", 1), call.format(*call.args[:2])
        if alpha == 1:
            return plain(call)
        pairs = None if fmt is None else call.operands((*call.args[:2], alpha), inner_of(fmt))
        if fmt is None or pairs is None:
            return None
        first, second, factor = pairs
        scaled = arithmetic.mul(factor, second, fmt, call.profile)
        return finished(function(first, scaled, inner_of(fmt), call.profile), fmt, call.profile)

    return rule


def reversed_sub(call: Call) -> Result:
    x, y, *rest = call.args
    return scaled_sum(arithmetic.sub)(Call(call.op, (y, x, *rest), call.kwargs, call.known, call.device))


def divided(call: Call) -> Result:
    """div; with a rounding mode the quotient's integral part, both ways where a rounding may turn it."""
    mode = call.get("rounding_mode")
    if mode is None:
        if set(call.kwargs) - {"out", "rounding_mode"}:
            return None
        call = Call(call.op, call.args[:2], {}, call.known, call.device)
        by = call.args[1]
        if isinstance(by, (int, float)) and not by and call.x.is_floating_point():
            return _over_zero(call.pair(call.x), float(by))
        number_ = isinstance(by, (int, float)) or (isinstance(by, torch.Tensor) and not by.dim())
        return binary(by_reciprocal if number_ else quotient)(call)
    return _integral_quotient(call, np.trunc if mode == "trunc" else np.floor)


def _over_zero(pair: Pair, zero: float) -> Bounds:
    """x / 0 where the sign of x is known: an infinity, with which step sizes are left out."""
    lo, hi = (np.asarray(end, np.float64) for end in pair)
    found = np.where(lo > 0, np.copysign(np.inf, zero), np.where(hi < 0, -np.copysign(np.inf, zero), np.nan))
    return Bounds(found, found)


def floor_divided(call: Call) -> Result:
    return _integral_quotient(call, np.floor)


def _integral_quotient(call: Call, integral: Callable[..., np.ndarray]) -> Result:
    fmt = call.format(*call.args[:2])
    if fmt is None:
        return None
    inner = inner_of(fmt)
    pairs = call.operands(call.args[:2], inner)
    if pairs is None:
        return None
    lo, hi = (np.asarray(end, np.float64) for end in quotient(pairs[0], pairs[1], inner, call.profile))
    low, high = integral(lo - _lost(lo, inner, 2)), integral(hi + _lost(hi, inner, 2))
    if fmt != inner:  # on a CPU every step is rounded to a narrow type, the quotient that is cut among them
        cut = [integral(np.asarray(end)) for end in casting.cast_interval(lo, hi, FP64, fmt, call.profile)]
        low = np.minimum(np.minimum(low, cut[0]), integral(lo - _lost(lo, fmt, 4)))
        high = np.maximum(np.maximum(high, cut[1]), integral(hi + _lost(hi, fmt, 4)))
    if integral is np.floor:  # by way of fmod, which has no value at infinity
        endless = ~np.isfinite(np.asarray(pairs[0][0])) | ~np.isfinite(np.asarray(pairs[0][1]))
        low, high = (np.where(endless, np.nan, end) for end in (low, high))
    return finished((low, high), fmt, call.profile)


def _lost(quotient_: np.ndarray, fmt: Format, steps: int) -> np.ndarray:
    """What a quotient loses whose remainder is subtracted before the division, and that is set right to the nearest
    integer afterwards (c10::div_floor_floating): nothing while that is less than a half."""
    found: np.ndarray = np.where(np.abs(quotient_) >= 2.0**fmt.p / (2 * steps), steps * fmt.u * np.abs(quotient_), 0.0)
    return found


def remainder(call: Call) -> Result:
    """x - floor(x / y) y, exact but for one addition: linear where all choices have one quotient, else up to y."""
    fmt = call.format(*call.args[:2])
    if fmt is None:
        return None
    inner = inner_of(fmt)
    pairs = call.operands(call.args[:2], inner)
    if pairs is None:
        return None
    with np.errstate(all="ignore"):
        exact = exact_profile()
        x, y = pairs
        first, last = (np.floor(np.asarray(end, np.float64)) for end in quotient(x, y, FP64, exact))
        whole = np.where(np.isfinite(first) & (first == last) & (np.abs(first) < 2.0**50), first, 0.0)
        low, high = arithmetic.sub(pairs[0], arithmetic.mul((whole, whole), pairs[1], FP64, exact), FP64, exact)
        divisor = [np.broadcast_to(np.asarray(end, np.float64), low.shape) for end in pairs[1]]
        bottom, top = np.minimum(divisor[0], 0.0), np.maximum(divisor[1], 0.0)
        settled = np.isfinite(first) & (first == last) & (np.abs(first) < 2.0**50)
        low, high = np.where(settled, np.maximum(low, bottom), bottom), np.where(settled, np.minimum(high, top), top)
        open_ = np.isnan(first) | np.isnan(last) | ~np.isfinite(first) | ~np.isfinite(last)
        low, high = (np.where(open_, np.nan, end) for end in (low, high))
    rounded = casting.cast_interval(low, high, FP64, inner, call.profile) if inner != FP64 else (low, high)
    return finished(rounded, fmt, call.profile)


def reciprocal(call: Call) -> Result:
    fmt = call.format(call.x)
    pair = None if fmt is None else call.operand(call.x, fmt)
    if fmt is None or pair is None:
        return None
    one, x = same_rank([number(1.0, fmt), pair])
    return Bounds(*quotient(one, x, fmt, call.profile))


def negated(call: Call) -> Result:
    return Bounds(*arithmetic.neg(call.pair(call.x)))


def absolute(call: Call) -> Result:
    return Bounds(*arithmetic.abs_(call.pair(call.x)))


def power(call: Call) -> Result:
    """x ** y: small whole powers by products in any order, halves by roots, else the device library's pow."""
    x, y = call.args[:2]
    fmt = call.format(x, y)
    if fmt is None:
        return None
    inner, profile = inner_of(fmt), call.profile
    pairs = call.operands([x, y], inner)
    if pairs is None:
        return None
    base, exponent = pairs
    if not isinstance(y, (int, float)) or exponent[0] != exponent[1]:
        return finished(joint.power(base, exponent, inner, profile), fmt, profile)
    if y == 0:
        return Exact()
    if y == 1:
        return finished(base, fmt, profile)
    if y == 2:
        return finished(arithmetic.square(base, inner, profile), fmt, profile)
    if y in HALF_POWERS:
        found = unary(HALF_POWERS[y], base, inner, profile)
        other = joint.power(base, exponent, inner, profile)  # torch has a case of its own for roots, or calls pow
        if y == -0.5 and fmt != inner:
            found = _hull(found, natural(BY_STEPS[y], [base], fmt, profile, {}))
        return finished(_hull(found, other), fmt, profile)
    if float(y).is_integer() and abs(y) < 1024:
        found = joint.integer_power(base, exponent, inner, profile)
        if y in BY_STEPS and fmt != inner:  # products of narrow types, each rounded to them
            found = _hull(found, natural(BY_STEPS[y], [base], fmt, profile, {}))
        return finished(found, fmt, profile)
    return finished(joint.power(base, exponent, inner, profile), fmt, profile)


def jointly(function: Callable[..., Pair]) -> Rule:
    """A function of two arguments with the device library's error."""

    def rule(call: Call) -> Result:
        fmt = call.format(*call.args[:2])
        if fmt is None:
            return None
        pairs = call.operands(call.args[:2], inner_of(fmt))
        return None if pairs is None else finished(function(*pairs, inner_of(fmt), call.profile), fmt, call.profile)

    return rule


def hypotenuse(x: Pair, y: Pair, fmt: Any, profile: Profile) -> Pair:
    return joint.norm("hypot", (x, y), fmt, profile)


def gated(op: Aten) -> Rule:
    """glu: the first half times the sigmoid of the second."""
    from render.ops.formulas import sigmoid

    def rule(call: Call) -> Result:
        fmt = FORMAT_OF.get(call.x.dtype)
        dim = int(call.get("dim", -1))
        if fmt is None or call.x.shape[dim] % 2:
            return None
        inner = inner_of(fmt)
        first, gate = zip(*(np.split(np.asarray(e, np.float64), 2, dim) for e in call.pair(call.x)), strict=True)
        weight = enclosed(sigmoid, sigmoid, [gate], inner, call.profile, (), {})
        return finished(arithmetic.mul(first, weight, inner, call.profile), fmt, call.profile)

    return rule
