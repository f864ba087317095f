"""tl.dot: values as the stock interpreter computes them, inside bounds that are pending sums over the total K.

Where the unit of the target cannot return that value, closing the sum moves it to the nearest one that it can
(`interval_ops.dot.value`).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops import threads
from interval_ops.bounds import Pair, each
from interval_ops.dot.integer import dot_int
from interval_ops.dot.replay import chain_value
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import MissingRule
from render.interpreter import open_integers as opened
from render.interpreter.builder.floats import Floats
from render.interpreter.handle import METER, Handle, PendingSums, taint_of
from render.interpreter.types import carrier, float_format, format_of
from render.interpreter.values import in_format

PRECISIONS = {"TF32": "tf32", "TF32X3": "tf32x3", "IEEE": "ieee", "BF16X3": "bf16x3", "BF16X6": "bf16x6"}


def dot_kind(operand: Format | None, acc: Any, precision: Any) -> str:
    """Key of the profile's dot model for these operands, accumulator and `input_precision`."""
    if operand is None:
        return "int8"
    if operand.name == "fp64":
        return "fp64"
    if operand.name == "fp32":
        return PRECISIONS[str(precision).rsplit(".", 1)[-1].upper()]
    if operand.bits == 8:
        return "fp8_fp16acc" if acc.is_fp16() else operand.name
    return "fp16acc" if acc.is_fp16() else operand.name


def _dense(h: Handle, a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(h.full(a))


def _pair(h: Handle) -> Pair:
    return each(h.pair, lambda end: _dense(h, end))


def _equal_lines(h: Handle, axis: int) -> Handle:
    """The operand with one row (axis -2) or column (-1) in place of equal ones: so has the result, to be broadcast."""
    arrays = (h.v,) if h.is_point else (h.v, *h.pair)
    if h.shape[axis] == 1 or any(a.shape[axis] != 1 for a in arrays):
        return h
    shape = list(h.shape)
    shape[axis] = 1
    lo, hi = arrays[1:] or (None, None)
    return Handle(h.v, h.dtype, tuple(shape), lo, hi, h.taint)


def _products(x: np.ndarray, y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """x @ y, slice by slice."""
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    parts = threads.ranges(shape[0], x.shape[-1] * prod(shape[1:]) // 8)
    if len(parts) == 1 or x.ndim != y.ndim or x.ndim < 3:
        whole: np.ndarray = np.matmul(x, y, dtype=dtype)
        return whole
    found = np.empty(shape, dtype)

    def run(start: int, stop: int) -> None:
        left, right = (a[start:stop] if len(a) > 1 else a for a in (x, y))
        np.matmul(left, right, dtype=dtype, out=found[start:stop])

    threads.each(run, parts)
    return found


def _is_zero(h: Handle) -> bool:
    """A constant zero, as the compiler sees one: not data that happens to be zero in this chunk."""
    return h.is_point and h.v.size == 1 and not h.v.any()


class Dots(Floats):
    def create_dot(self, a: Handle, b: Handle, acc: Handle, precision: Any, imprecise: int | None) -> Handle:
        self.ctx.unordered.exchanged()
        out = acc.dtype.scalar
        if out.is_int():
            return self._integer_dot(a, b, acc)
        operand = format_of(a.dtype)
        if format_of(b.dtype) != operand and operand is not None and operand.bits != 8:
            self.unsupported("dot", "operands of two formats")
        if not self.ctx.profile.known_order:
            a, b = _equal_lines(a, -2), _equal_lines(b, -1)
        x, y = _dense(a, a.v), _dense(b, b.v)
        v = self._value(x, y, acc, dot_kind(operand, out, precision))
        METER.get().work += v.size * x.shape[-1] // 8
        taint = taint_of(a, b, acc)
        if not self.ctx.interval:
            return Handle(v, out, acc.shape, taint=taint)
        kind = dot_kind(operand, out, precision)
        pa = (x, x) if a.is_point else _pair(a)
        pb = (y, y) if b.is_point else _pair(b)
        pend = self._pending(acc, kind, pa, pb, imprecise)
        return Handle(v, out, acc.shape, taint=taint, pend=pend)

    def _value(self, x: np.ndarray, y: np.ndarray, acc: Handle, kind: str) -> np.ndarray:
        """acc + x @ y in the carrier; in the order of the lowering where bounds hold for that order only."""
        out, model = acc.dtype.scalar, self.ctx.profile.dots.get(kind)
        if self.ctx.profile.known_order and model is not None and model.sequential and out.is_fp32():
            return chain_value(x, y, acc.full(acc.computed))
        return in_format(_products(x, y, carrier(out)) + acc.computed, float_format(out))

    def _pending(self, acc: Handle, kind: str, a: Pair, b: Pair, imprecise: int | None) -> PendingSums:
        try:
            self._note_causes(kind)
        except MissingRule as missing:
            raise self.ctx.lacks("tl.dot", missing) from None
        if acc.pend is not None and acc.pend.kind == kind:
            return PendingSums(acc.pend.dot.extend(a, b, imprecise=imprecise), kind, False)
        zero = _is_zero(acc)
        start = None if zero else (acc.full(acc.pair[0]), acc.full(acc.pair[1]))
        if start is not None and acc.is_point:
            start = (start[0], start[0])
        dot = PendingDot.start(start, acc.shape, kind, self._dot_profile(kind))
        return PendingSums(dot.extend(a, b, imprecise=imprecise), kind, zero)

    def _note_causes(self, kind: str) -> None:
        model = self.ctx.profile.dot(kind)
        if model.eps or model.truncate or model.floor:
            self.ctx.model("operand")
        self.ctx.model(model.cause)

    def _dot_profile(self, kind: str) -> Any:
        """The profile for a dot at this line, with each of its causes muted that the session mutes here."""
        profile = self.ctx.profile
        site = self.ctx.site()
        for cause in ("operand", "accumulation", "lowacc"):
            if (cause, site.file, site.line) in self.ctx.mute:
                profile = profile.mute(cause)
        return profile

    def _integer_dot(self, a: Handle, b: Handle, acc: Handle) -> Handle:
        v, doubtful = dot_int(_dense(a, a.v), _dense(b, b.v), acc.full(acc.v), self.ctx.profile)
        handles = (a, b, acc)
        if doubtful:
            why = self.ctx.taint("RND302", "dot", "an int8 dot leaves int32: targets saturate or wrap")
            return Handle(v, tl.int32, acc.shape, taint=taint_of(*handles) | why)
        if all(h.open is None for h in handles):
            return Handle(v, tl.int32, acc.shape, taint=taint_of(*handles))
        between = opened.dot(*([_dense(h, end) for end in opened.ends(h)] for h in handles))
        if between is None:
            return Handle(v, tl.int32, acc.shape, taint=taint_of(*handles))
        return opened.integer(v, tl.int32, acc.shape, between, opened.hard(*handles), opened.soft(*handles))

    def create_fadd(self, x: Handle, y: Handle) -> Handle:
        """`c + dot(a, b)`: compilers make the dot accumulate into c, or add afterwards; both are enclosed."""
        for c, dot in ((x, y), (y, x)):
            if dot.pend is not None and dot.pend.fresh and dot.shape == c.shape:
                return self._fold(c, dot)
        out: Handle = super().create_fadd(x, y)  # type: ignore[misc]
        if self.ctx.locks:
            for loaded, other in ((x, y), (y, x)):
                if loaded.place is not None and loaded.shape == out.shape:
                    out.grown = (loaded.place, other)
        return out

    def _fold(self, c: Handle, dot: Handle) -> Handle:
        v = in_format(np.add(c.computed, dot.computed), float_format(dot.dtype))
        assert dot.pend is not None
        kind, sums = dot.pend.kind, dot.pend.dot
        if c.pend is not None and c.pend.kind == kind:
            joined = c.pend.dot.join(sums, rounded=True)
        elif _is_zero(c):
            return Handle(v, dot.dtype, dot.shape, taint=taint_of(c, dot), pend=dot.pend)
        else:
            low = c.full(c.pair[0])
            joined = sums.add((low, low if c.is_point else c.full(c.pair[1])), rounded=True)
        return Handle(v, dot.dtype, dot.shape, taint=taint_of(c, dot), pend=PendingSums(joined, kind, False))
