"""Library functions that change the type: conversions with a rounding, bits, predicates, ldexp and integer powers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.bounds import Pair
from interval_ops.formats import casting
from interval_ops.formats.model import FP64
from interval_ops.functions import bessel_orders
from interval_ops.library import joint
from interval_ops.profiles.profile import MissingRule
from render.interpreter.builder import Builder
from render.interpreter.builder.bits import bitcast
from render.interpreter.builder.floats import opened_by
from render.interpreter.builder.integers import bool_handle
from render.interpreter.handle import Handle, taint_of
from render.interpreter.types import carrier, float_format
from render.interpreter.values import VALUES
from render.ops.library import CONVERSIONS, LIBRARY, flushed
from render.ops.rule import Shape

Method = Callable[..., Handle]
"""(builder, result type, operand handles...) -> result."""

_INTEGRAL = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def _to_integer(rounding: str, unsigned: bool = False) -> Method:
    """A rounding to an integral value and a saturating conversion; open bounds taint the integer."""

    def method(b: Builder, ty: Any, x: Handle) -> Handle:
        signed = carrier(ty)
        target = np.dtype(f"u{signed.itemsize}") if unsigned else signed
        with np.errstate(all="ignore"):
            v = casting.float_to_int_value(VALUES[f"library {rounding}"](x.v.astype(np.float64)), target).view(signed)
        if not b.ctx.interval:
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        between = LIBRARY[rounding].apply((x.pair,), float_format(x.dtype), b.ctx.profile)  # type: ignore[misc]
        return opened_by(b, ty, x, v, between, target)  # type: ignore[arg-type]

    return method


def _int_ends(x: np.ndarray) -> Pair:
    near = x.astype(np.float64)
    return casting._int_ends(x) if x.dtype.itemsize == 8 else (near, near)


def _from_integer(direction: str) -> Method:
    def method(b: Builder, ty: Any, x: Handle) -> Handle:
        if direction == "rn":
            return b.create_si_to_fp(x, ty)
        fmt = float_format(ty)
        low, high = _int_ends(x.v)
        if fmt == FP64:
            v = {"rd": low, "ru": high, "rz": np.where(low > 0, low, high)}[direction]
            bounds = (low, high)
        else:
            pair = low, np.maximum(low, high)
            lower, upper = (_rounded(end, direction, fmt) for end in pair)
            v = lower if direction == "rd" else np.where(low > 0, lower, upper) if direction == "rz" else upper
            bounds = joint.directed(direction, pair, fmt, b.ctx.model("cast").muted("cast"))
        lo, hi = bounds if b.ctx.interval and not np.array_equal(*bounds) else (None, None)
        return Handle(v.astype(carrier(ty)), ty.scalar, x.shape, lo, hi, x.taint)

    return method


def _rounded(x: np.ndarray, direction: str, fmt: Any) -> np.ndarray:
    """float64 numbers rounded in a direction, exactly."""
    from interval_ops.library.joint_kernels import directed_values

    flat = np.ascontiguousarray(x).reshape(-1)
    out, zero = np.empty_like(flat), np.zeros_like(flat)
    directed_values(0, joint.DIRECTIONS[direction], False, fmt.gate, flat, zero, zero, out)
    return out.reshape(x.shape)


def _narrowed(direction: str) -> Method:
    """double2float: one rounding."""

    def method(b: Builder, ty: Any, x: Handle) -> Handle:
        if direction == "rn":
            return b.create_fp_trunc(x, ty)
        fmt = float_format(ty)
        v = _rounded(x.v.astype(np.float64), direction, fmt).astype(carrier(ty))
        if not b.ctx.interval:
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        profile = b.ctx.model("cast")
        exact = tuple(end.astype(np.float64, copy=False) for end in x.pair)
        lo, hi = joint.directed(direction, exact, fmt, profile.muted("cast"))  # type: ignore[arg-type]
        return Handle(v, ty.scalar, x.shape, lo, hi, x.taint)

    return method


def _conversion(name: str) -> Method:
    found = re.fullmatch(r"(\w+?)2(\w+)_(r[nzdu])", name)
    assert found is not None
    source, target, direction = found.groups()
    if source in ("float", "double") and target in ("int", "uint", "ll", "ull"):
        return _to_integer(_INTEGRAL[direction], target.startswith("u"))
    return _narrowed(direction) if source == "double" else _from_integer(direction)


# bits
def _bitcast(b: Builder, ty: Any, x: Handle) -> Handle:
    return b.create_bitcast(x, ty)


def _half_of_double(high: bool) -> Method:
    def method(b: Builder, ty: Any, x: Handle) -> Handle:
        bits = b.create_bitcast(x, tl.int64)
        v = (bits.v >> 32 if high else bits.v & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
        return Handle(v, ty.scalar, x.shape, taint=bits.taint)

    return method


def _double_of_halves(b: Builder, ty: Any, high: Handle, low: Handle) -> Handle:
    bits = (high.v.astype(np.int64) << 32) | low.v.view(np.uint32).astype(np.int64)
    return Handle(bitcast(bits, tl.int64, tl.float64), ty.scalar, high.shape, taint=taint_of(high, low))


# predicates
def _predicate(value: Callable[..., np.ndarray], possibly: Any, surely: Any) -> Method:
    """A truth value of a number; `surely` and `possibly` judge bounds. A NaN bound may be anything."""

    def method(b: Builder, ty: Any, x: Handle) -> Handle:
        v = value(x.v)
        if x.is_point:
            return Handle(v, tl.int1, x.shape, taint=x.taint)
        lo, hi = x.pair
        with np.errstate(invalid="ignore"):
            return bool_handle(v, surely(lo, hi), possibly(lo, hi) | np.isnan(lo), x.shape, x.taint)

    return method


def _infinite(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.isinf(lo) | np.isinf(hi)
    return found


def _no(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    return np.zeros(lo.shape, bool)


_IS_FINITE = _predicate(
    np.isfinite, lambda lo, hi: ~((lo == hi) & np.isinf(lo)), lambda lo, hi: np.isfinite(lo) & np.isfinite(hi)
)


def _signbit(b: Builder, ty: Any, x: Handle) -> Handle:
    taint = x.taint
    if not x.is_point:
        lo, hi = x.pair
        if not ((lo > 0) | (hi < 0)).all():
            taint |= b.ctx.taint("RND303", "signbit", "the bounds leave the sign open")
    return Handle(np.signbit(x.v).astype(carrier(ty)), ty.scalar, x.shape, taint=taint)


def _ilogb(b: Builder, ty: Any, x: Handle) -> Handle:
    """Exponent as an integer; 0, infinities and NaN give the extreme integers (CUDA: FP_ILOGB0, INT_MAX)."""
    e = joint.logb((x.v.astype(np.float64),) * 2)[0]
    v = np.where(np.isnan(e), np.iinfo(np.int32).min, np.clip(e, -(2.0**31), 2.0**31 - 1)).astype(np.int32)
    taint = x.taint
    if b.ctx.interval:
        lo, hi = LIBRARY["logb"].apply((x.pair,), float_format(x.dtype), b.ctx.profile)  # type: ignore[misc]
        if not (lo == hi).all():
            taint |= b.ctx.taint("RND302", "ilogb", "the bounds leave the exponent open")
    return Handle(v, ty.scalar, x.shape, taint=taint)


def _with_integer(rule: Any, value: Any, cause: str) -> Method:
    """A floating-point function of a number and an integer."""
    apply = flushed(lambda args, fmt, profile: rule(*args, fmt, profile))

    def method(b: Builder, ty: Any, x: Handle, n: Handle) -> Handle:
        with np.errstate(all="ignore"):
            v = value(x.v.astype(np.float64), n.v).astype(x.v.dtype)
        taint = taint_of(x, n)
        if not b.ctx.interval:
            return Handle(v, ty.scalar, x.shape, taint=taint)
        count = n.v.astype(np.float64)
        lo, hi = apply((x.pair, (count, count)), float_format(x.dtype), b.ctx.model(cause))
        return Handle(v, ty.scalar, x.shape, lo, hi, taint)

    return method


def _bessel(name: str) -> Method:
    """J_n or Y_n: the order first, as C has it."""

    def method(b: Builder, ty: Any, n: Handle, x: Handle) -> Handle:
        exact = (x.pair[0].astype(np.float64, copy=False), x.pair[1].astype(np.float64, copy=False))
        v = bessel_orders.values(name == "yn", n.v, x.v.astype(np.float64)).astype(x.v.dtype)
        taint = taint_of(n, x)
        if not b.ctx.interval:
            return Handle(v, ty.scalar, x.shape, taint=taint)
        try:
            bounds = bessel_orders.RULES[name](n.v, exact, float_format(x.dtype), b.ctx.model("function"))
        except MissingRule as missing:
            raise b.ctx.lacks(f"libdevice.{name}", missing) from None
        return Handle(v, ty.scalar, x.shape, *bounds, taint)

    return method


def _ldexp(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.ldexp(x, np.clip(n, -5000, 5000))
    return found


integer_power = _with_integer(joint.integer_power, np.power, "function")

METHODS: dict[str, Method] = {
    **{name: _conversion(name) for name in CONVERSIONS if re.fullmatch(r"\w+2\w+_r[nzdu]", name)},
    **{name: _bitcast for name, rule in CONVERSIONS.items() if rule.shape is Shape.BITS},
    "hiloint2double": _double_of_halves,
    "double2loint": _half_of_double(False),
    "double2hiint": _half_of_double(True),
    "llrint": _to_integer("rint"),
    "llround": _to_integer("round"),
    "ilogb": _ilogb,
    "isnan": _predicate(np.isnan, _no, _no),
    "isinf": _predicate(np.isinf, _infinite, lambda lo, hi: (lo == hi) & np.isinf(lo)),
    "finitef": _IS_FINITE,
    "isfinited": _IS_FINITE,
    "signbit": _signbit,
    "jn": _bessel("jn"),
    "yn": _bessel("yn"),
    "ldexp": _with_integer(joint.ldexp, _ldexp, "arith"),
    "scalbn": _with_integer(joint.ldexp, _ldexp, "arith"),
}
"""Library function -> method, for every entry of `render.ops.library.CONVERSIONS`."""
