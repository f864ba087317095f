"""Formulas of the vendor's library functions, by their names in `tl.extra.cuda.libdevice`.

A library that flushes may read a subnormal fp32 operand of any function as 0 and return 0 for a subnormal result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from render.exact import functions, joint
from render.exact import intervals as iv
from render.exact.formats import FP32, rounded
from render.exact.intervals import Maybe
from render.exact.points import INF, NINF, ONE, ZERO, above, integer, least, most, number, power
from render.witness import arithmetic, casts, errors, exact_functions
from render.witness.document import Operation
from render.witness.rule import Rule, fmt_of
from render.witness.sums import growth

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

Formula = Callable[..., Maybe]
"""(operands..., format) -> everything the exact result and its one rounding may be."""


def flushed(formula: Formula) -> Rule:
    """The formula of a library that may flush subnormal fp32 operands and results."""

    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        args, fmt = e.args(op, k), fmt_of(op)
        if fmt.bits != 32 or not e.rules["library_flush"]:
            return formula(*args, fmt)
        return errors.with_zero(formula(*(errors.with_zero(x, FP32) for x in args), fmt), FP32)

    return rule


def _exactly(formula: Callable[..., Maybe]) -> Rule:
    return flushed(lambda *args: formula(*args[:-1]))


def _rounded(formula: Callable[..., Maybe]) -> Rule:
    return flushed(lambda *args: rounded(formula(*args[:-1]), args[-1]))


def _directed(formula: Callable[..., Maybe], way: str) -> Rule:
    return flushed(lambda *args: casts.towards(formula(*args[:-1]), args[-1], way))


def _integral(way: str) -> Rule:
    return _exactly(lambda x: arithmetic.integral_ends(arithmetic.WAYS[way], x))


_EX2 = ("exp", "fast_expf")
"""Entries of e^x with the error of the instruction for 2^x, on targets that go through it."""


def function(name: str, key: str) -> Rule:
    """A function of one argument within the error `key`."""

    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        fmt = fmt_of(op)
        through = key in _EX2 and bool(e.rules["exp_via_exp2"]) and "error" not in op.attrs
        return errors.apply(name, e.args(op, k)[0], e.error_of(op, key), fmt, through)

    return rule


def _correct(name: str, key: str) -> Rule:
    """A correctly rounded function; the library around it may flush."""

    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        error = e.error(key, fmt_of(op))
        found: Maybe = flushed(lambda x, fmt: errors.apply(name, x, error, fmt))(e, op, k)
        return found

    return rule


def _jointly(name: str, formula: Callable[..., Maybe], positive: bool = False) -> Rule:
    """A function of several arguments within the error `name`."""

    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        fmt, args = fmt_of(op), e.args(op, k)
        error = e.error_of(op, name)
        if error["ftz"] and fmt.bits == 32:
            args = [_rescaled(x) if name == "pow" and i == 0 else errors.with_zero(x, FP32) for i, x in enumerate(args)]
        return errors.within(formula(*args), error, fmt, positive)

    return rule


def _rescaled(x: Maybe) -> Maybe:
    """What pow makes of a base that may be subnormal: it scales it by a number that is flushed as well."""
    if x is None or not errors.holds_subnormals(x, FP32):
        return x
    tiny = power(FP32.emin)
    low = least((x[0], -tiny if x[0] < ZERO else ZERO))
    high = most((x[1], tiny if x[1] > ZERO else ZERO))
    return low, high


def _integer_power(e: Evaluator, op: Operation, k: int) -> Maybe:
    """x^n by pow or by multiplications in any order: |n| + 1 roundings at most, each within u.

    For n < 0 the power may overflow or lose digits before it is divided into 1.
    """
    x, n = e.args(op, k)
    fmt, count = fmt_of(op), integer(n[0])
    error = dict(e.error("pow", fmt))
    flush = fmt.bits == 32 and bool(error["ftz"])
    y = joint.integer_power(_rescaled(x) if flush else x, count)
    if y is None:
        return None
    error["r"] = max(error["r"], above(growth(power(-fmt.p), abs(count) + 1)))
    error["a"] = max(error["a"], fmt.min_subnormal * max(1, abs(count)))
    error["ftz"] = error["ftz"] or count < 0
    out = errors.within(y, error, fmt, False)
    if out is None or count >= 0:
        return out
    edge = number(fmt.max / 8)
    low, high = out
    if edge < high:
        low, high = least((low, edge)), INF
    if low < (-edge):
        low, high = NINF, most((high, -edge))
    return low, high


def _order(name: str) -> Rule:
    """J_n or Y_n. Where the vendor states an error: J_n for n = 128; Y_n below n in ulp (fp32 only), absolute from n on
    (fp64: past 1.5 n)."""

    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        order, x = e.args(op, k)
        fmt, n = fmt_of(op), integer(order[0])
        error = dict(e.error(name, fmt))
        x = errors.with_zero(x, fmt) if error["ftz"] else x
        y = None if x is None else functions.bessel(name[0], n, x)
        if "until" in error and x is not None and y is not None:
            if n < 0 if name == "yn" else n != 128:
                return None
            first, last, knee = x[0], x[1], number(n)
            if name == "yn" and fmt.bits == 64 and 1.5 * n >= first:
                return None
            error = dict(errors.at(error, x, fmt) or error)
            if name == "yn" and fmt.bits == 32 and first < knee:
                ulps = math.ceil(2 + 2.5 * n) + 0.5
                error["r"], error["a"] = ulps * 2.0**-23, 0.0 if last < knee else error["a"]
                error["a"] = max(error["a"], ulps * 2.0**-149)
        return errors.within(y, error, fmt, False)

    return rule


def _next(e: Evaluator, op: Operation, k: int) -> Maybe:
    """Among subnormal numbers a flushing library goes on from 0, up to the smallest normal number."""
    x, y = e.args(op, k)
    out = exact_functions.neighbours(x, y, fmt_of(op))
    if out is None or x is None or fmt_of(op).bits != 32 or not e.rules["library_flush"]:
        return out
    tiny = power(FP32.emin)
    near = iv.magnitudes(x)[0] < tiny
    out = iv.hull(out, (-tiny, tiny)) if near else out
    return errors.with_zero(out, FP32)


def _scaled(e: Evaluator, op: Operation, k: int) -> Maybe:
    count = integer(e.args(op, k)[1][0])
    found: Maybe = flushed(lambda x, n, fmt: rounded(exact_functions.scaled(x, count), fmt))(e, op, k)
    return found


def _reciprocal(x: Maybe) -> Maybe:
    return iv.div((ONE, ONE), x)


def _norm(*x: Maybe) -> Maybe:
    return joint.norm(x, inverse=False)


def _inverse_norm(*x: Maybe) -> Maybe:
    return joint.norm(x, inverse=True)


def _root(x: Maybe) -> Maybe:
    return functions.over("sqrt", x)


_OPERATIONS: dict[str, Callable[..., Maybe]] = {
    "add": iv.add, "sub": iv.sub, "mul": iv.mul, "div": iv.div, "rcp": _reciprocal, "sqrt": _root,
    "fma": lambda x, y, z: iv.add(iv.mul(x, y), z),
}  # fmt: skip
_NORMS = ("hypot", "rhypot", "norm3d", "rnorm3d", "norm4d", "rnorm4d")
KEYS = {"exp": "libdevice_exp", "rsqrt": "libdevice_rsqrt"}
_TO_FLOATS = [
    f"{source}2{target}_{way}" for way in ("rd", "ru", "rz") for target in ("float", "double")
    for source in ("int", "uint", "ll", "ull", *(("double",) if target == "float" else ()))
    if target == "float" or "ll" in source
]  # fmt: skip

_PLAIN: dict[str, Rule] = {
    **{name: function(name, KEYS.get(name, name)) for name in functions.KNOWN},
    **{f"{name}_rn": _rounded(f) for name, f in _OPERATIONS.items()},
    "sqrt_rn": _correct("sqrt", "sqrt_rn"),
    "rsqrt_rn": _correct("rsqrt", "rsqrt_rn"),
    "pow": _jointly("pow", joint.raised),
    "atan2": _jointly("atan2", joint.atan2),
    **{name: _jointly(name, _inverse_norm if name.startswith("r") else _norm, True) for name in _NORMS},
    "integer_power": _integer_power,
    "jn": _order("jn"),
    "yn": _order("yn"),
    "remainder": _exactly(exact_functions.ieee_remainder),
    "fmod": flushed(arithmetic.fmod),
    "copysign": _exactly(exact_functions.copysign),
    "abs": _exactly(lambda x: None if x is None else iv.magnitudes(x)),
    "saturatef": _exactly(arithmetic.clamped),
    "logb": _exactly(exact_functions.logb),
    "nextafter": _next,
    "ldexp": _scaled,
    "scalbn": _scaled,
    "fdim": flushed(lambda x, y, fmt: rounded(exact_functions.positive_difference(x, y), fmt)),
    "fma": flushed(arithmetic.fused),
    "floor": _integral("floor"),
    "ceil": _integral("ceil"),
    "trunc": _integral("trunc"),
    "rint": _integral("nearest"),
    "nearbyint": _integral("nearest"),
    "round": _integral("half away"),
    **{f"{name}_{way}": _directed(f, way) for name, f in _OPERATIONS.items() for way in ("rd", "ru", "rz")},
    **{name: casts.in_direction(name[-2:]) for name in _TO_FLOATS},
}


RULES: dict[str, Rule] = {f"library {name}": rule for name, rule in _PLAIN.items()}

__all__ = ["RULES", "flushed", "function"]
