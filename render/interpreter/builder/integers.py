"""Integer, pointer and boolean operations: exact, run natively; taints travel with them.

int1 values may be undecided (their bounds differ) because a comparison of intervals was; logic on them is
three-valued. Other integers that rounding leaves open carry both ends (`open_integers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.arithmetic import selection
from interval_ops.bounds import is_point
from render.interpreter import open_integers as opened
from render.interpreter.builder import lost, words
from render.interpreter.builder.base import Base
from render.interpreter.handle import METER, Handle, taint_of
from render.interpreter.types import carrier


def truths(h: Handle) -> tuple[np.ndarray, np.ndarray]:
    """(definitely, possibly) true lanes of an int1 handle."""
    return (h.v, h.v) if h.lo is None else (h.lo, h.hi)  # type: ignore[return-value]


def bool_handle(v: np.ndarray, lo: np.ndarray, hi: np.ndarray, shape: tuple[int, ...], taint: frozenset[int]) -> Handle:
    """Truth values with what the bounds say of them. Where roundings are silent, bounds may decide against the value,
    which was rounded: then they are right."""
    if METER.get().muted:
        v = (v | lo) & hi
    if is_point((lo, hi)) or not (lo != hi).any():
        # Where every rounding is silent the value lane still rounds, and would decide ties of its own.
        return Handle(np.broadcast_to(lo, v.shape), tl.int1, shape, taint=taint)
    return Handle(v, tl.int1, shape, lo, hi, taint)


def _logic(op: str, x: Handle, y: Handle) -> Handle:
    ufunc = getattr(np, f"logical_{op}")
    v = ufunc(x.v, y.v)
    taint = taint_of(x, y)
    if x.lo is None and y.lo is None:
        return Handle(v, tl.int1, x.shape, taint=taint)
    (xl, xh), (yl, yh) = truths(x), truths(y)
    if op == "xor":
        open_ = (xl != xh) | (yl != yh)
        return bool_handle(v, v & ~open_, v | open_, x.shape, taint)
    return bool_handle(v, ufunc(xl, yl), ufunc(xh, yh), x.shape, taint)


def _bitwise(name: str) -> Callable[[Base, Handle, Handle], Handle]:
    ufunc = getattr(np, f"bitwise_{name}")

    def create(self: Base, x: Handle, y: Handle) -> Handle:
        if x.dtype.scalar.is_int1():
            return _logic(name, x, y)
        if x.dtype.scalar.is_floating():
            return _without_sign(self, name, x, y)
        if x.open is not None or y.open is not None:
            return opened.lifted(ufunc, x.dtype, (x, y))
        return Handle(ufunc(x.v, y.v), x.dtype, x.shape, taint=taint_of(x, y))

    return lost.lanewise(create)


def _without_sign(self: Base, name: str, x: Handle, mask: Handle) -> Handle:
    """The language takes the magnitude of an fp8e4b15 by its bits; nothing else does that to a float."""
    if name != "and" or not (mask.v == (1 << (x.dtype.scalar.primitive_bitwidth - 1)) - 1).all():
        self.unsupported(f"create_{name}", "the bits of a float are changed")
    return self.create_fabs(x)  # type: ignore[no-any-return, attr-defined]


def _integer(
    op: words.Instruction, monotone: bool = False, truth: str = "", nothing: words.Instruction | None = None,
    read: words.Read = words.as_typed,
) -> Callable[[Base, Handle, Handle], Handle]:  # fmt: skip
    """`truth`: the logic that the instruction is on words of one bit. `nothing`: in which lanes it gives nothing.

    `monotone`: in each operand while nothing wraps around, both read by `read`.
    """

    def create(self: Base, x: Handle, y: Handle) -> Handle:
        if x.dtype.scalar.is_int1() and truth:
            return _logic(truth, x, y)
        if x.open is not None or y.open is not None:
            out = opened.lifted(op, x.dtype, (x, y), monotone and read(x.v) is x.v)
        else:
            v, want = op(x.v, y.v), carrier(x.dtype)
            taint = taint_of(decided(self, x), decided(self, y))
            out = Handle(v if v.dtype == want else v.astype(want), x.dtype, x.shape, taint=taint)
        return out if nothing is None else _without_value(self, out, x, y, nothing)

    return lost.lanewise(create)


def _without_value(self: Base, out: Handle, x: Handle, y: Handle, nothing: words.Instruction) -> Handle:
    """`out`, tainted in the lanes where the instruction gives nothing.

    Between two ends of an operand lie further divisors and amounts: the least and the greatest tell whether zero, or
    the width, is among them.
    """
    xs, (low, high) = opened.ends(x), opened.ends(y)
    lanes = nothing(xs[0], low)
    if y.open is not None or x.open is not None:
        lanes = lanes | nothing(xs[0], high) | (low <= 0) & (high >= 0) & nothing(xs[0], np.zeros_like(low))
        lanes = lanes | nothing(xs[1], low) | nothing(xs[1], high)
    if not lanes.any():
        return out
    divides = nothing is not words.nothing_shifted
    what = "an integer is divided by zero, or a quotient does not fit" if divides else "a shift by its width or more"
    why = self.ctx.taint("RND302", "div" if divides else "shift", what)
    return lost.mark(out, lanes, why)


def decided(self: Base, h: Handle) -> Handle:
    """`h` itself, tainted if it is a truth value that the bounds leave open."""
    if h.dtype.scalar.is_int1() and h.lo is not None:
        if (choices := self.ctx.memory.choices) is not None:
            return Handle(choices.of_lanes(self.ctx.site(), h.v, h.pair), h.dtype, h.shape, taint=h.taint)
        taint = self.ctx.taint("RND303", "bool", "a truth value that the bounds leave open is used as an integer")
        return Handle(h.v, h.dtype, h.shape, taint=h.taint | taint)
    return h


def _compare(
    ufunc: Callable[..., np.ndarray], name: str, read: words.Read = words.as_typed
) -> Callable[[Base, Handle, Handle], Handle]:
    """`read`: how the instruction reads the bits of its operands; ends are those of the operands' own type."""

    def create(self: Base, x: Handle, y: Handle) -> Handle:
        v = ufunc(read(x.v), read(y.v))
        if x.open is not None or y.open is not None:
            return bool_handle(
                v, *opened.compared(name, *(opened.read(h, read) for h in (x, y))), x.shape, opened.hard(x, y)
            )
        if x.lo is None and y.lo is None:
            return Handle(v, tl.int1, x.shape, taint=taint_of(x, y))
        (xl, xh), (yl, yh) = truths(x), truths(y)
        open_ = (xl != xh) | (yl != yh)
        return bool_handle(v, v & ~open_, v | open_, x.shape, taint_of(x, y))

    return lost.lanewise(create)


class Integers(Base):
    create_add = _integer(np.add, monotone=True, truth="xor")
    create_sub = _integer(np.subtract, monotone=True, truth="xor")
    create_mul = _integer(np.multiply, monotone=True, truth="and")
    create_shl = _integer(words.shift_left, nothing=words.nothing_shifted)
    create_ashr = _integer(words.shift_right_arithmetic, nothing=words.nothing_shifted)
    create_lshr = _integer(words.shift_right_logical, nothing=words.nothing_shifted)
    create_umulhi = _integer(words.high_product)
    create_minsi = _integer(words.reading(words.signed, np.minimum), True, "or", read=words.signed)
    create_maxsi = _integer(words.reading(words.signed, np.maximum), True, "and", read=words.signed)
    create_minui = _integer(words.reading(words.unsigned, np.minimum), True, "and", read=words.unsigned)
    create_maxui = _integer(words.reading(words.unsigned, np.maximum), True, "or", read=words.unsigned)
    create_and = _bitwise("and")
    create_or = _bitwise("or")
    create_xor = _bitwise("xor")
    create_sdiv = _integer(words.reading(words.signed, words.quotient), nothing=words.nothing_divided_signed)
    create_srem = _integer(words.reading(words.signed, words.remainder), nothing=words.nothing_divided_signed)
    create_udiv = _integer(words.reading(words.unsigned, words.quotient), nothing=words.nothing_divided)
    create_urem = _integer(words.reading(words.unsigned, words.remainder), nothing=words.nothing_divided)
    create_icmpSLT, create_icmpULT = _compare(np.less, "lt", words.signed), _compare(np.less, "lt", words.unsigned)
    create_icmpSLE = _compare(np.less_equal, "le", words.signed)
    create_icmpULE = _compare(np.less_equal, "le", words.unsigned)
    create_icmpSGT = _compare(np.greater, "gt", words.signed)
    create_icmpUGT = _compare(np.greater, "gt", words.unsigned)
    create_icmpSGE = _compare(np.greater_equal, "ge", words.signed)
    create_icmpUGE = _compare(np.greater_equal, "ge", words.unsigned)
    create_icmpEQ = _compare(np.equal, "eq")
    create_icmpNE = _compare(np.not_equal, "ne")

    def create_iabs(self, x: Handle) -> Handle:
        if x.open is not None:
            return opened.magnitude(x)
        return Handle(np.abs(x.v), x.dtype, x.shape, taint=x.taint)

    @lost.lanewise
    def create_int_cast(self, x: Handle, ty: Any, signed: bool = False) -> Handle:
        v = x.v.astype(carrier(ty))
        if x.open is not None:
            if ty.scalar.is_int1():
                zero = Handle(np.zeros((1,) * x.v.ndim, x.v.dtype), x.dtype, x.shape)
                return bool_handle(v, *opened.compared("ne", x, zero), x.shape, opened.hard(x))
            return opened.lifted(lambda a: a, ty, (x,), monotone=True)
        if x.dtype.scalar.is_int1() and x.lo is not None and not ty.scalar.is_int1():
            why = self.ctx.taint("RND303", "bool", "a truth value that the bounds leave open is used as an integer")
            lo, hi = (end.astype(v.dtype) for end in truths(x))
            return opened.integer(v, ty.scalar, x.shape, (lo, hi), x.taint, why)
        return Handle(v, ty.scalar, x.shape, taint=decided(self, x).taint)

    def create_get_program_id(self, axis: int) -> Handle:
        ids = self.ctx.pids[:, axis]
        same = (ids == ids[0]).all()
        return Handle(ids[:1].copy() if same else ids.copy(), tl.int32, ())

    def create_get_num_programs(self, axis: int) -> Handle:
        return Handle(np.array([self.ctx.grid[axis]], np.int32), tl.int32, ())

    def create_make_range(self, ty: Any, start: int, end: int) -> Handle:
        self.ctx.expect((end - start,))
        return Handle(np.arange(start, end, dtype=np.int32)[None], tl.int32, (end - start,))

    def create_ptr_to_int(self, x: Handle, ty: Any) -> Handle:
        return Handle(x.v.astype(carrier(ty)), ty.scalar, x.shape, taint=x.taint)

    def create_int_to_ptr(self, x: Handle, ty: Any) -> Handle:
        return Handle(x.v.astype(np.int64), ty.scalar, x.shape, taint=decided(self, x).taint)

    @lost.lanewise
    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        width = max(1, ptr.dtype.scalar.element_ty.primitive_bitwidth // 8)
        step = np.multiply(offset.v, width, dtype=np.int64)
        # The product is a temporary of this very operation: where it has the result's shape it becomes the result.
        fits = step.ndim == ptr.v.ndim and (
            ptr.v.size == 1 or all([n in (1, m) for n, m in zip(ptr.v.shape, step.shape, strict=True)])  # noqa: C419
        )
        moved = np.add(ptr.v, step, out=step if fits else None)
        if ptr.open is not None or offset.open is not None:
            return opened.moved(ptr, offset, width, moved)
        return Handle(moved, ptr.dtype, ptr.shape, taint=taint_of(ptr, offset), origin=ptr.origin)

    def create_select(self, cond: Handle, x: Handle, y: Handle) -> Handle:
        return lost.chosen(self._select(cond, x, y), cond, x, y, *truths(cond))

    def _select(self, cond: Handle, x: Handle, y: Handle) -> Handle:
        v = np.where(cond.v, x.v, y.v)
        taint = taint_of(cond, x, y)
        origin = x.origin if x.origin is y.origin else None
        open_ = cond.lo is not None
        if x.dtype.scalar.is_floating():
            return self._select_float(cond, x, y, v, taint)
        if x.dtype.scalar.is_int1() and (open_ or x.lo is not None or y.lo is not None):
            return self._select_bool(cond, x, y, v, taint)
        if not x.dtype.scalar.is_ptr() and (open_ or x.open is not None or y.open is not None):
            return self._select_integer(cond, x, y, v)
        if open_:
            taint = taint | self.ctx.taint("RND303", "where", "the bounds leave open which pointer is selected")
        return Handle(v, x.dtype, x.shape, taint=taint, origin=origin)

    def _select_integer(self, cond: Handle, x: Handle, y: Handle, v: np.ndarray) -> Handle:
        why = opened.soft(x, y)
        if cond.lo is not None:
            why = why | self.ctx.taint("RND303", "where", "the bounds leave open which integer is selected")
        which = truths(cond)
        hard, among = cond.taint | opened.hard(x, y), opened.selected_among(*which, x, y)
        return opened.integer(v, x.dtype, x.shape, opened.selected(*which, x, y), hard, why, among)

    def _select_float(self, cond: Handle, x: Handle, y: Handle, v: np.ndarray, taint: frozenset[int]) -> Handle:
        if not self.ctx.interval or (cond.lo is None and x.is_point and y.is_point):
            return Handle(v, x.dtype, x.shape, taint=taint)
        lo, hi = selection.select(*truths(cond), x.pair, y.pair)
        return Handle(v, x.dtype, x.shape, lo, hi, taint)

    def _select_bool(self, cond: Handle, x: Handle, y: Handle, v: np.ndarray, taint: frozenset[int]) -> Handle:
        (cl, ch), (xl, xh), (yl, yh) = truths(cond), truths(x), truths(y)
        lo = np.where(cl, xl, np.where(ch, xl & yl, yl))
        hi = np.where(cl, xh, np.where(ch, xh | yh, yh))
        return bool_handle(v, lo, hi, x.shape, taint)
