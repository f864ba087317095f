"""Floating-point operations: the value lane in the format's own arithmetic, the bounds from `interval_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops import arithmetic, casting, functions, selection
from interval_ops.formats import Format
from render.interpreter.builder.base import Base
from render.interpreter.builder.integers import bool_handle, decided, truths
from render.interpreter.handle import Handle, taint_of
from render.interpreter.types import carrier, format_of

# Up to this many lanes a cast is checked for being exact: literals stay points.
_FEW = 64

Ufunc = Callable[..., np.ndarray]


def in_format(v: np.ndarray, fmt: Format) -> np.ndarray:
    """A carrier result rounded to its format (fp32 and fp64 carriers already are)."""
    return v if fmt.p >= 24 else casting.round_value(v, fmt, "rtne", "saturate" if not fmt.has_inf else "inf")


def same_value(x: Handle, y: Handle) -> bool:
    """Both handles are one and the same value, lane by lane (so x*x is a square)."""
    if x is y:
        return True
    one = x.v.__array_interface__
    two = y.v.__array_interface__
    return (
        one["data"] == two["data"] and x.v.shape == y.v.shape and x.v.strides == y.v.strides
        and x.dtype == y.dtype and x.is_point == y.is_point
    )


def _binary(ufunc: Ufunc, rule: Callable[..., Any], cause: str, kind: str | None = None) -> Any:
    extra = {} if kind is None else {"kind": kind}

    def create(self: Base, x: Handle, y: Handle) -> Handle:
        fmt = format_of(x.dtype)
        v = in_format(ufunc(x.v, y.v), fmt)
        taint = taint_of(x, y)
        if not self.ctx.interval:
            return Handle(v, x.dtype, x.shape, taint=taint)
        lo, hi = rule(x.pair, y.pair, fmt, self.ctx.model(cause), **extra)
        return Handle(v, x.dtype, x.shape, lo, hi, taint)

    return create


def _unary(ufunc: Ufunc, name: str) -> Any:
    def create(self: Base, x: Handle) -> Handle:
        fmt = format_of(x.dtype)
        v = in_format(ufunc(x.v), fmt)
        if not self.ctx.interval:
            return Handle(v, x.dtype, x.shape, taint=x.taint)
        lo, hi = functions.unary(name, x.pair, fmt, self.ctx.model("function"))
        return Handle(v, x.dtype, x.shape, lo, hi, x.taint)

    return create


def _exact_unary(ufunc: Ufunc, rule: Callable[..., Any]) -> Any:
    def create(self: Base, x: Handle) -> Handle:
        v = ufunc(x.v)
        if x.is_point:
            return Handle(v, x.dtype, x.shape, taint=x.taint)
        lo, hi = rule(x.pair)
        return Handle(v, x.dtype, x.shape, lo, hi, x.taint)

    return create


def _compare(ufunc: Ufunc, op: str) -> Any:
    def create(self: Base, x: Handle, y: Handle) -> Handle:
        v = ufunc(x.v, y.v)
        taint = taint_of(x, y)
        if x.is_point and y.is_point:
            return Handle(v, tl.int1, x.shape, taint=taint)
        surely, possibly = selection.compare(op, x.pair, y.pair)
        return bool_handle(v, surely, possibly, x.shape, taint)

    return create


def _extremum(ufunc: Ufunc, rule: Callable[..., Any], propagate_nan: bool) -> Any:
    def create(self: Base, x: Handle, y: Handle) -> Handle:
        v = ufunc(x.v, y.v)
        taint = taint_of(x, y)
        if x.is_point and y.is_point:
            return Handle(v, x.dtype, x.shape, taint=taint)
        lo, hi = rule(x.pair, y.pair, propagate_nan)
        return Handle(v, x.dtype, x.shape, lo, hi, taint)

    return create


def erf(x: np.ndarray) -> np.ndarray:
    from math import erf as scalar

    return np.vectorize(scalar, otypes=[np.float64])(x).astype(x.dtype)


def rsqrt(x: np.ndarray) -> np.ndarray:
    return (1 / np.sqrt(x)).astype(x.dtype)


class Floats(Base):
    create_fadd = _binary(np.add, arithmetic.add, "arith")
    create_fsub = _binary(np.subtract, arithmetic.sub, "arith")
    _product = _binary(np.multiply, arithmetic.mul, "arith")
    create_fdiv = _binary(np.divide, arithmetic.div, "function", "div")
    create_precise_divf = _binary(np.divide, arithmetic.div, "function", "div_rn")
    create_frem = _binary(np.fmod, arithmetic.fmod, "function")
    create_exp = _unary(np.exp, "exp")
    create_exp2 = _unary(np.exp2, "exp2")
    create_log = _unary(np.log, "log")
    create_log2 = _unary(np.log2, "log2")
    create_sin = _unary(np.sin, "sin")
    create_cos = _unary(np.cos, "cos")
    create_sqrt = _unary(np.sqrt, "sqrt")
    create_precise_sqrt = _unary(np.sqrt, "sqrt_rn")
    create_rsqrt = _unary(rsqrt, "rsqrt")
    create_erf = _unary(erf, "erf")
    create_fneg = _exact_unary(np.negative, arithmetic.neg)
    create_fabs = _exact_unary(np.abs, arithmetic.abs_)
    create_floor = _exact_unary(np.floor, arithmetic.floor)
    create_ceil = _exact_unary(np.ceil, arithmetic.ceil)
    create_fcmpOLT = _compare(np.less, "lt")
    create_fcmpOLE = _compare(np.less_equal, "le")
    create_fcmpOGT = _compare(np.greater, "gt")
    create_fcmpOGE = _compare(np.greater_equal, "ge")
    create_fcmpOEQ = _compare(np.equal, "eq")
    create_fcmpUNE = _compare(np.not_equal, "ne")
    create_maxnumf = _extremum(np.fmax, selection.maximum, False)
    create_minnumf = _extremum(np.fmin, selection.minimum, False)
    create_maximumf = _extremum(np.maximum, selection.maximum, True)
    create_minimumf = _extremum(np.minimum, selection.minimum, True)

    def create_fmul(self, x: Handle, y: Handle) -> Handle:
        if not self.ctx.interval or not same_value(x, y):
            return self._product(x, y)
        fmt = format_of(x.dtype)
        lo, hi = arithmetic.square(x.pair, fmt, self.ctx.model("arith"))
        return Handle(in_format(x.v * x.v, fmt), x.dtype, x.shape, lo, hi, x.taint)

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        fmt = format_of(x.dtype)
        v = in_format((x.v.astype(np.float64) * y.v + z.v).astype(x.v.dtype), fmt)
        taint = taint_of(x, y, z)
        if not self.ctx.interval:
            return Handle(v, x.dtype, x.shape, taint=taint)
        lo, hi = arithmetic.fma(x.pair, y.pair, z.pair, fmt, self.ctx.model("arith"))
        return Handle(v, x.dtype, x.shape, lo, hi, taint)

    def create_clampf(self, x: Handle, low: Handle, high: Handle, propagate_nan: Any = None) -> Handle:
        if "ALL" in str(propagate_nan):
            return self.create_minimumf(self.create_maximumf(x, low), high)
        return self.create_minnumf(self.create_maxnumf(x, low), high)

    # casts
    def _cast(self, x: Handle, ty: Any, mode: str) -> Handle:
        src, dst = format_of(x.dtype), format_of(ty)
        if src == dst:
            return x
        profile = self.ctx.profile
        overflow = profile.cast_overflow.get(dst.name, "inf" if dst.has_inf else "saturate")
        if overflow == "either":
            overflow = "saturate" if dst.bits == 8 else "inf"
        widening = dst.p >= src.p and dst.emin <= src.emin and dst.max >= src.max
        if widening:
            v = x.v.astype(carrier(ty), copy=False)
            return Handle(v, ty.scalar, x.shape, x.lo, x.hi, x.taint)
        v = casting.round_value(x.v, dst, mode, overflow)
        if not self.ctx.interval:
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        if x.is_point and x.v.size <= _FEW and np.array_equal(v, x.v):
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        lo, hi = casting.cast_interval(*x.pair, src, dst, self.ctx.model("cast"), mode)
        return Handle(v, ty.scalar, x.shape, lo, hi, x.taint)

    def create_fp_trunc(self, x: Handle, ty: Any) -> Handle:
        return self._cast(x, ty, "rtne")

    def create_fp_ext(self, x: Handle, ty: Any) -> Handle:
        return self._cast(x, ty, "rtne")

    def create_fp_to_fp(self, x: Handle, ty: Any, rounding: Any = None) -> Handle:
        return self._cast(x, ty, "rtz" if rounding is not None and "RTZ" in str(rounding) else "rtne")

    def create_si_to_fp(self, x: Handle, ty: Any) -> Handle:
        fmt = format_of(ty)
        if x.dtype.scalar.is_int1():
            return self._bool_to_float(x, ty)
        v = casting.int_to_float_value(x.v, fmt)
        bounds = casting.int_to_float_interval(x.v, fmt, self.ctx.model("cast")) if self.ctx.interval else None
        lo, hi = bounds if bounds is not None else (None, None)
        return Handle(v, ty.scalar, x.shape, lo, hi, x.taint)

    create_ui_to_fp = create_si_to_fp

    def _bool_to_float(self, x: Handle, ty: Any) -> Handle:
        v = x.v.astype(carrier(ty))
        if x.lo is None:
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        lo, hi = truths(x)
        return Handle(v, ty.scalar, x.shape, lo.astype(np.float64), hi.astype(np.float64), x.taint)

    def create_fp_to_si(self, x: Handle, ty: Any) -> Handle:
        v = casting.float_to_int_value(x.v, carrier(ty))
        taint = x.taint
        if not x.is_point and not casting.float_to_int_decided(x.lo, x.hi).all():
            taint = taint | self.ctx.taint("RND302", "to(int)", "the bounds leave open which integer a float becomes")
        return Handle(v, ty.scalar, x.shape, taint=taint)

    create_fp_to_ui = create_fp_to_si

    def create_bitcast(self, x: Handle, ty: Any) -> Handle:
        """Bits reinterpreted: exact for points; an interval has no single bit pattern, so the result is tainted."""
        from render.interpreter.builder.bits import bitcast

        src, dst = x.dtype.scalar, ty.scalar
        if src.is_ptr() or dst.is_ptr():
            return Handle(x.v, dst, x.shape, taint=x.taint, origin=x.origin)
        x = decided(self, x)
        taint = x.taint
        if not x.is_point:
            taint = taint | self.ctx.taint("RND302", "bitcast", "the bits of a value that carries an interval")
        return Handle(bitcast(x.v, src, dst), dst, x.shape, taint=taint)
