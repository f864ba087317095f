"""tl.dot: values as the stock interpreter computes them, bounds as pending sums over the total K."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.dot import PendingDot
from interval_ops.formats import Format
from render.interpreter.builder.base import Base
from render.interpreter.builder.floats import Floats, in_format
from render.interpreter.handle import Handle, Pair, Pending, taint_of
from render.interpreter.types import carrier, format_of

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
        return "fp8_f16acc" if acc.is_fp16() else "fp8"
    return "fp16acc" if acc.is_fp16() else operand.name


def _dense(h: Handle, a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(h.full(a))


def _pair(h: Handle) -> Pair:
    lo, hi = h.pair
    if lo is hi:
        dense = _dense(h, lo)
        return dense, dense
    return _dense(h, lo), _dense(h, hi)


def _is_zero(h: Handle) -> bool:
    return h.is_point and not h.v.any()


class Dots(Floats):
    def create_dot(self, a: Handle, b: Handle, acc: Handle, precision: Any, imprecise: int) -> Handle:
        out = acc.dtype.scalar
        if out.is_int():
            return self._integer_dot(a, b, acc)
        operand = format_of(a.dtype)
        if format_of(b.dtype) != operand and operand is not None and operand.bits != 8:
            self.unsupported("dot", "operands of two formats")
        x, y = _dense(a, a.v), _dense(b, b.v)
        v = in_format(np.matmul(x, y, dtype=carrier(out)) + acc.v, format_of(out))
        taint = taint_of(a, b, acc)
        if not self.ctx.interval:
            return Handle(v, out, acc.shape, taint=taint)
        kind = dot_kind(operand, out, precision)
        pa = (x, x) if a.is_point else _pair(a)
        pb = (y, y) if b.is_point else _pair(b)
        pend = self._pending(acc, kind, pa, pb)
        return Handle(v, out, acc.shape, taint=taint, pend=pend)

    def _pending(self, acc: Handle, kind: str, a: Pair, b: Pair) -> Pending:
        self._note_causes(kind)
        if acc.pend is not None and acc.pend.kind == kind:
            return Pending(acc.pend.dot.extend(a, b), kind, None)
        zero = _is_zero(acc)
        start = None if zero else tuple(acc.full(p) for p in acc.pair)
        dot = PendingDot.start(start, acc.shape, kind, self._dot_profile(kind))  # type: ignore[arg-type]
        return Pending(dot.extend(a, b), kind, (a, b) if zero else None)

    def _note_causes(self, kind: str) -> None:
        model = self.ctx.profile.dot(kind)
        if model.eps > 0:
            self.ctx.model("operand")
        low = model.acc in ("fp16", "bf16") or model.rho > 2.0**-22
        self.ctx.model("lowacc" if low else "accumulation")

    def _dot_profile(self, kind: str) -> Any:
        """The profile for a dot at this line, with each of its causes muted that the session mutes here."""
        profile = self.ctx.profile
        site = self.ctx.site()
        for cause in ("operand", "accumulation", "lowacc"):
            if (cause, site.file, site.line) in self.ctx.mute:
                profile = profile.mute(cause)
        return profile

    def _integer_dot(self, a: Handle, b: Handle, acc: Handle) -> Handle:
        x, y = _dense(a, a.v).astype(np.float64), _dense(b, b.v).astype(np.float64)
        total = np.matmul(x, y).astype(np.int64) + acc.v.astype(np.int64)
        v = total.astype(np.int32)
        taint = taint_of(a, b, acc)
        if (total != v).any():
            taint = taint | self.ctx.taint("RND302", "dot", "an int8 dot leaves int32: targets saturate or wrap")
        return Handle(v, tl.int32, acc.shape, taint=taint)

    def create_fadd(self, x: Handle, y: Handle) -> Handle:
        """`acc + dot(a, b)`: compilers fold it into the dot or not; the pending sums enclose both."""
        for acc, dot in ((x, y), (y, x)):
            if self.ctx.interval and dot.pend is not None and dot.pend.fresh is not None and dot.shape == acc.shape:
                return self._fold(acc, dot)
        return super().create_fadd(x, y)

    def _fold(self, acc: Handle, dot: Handle) -> Handle:
        fmt = format_of(dot.dtype)
        v = in_format(np.add(acc.v, dot.v), fmt)
        a, b = dot.pend.fresh  # type: ignore[union-attr, misc]
        kind = dot.pend.kind  # type: ignore[union-attr]
        pend = self._pending(acc, kind, a, b)
        zero = np.zeros((1,) * (1 + len(dot.shape)))
        separate = Pending(pend.dot.add((zero, zero), rounded=True), kind, None)
        return Handle(v, dot.dtype, dot.shape, taint=taint_of(acc, dot), pend=separate)
