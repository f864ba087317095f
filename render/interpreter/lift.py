"""High-precision re-execution: the unedited kernel with every floating-point format one step wider.

Types stay what the kernel says (fp16 handles, fp16 pointers, byte strides); values are carried and rounded one format
wider: fp8 -> fp16, fp16 and bf16 -> fp32, fp32 and fp64 -> fp64. That holds for loads, literals, casts, accumulators
and stores alike. Memory keeps its layout, so a stored value does not fit its bytes: the bytes hold it rounded to their
own type, and the session's shadow memory, which otherwise holds bounds, holds the wide value as a point.

There are no bounds, and no device: operands are not cut to TF32, sums run in the order of the interpreter. Atomic sums
are added in float64 and not rounded in between; what an atomic returns is the value of the bytes. Trap: bits
(`bitcast`, integer atomics on floats) are those of the kernel's own type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from interval_ops.formats.casting import Mode, round_value
from interval_ops.formats.model import FORMATS, Format
from interval_ops.profiles.profile import CAUSES
from render.interpreter.builder import Builder
from render.interpreter.builder.bits import bitcast
from render.interpreter.context import Context
from render.interpreter.control import Diverge
from render.interpreter.handle import Handle, taint_of
from render.interpreter.lockstep import taking_part
from render.interpreter.memory.records import Request
from render.interpreter.session import Session
from render.interpreter.types import ElemType, carrier, elem_of, format_of, lifted_formats


def narrowed(v: np.ndarray, fmt: Format) -> np.ndarray:
    """The wide value as the bytes of its own type hold it; beyond the range it saturates where there is no infinity."""
    return round_value(v, fmt, "rtne", "inf" if fmt.has_inf else "saturate")


def _wide(v: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """The value beside the bytes `v`: `lo`, or the middle where atomics left the slack of float64 sums, else `v`."""
    with np.errstate(invalid="ignore", over="ignore"):
        value = np.where(hi <= np.nextafter(lo, np.inf), lo, lo + (hi - lo) / 2)
    return np.where(np.isnan(value), v, value)


class LiftedBuilder(Builder):
    """Arithmetic one format wider than the types; see `lifted_session`."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        ctx.interval = False  # of this launch: the memory still keeps a shadow, for the wide values

    def _cast(self, x: Handle, ty: Any, mode: Mode) -> Handle:
        # fp16 and bf16 are one format here, and still two types.
        if format_of(x.dtype) == format_of(ty):
            return Handle(x.v, ty.scalar, x.shape, taint=x.taint)
        return super()._cast(x, ty, mode)

    def create_bitcast(self, x: Handle, ty: Any) -> Handle:
        src, dst = x.dtype.scalar, ty.scalar
        if src.is_ptr() or dst.is_ptr() or not (src.is_floating() or dst.is_floating()):
            return super().create_bitcast(x, ty)
        own = narrowed(x.v, FORMATS[src.name]) if src.is_floating() else x.v
        return Handle(bitcast(own, src, dst).astype(carrier(dst), copy=False), dst, x.shape, taint=x.taint)

    def _load(self, ptr: Handle, mask: Handle | None, other: Handle | None) -> Handle:
        pointee = ptr.dtype.scalar.element_ty
        elem = elem_of(pointee)
        if elem.fmt is None:
            return super()._load(ptr, mask, other)
        ctx = self.ctx
        mask = taking_part(self, mask, ptr.shape)
        default = None if other is None else other.full(other.v)
        ends = None if default is None else (default.astype(np.float64),) * 2
        active = None if mask is None else mask.full(mask.v)
        request = Request(ptr.full(ptr.v), elem, ptr.origin, ctx.linear, ctx.site(), active)
        got = ctx.memory.load(request, None if default is None else narrowed(default, elem.fmt), ends)
        v = _wide(got.v, *got.pair).astype(carrier(pointee), copy=False)
        return Handle(v, pointee, ptr.shape, taint=got.taint | taint_of(ptr, mask, other))

    def _store(self, ptr: Handle, value: Handle, mask: Handle | None) -> None:
        elem = elem_of(ptr.dtype.scalar.element_ty)
        if elem.fmt is None:
            super()._store(ptr, value, mask)
            return
        ctx, mask = self.ctx, taking_part(self, mask, ptr.shape)
        v, wide = self._both(value.full(value.v), elem)
        # Memory drops a bound without width and reads the bytes instead, so the upper end is the next float64.
        active = None if mask is None else mask.full(mask.v)
        request = Request(ptr.full(ptr.v), elem, ptr.origin, ctx.linear, ctx.site(), active)
        taint = taint_of(ptr, value, mask) | ctx.control_taint
        ctx.memory.store(request, v, wide, np.nextafter(wide, np.inf), taint)

    def _atomic(self, kind: str, ptr: Handle, value: Handle | None, cmp: Handle | None, mask: Handle | None) -> Handle:
        pointee = ptr.dtype.scalar.element_ty
        elem = elem_of(pointee)
        if elem.fmt is None:
            return super()._atomic(kind, ptr, value, cmp, mask)
        ctx = self.ctx
        ctx.in_parts()
        if ctx.active is not None:
            raise Diverge(ctx.active)
        ctx.ordered, shape = True, (ctx.programs, *ptr.shape)

        def whole(a: np.ndarray | None) -> np.ndarray | None:
            return None if a is None else np.broadcast_to(a, shape)

        v, wide = (None, None) if value is None else self._both(value.v, elem)
        expected = None if cmp is None else narrowed(cmp.v, elem.fmt)
        active = whole(None if mask is None else mask.v)
        request = Request(np.broadcast_to(ptr.v, shape), elem, ptr.origin, ctx.linear, ctx.site(), active)
        taint = taint_of(ptr, value, cmp, mask) | ctx.control_taint
        got = ctx.memory.atomic(kind, request, whole(v), whole(wide), whole(wide), whole(expected), taint)
        return Handle(got.v.astype(carrier(pointee), copy=False), pointee, ptr.shape, taint=got.taint)

    @staticmethod
    def _both(v: np.ndarray, elem: ElemType) -> tuple[np.ndarray, np.ndarray]:
        """(value as its bytes hold it, the wide value in float64)."""
        assert elem.fmt is not None
        return narrowed(v, elem.fmt), v.astype(np.float64, copy=False)


@contextmanager
def lifted_session(device: str = "any") -> Iterator[Session]:
    """A session in which kernels run one format wider; `wide_values` reads its results."""
    with lifted_formats(), Session(device=device, mute=CAUSES, builder=LiftedBuilder) as session:
        yield session


def wide_values(session: Session, tensor: Any) -> np.ndarray:
    """float64 values of a tensor that kernels of a lifted session wrote (any other tensor: its own values)."""
    own = tensor.detach().double().numpy()
    found = session.envelope(tensor)
    return own if found is None else _wide(own, found.lo, found.hi)
