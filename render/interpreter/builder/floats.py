"""Floating-point operations: the value lane in the format's own arithmetic, the bounds from `interval_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import triton.language as tl

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.formats import casting
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import MissingRule
from render.interpreter import open_integers as opened
from render.interpreter.builder import lost, related, sentinels
from render.interpreter.builder.base import Base
from render.interpreter.builder.integers import bool_handle, decided, truths
from render.interpreter.handle import METER, Handle, taint_of
from render.interpreter.types import carrier, float_format
from render.interpreter.values import ARITHMETIC, COMPARISONS, Value, in_format
from render.ops.rule import Rule
from render.ops.table import RULES

# Up to this many lanes a cast is checked for being exact: literals stay points.
_FEW = 64


def same_value(x: Handle, y: Handle) -> bool:
    """Both handles are one and the same value, lane by lane (so x*x is a square)."""
    if x is y:
        return True
    one, two = x.v, y.v
    if one.shape != two.shape or (one is not two and one.base is None and two.base is None):  # both own their memory
        return False
    return (
        one.__array_interface__["data"] == two.__array_interface__["data"]
        and one.strides == two.strides
        and x.dtype == y.dtype
        and x.is_point == y.is_point
    )


def dispatch(rule: Rule, value: Value) -> Callable[..., Handle]:
    """Builder method of one entry of the rule table: `value` computes the value lane, the rule the bounds."""
    exact = rule.error is None

    def create(self: Base, *operands: Handle) -> Handle:
        x = operands[0]
        fmt = float_format(x.dtype)
        v = in_format(value(*[h.v for h in operands]), fmt)
        taint = taint_of(*operands)
        if not self.ctx.interval or (exact and all(h.is_point for h in operands)):
            return Handle(v, x.dtype, x.shape, taint=taint)
        profile = self.ctx.profile if rule.cause is None else self.ctx.model(rule.cause)
        try:
            lo, hi = rule.apply(tuple([h.pair for h in operands]), fmt, profile)  # type: ignore[misc]
        except MissingRule as missing:
            raise self.ctx.lacks(rule.op, missing) from None
        if rule.op == "fsub" and (same := sentinels.alike(self.ctx, *operands)) is not None:
            lo, hi = (np.where(same, 0.0, end) for end in (lo, hi))
        if rule.op not in related.KNOWN:
            return Handle(v, x.dtype, x.shape, lo, hi, taint)
        (lo, hi), near = related.narrowed(operands, (lo, hi), fmt, profile, rule)
        out = Handle(v, x.dtype, x.shape, lo, hi, taint)
        related.made(out, operands, near, fmt, profile, rule)
        return out

    create.__name__ = f"create_{rule.op}"
    create.__doc__ = rule.doc
    return lost.lanewise(create)


def dispatch_comparison(rule: Rule, value: Value) -> Callable[..., Handle]:
    def create(self: Base, x: Handle, y: Handle) -> Handle:
        v = value(x.v, y.v)
        taint = taint_of(x, y)
        if x.is_point and y.is_point:
            return Handle(v, tl.int1, x.shape, taint=taint)
        if same_value(x, y):  # `x != x` asks whether it is NaN
            equal, unordered = (bool(value(at, at)) for at in (np.float64(0), np.float64(np.nan)))
            open_ = np.isnan(x.pair[0] + x.pair[1] + x.v) & (equal != unordered)
            return bool_handle(v, equal & ~open_, equal | open_, x.shape, taint)
        fmt = float_format(x.dtype)
        surely, possibly = rule.apply((x.pair, y.pair), fmt, self.ctx.profile)  # type: ignore[misc]
        if (same := sentinels.alike(self.ctx, x, y)) is not None:
            surely, possibly = (np.where(same, v, truth) for truth in (surely, possibly))
        return bool_handle(v, surely, possibly, x.shape, taint)

    create.__name__ = f"create_{rule.op}"
    create.__doc__ = rule.doc
    return lost.lanewise(create)


CANNOT_HOLD = "a float may become an integer that cannot hold it"


def opened_by(
    b: Base, ty: Any, x: Handle, v: np.ndarray, between: tuple[np.ndarray, np.ndarray] | None,
    held: np.dtype | None = None,
) -> Handle:  # fmt: skip
    """`v`, which the float `x` between these float64 ends (None: a point) became when cut to an integer type.

    `held` is the dtype that the conversion saturates to, if it is another one than that of `v`.
    """
    if between is None:
        out = Handle(v, ty.scalar, x.shape, taint=x.taint)
        if v.dtype == np.bool_ or (inside := casting.float_to_int_decided(x.v, x.v, held or v.dtype)).all():
            return out
        return lost.mark(out, ~inside, b.ctx.taint("RND302", "conversion", CANNOT_HOLD))
    decided = bool(casting.float_to_int_decided(*between, held or v.dtype).all())
    if decided and not METER.get().muted:
        return Handle(v, ty.scalar, x.shape, taint=x.taint)
    why = b.ctx.taint("RND302", "to(int)", "the bounds leave open which integer a float becomes")
    if ty.scalar.is_int1():
        return Handle(v, ty.scalar, x.shape, taint=x.taint if decided else x.taint | why)
    lo, hi = np.broadcast_arrays(*(np.trunc(end) for end in between))
    inside = opened.held(held or v.dtype, lo, hi)
    if decided and not inside.all():
        return Handle(v, ty.scalar, x.shape, taint=x.taint)
    ends = [np.where(inside, end, 0.0).astype(v.dtype) for end in (lo, hi)]
    low, high = (np.where(inside, end, v) for end in ends)
    out = opened.integer(v, ty.scalar, x.shape, (low, high), x.taint, why)
    if inside.all():
        return out
    return lost.mark(out, ~inside, b.ctx.taint("RND302", "conversion", CANNOT_HOLD))


class Arithmetic(Base):
    """One method per entry of the rule table that has a value function; filled below."""


for _op, _value in ARITHMETIC.items():
    _method = dispatch_comparison if _op in COMPARISONS else dispatch
    setattr(Arithmetic, f"create_{_op}", _method(RULES[_op], _value))


class Floats(Arithmetic):
    def create_fmul(self, x: Handle, y: Handle) -> Handle:
        if not self.ctx.interval or not same_value(x, y):
            found: Handle = super().create_fmul(x, y)  # type: ignore[misc]
            return found
        fmt = float_format(x.dtype)
        lo, hi = arithmetic.square(x.pair, fmt, self.ctx.model("arith"))
        out = Handle(in_format(x.v * x.v, fmt), x.dtype, x.shape, lo, hi, x.taint)
        related.raised(x, out, 2)
        return out

    def create_clampf(self, x: Handle, low: Handle, high: Handle, propagate_nan: Any = None) -> Handle:
        spread = "ALL" in str(propagate_nan)
        most, least = ("create_maximumf", "create_minimumf") if spread else ("create_maxnumf", "create_minnumf")
        found: Handle = getattr(self, least)(getattr(self, most)(x, low), high)
        return found

    # casts
    @lost.lanewise
    def _cast(self, x: Handle, ty: Any, mode: Literal["rtne", "rtz"]) -> Handle:
        src, dst = float_format(x.dtype), float_format(ty)
        if src == dst:
            return x
        profile = self.ctx.profile
        self._check_cast(x, src, dst, mode)
        overflow = profile.cast_overflow.get(dst.name, "inf" if dst.has_inf else "saturate")
        older = profile.older_cast(src.name, dst.name) if mode == "rtne" else None
        if older is not None:
            overflow = older.overflow
        widening = dst.p >= src.p and dst.emin <= src.emin and dst.max >= src.max
        if widening:
            v = x.v.astype(carrier(ty), copy=False)
            out = Handle(v, ty.scalar, x.shape, x.lo, x.hi, x.taint)
            related.widened(x, out)
            return out
        v = casting.round_value(x.v, dst, mode, overflow)
        if not self.ctx.interval:
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        if x.is_point and x.v.size <= _FEW and np.array_equal(v, x.v):
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        lo, hi = casting.cast_interval(*x.pair, src, dst, self.ctx.model("cast"), mode)
        return Handle(v, ty.scalar, x.shape, lo, hi, x.taint)

    def _check_cast(self, x: Handle, src: Format, dst: Format, mode: str) -> None:
        """UnsupportedOp where the target does not compile this; zeros, the usual constants, fold away everywhere."""
        if self.ctx.interval and self.ctx.profile.refused_casts and (not x.is_point or x.v.any()):
            try:
                self.ctx.profile.check_cast(src.name, dst.name, mode)
            except MissingRule as missing:
                raise self.ctx.lacks(f"cast {src.name} to {dst.name}", missing) from None

    def create_fp_trunc(self, x: Handle, ty: Any) -> Handle:
        return self._cast(x, ty, "rtne")

    def create_fp_ext(self, x: Handle, ty: Any) -> Handle:
        return self._cast(x, ty, "rtne")

    def create_fp_to_fp(self, x: Handle, ty: Any, rounding: Any = None) -> Handle:
        return self._cast(x, ty, "rtz" if rounding is not None and "RTZ" in str(rounding) else "rtne")

    @lost.lanewise
    def create_si_to_fp(self, x: Handle, ty: Any) -> Handle:
        fmt = float_format(ty)
        if x.dtype.scalar.is_int1():
            return self._bool_to_float(x, ty)
        v = casting.int_to_float_value(x.v, fmt)
        if x.open is not None:
            low, high = (self._as_float(end, fmt) for end in opened.ends(x))
            return Handle(v, ty.scalar, x.shape, low[0], high[1], opened.hard(x))
        bounds = casting.int_to_float_interval(x.v, fmt, self.ctx.model("cast")) if self.ctx.interval else None
        lo, hi = bounds if bounds is not None else (None, None)
        return Handle(v, ty.scalar, x.shape, lo, hi, x.taint)

    def _as_float(self, x: np.ndarray, fmt: Format) -> tuple[np.ndarray, np.ndarray]:
        bounds = casting.int_to_float_interval(x, fmt, self.ctx.model("cast"))
        return (x.astype(np.float64),) * 2 if bounds is None else bounds

    create_ui_to_fp = create_si_to_fp

    def _bool_to_float(self, x: Handle, ty: Any) -> Handle:
        v = x.v.astype(carrier(ty))
        if x.lo is None:
            return Handle(v, ty.scalar, x.shape, taint=x.taint)
        lo, hi = truths(x)
        return Handle(v, ty.scalar, x.shape, lo.astype(np.float64), hi.astype(np.float64), x.taint)

    @lost.lanewise
    def create_fp_to_si(self, x: Handle, ty: Any) -> Handle:
        v = casting.float_to_int_value(x.v, carrier(ty))
        return opened_by(self, ty, x, v, x.pair if self.ctx.interval and not x.is_point else None)

    create_fp_to_ui = create_fp_to_si

    def create_bitcast(self, x: Handle, ty: Any) -> Handle:
        """Bits reinterpreted: exact for points; an interval has no single bit pattern, so the result is tainted."""
        from render.interpreter.builder.bits import bitcast

        src, dst = x.dtype.scalar, ty.scalar
        if src.is_ptr() or dst.is_ptr():
            return Handle(x.v, dst, x.shape, taint=x.taint, origin=x.origin)
        x = decided(self, x)
        taint, choices = x.taint, self.ctx.memory.choices
        if not x.is_point and choices is not None and dst.is_int():
            x = Handle(choices.of_lanes(self.ctx.site(), x.v, x.pair), x.dtype, x.shape)
        elif not x.is_point:
            taint = taint | self.ctx.taint("RND302", "bitcast", "the bits of a value that carries an interval")
        return Handle(bitcast(x.v, src, dst), dst, x.shape, taint=taint)
