"""The builder that records: results are those of the ordinary one, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl

from render.interpreter.builder import Builder
from render.interpreter.context import Context
from render.interpreter.handle import Handle, Pair, Place
from render.interpreter.memory.reading import load_quietly
from render.interpreter.types import elem_of
from render.trace.attributes import attributes, format_name
from render.trace.natives import RecordingMapping, RecordingOrdering, RecordingReductions
from render.trace.recorder import Recorder

_ELSEWHERE = ("load", "store", "atomic", "descriptor", "dot_scaled")


class RecordingBuilder(Builder):
    """`Session(builder=recording(recorder))`."""

    def __init__(self, ctx: Context, recorder: Recorder) -> None:
        super().__init__(ctx)
        self.recorder = recorder
        self.reductions = partial(RecordingReductions, recorder=recorder)  # type: ignore[assignment]
        self.ordering = partial(RecordingOrdering, recorder=recorder)  # type: ignore[assignment]
        self.mapping = partial(RecordingMapping, recorder=recorder)  # type: ignore[assignment]
        self._factors: list[Handle] = []
        recorder.launched(ctx)

    def order(self, programs: int) -> np.ndarray:
        usual = super().order(programs)
        if self.recorder.whole:
            return usual
        return usual[self.recorder.among(usual)]

    def begin_pass(self, linear: np.ndarray) -> None:
        self.recorder.begin_pass(linear)

    def given(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            for handle in _handles(value):
                self.recorder.add("argument", (), (handle,), {"name": name})

    def ended(self) -> None:
        """Reads what the launch's atomics left behind, before the host can change it."""
        if not self.recorder.chosen:
            return
        for entry in (e for p in self.recorder.passes if p.launch == self.recorder.launch for e in p.entries):
            if entry.op == "atomic" and "before" in entry.attrs:
                at, active, origin = (entry.attrs[k] for k in ("ptr", "active", "origin"))
                elem = elem_of(entry.args[0].dtype.scalar)
                entry.attrs["after"] = load_quietly(self.ctx.memory, at, active, elem, origin, entry.site)

    def called(self, name: str, args: Sequence[Handle], out: Handle) -> None:
        if not self.recorder.on:
            return
        named = "integer_power" if name == "pow" and args[1].dtype.scalar.is_int() else name
        attrs = {"fmt": next(filter(None, map(format_name, args)), ""), "dst": format_name(out)}
        self.recorder.add(f"library {named}", args, (out,), attrs)

    def made(self, op: str, args: Sequence[Handle], out: Handle) -> None:
        self.recorder.add(op, args, (out,), {"fmt": format_name(out)} if args else None)

    def create_dot_scaled(self, *args: Any) -> Handle:
        self._factors = []
        out = super().create_dot_scaled(*args)
        if self.recorder.on and out.pend is not None:
            attrs = {"kind": out.pend.kind, "fmt": format_name(out), "imprecise": None}
            self.recorder.add("dot", (*self._factors, args[-1]), (out,), attrs)
        return out

    def _numbers(
        self, h: Handle, scale: Handle | None, name: str, kind: str, axis: int, pack_axis: int
    ) -> tuple[np.ndarray, Pair]:
        values, pair = super()._numbers(h, scale, name, kind, axis, pack_axis)
        if self.recorder.on:
            out = self._factor(values, pair)
            self._factors.append(out)
            attrs = {"axes": (axis, pack_axis), "code": name if name == "e2m1" else None, **self._widened(scale, kind)}
            self.recorder.add("scaled", [part for part in (h, scale) if part is not None], (out,), attrs)
        return values, pair

    def _factor(self, values: np.ndarray, pair: Pair) -> Handle:
        """A handle for the numbers that the unit multiplies."""
        lo, hi = (None, None) if pair[0] is pair[1] else pair
        return Handle(values, tl.float32, values.shape[1:], lo, hi)

    def _widened(self, scale: Handle | None, kind: str) -> dict[str, Any]:
        """Format of the scales, and the one that the target widens the products to (None: neither)."""
        if scale is None:
            return {"scale": None, "widen": None}
        native = kind.startswith("mx") and self._dot_profile(kind).dot(kind).truncate != "bf16"
        fmt = "e8m0" if scale.dtype.scalar.is_int() else format_name(scale)
        return {"scale": fmt, "widen": None if native else "fp16" if kind == "fp16" else "bf16"}

    def float_constant(self, value: float, ty: Any) -> Handle:
        out = super().float_constant(value, ty)
        self.recorder.add("constant", (), (out,))
        return out

    def _load(self, ptr: Handle, mask: Handle | None, other: Handle | None) -> Handle:
        out = super()._load(ptr, mask, other)
        if not self.recorder.whole:
            self.recorder.read(self.ctx.site(), ptr.v, out.v)
        if self.recorder.on:
            self.recorder.add("load", () if other is None else (other,), (out,), self._access(ptr, mask))
        return out

    def _store(self, ptr: Handle, value: Handle, mask: Handle | None) -> None:
        locked = self.recorder.on and value.grown is not None and value.grown[0].same(Place(ptr, mask))
        super()._store(ptr, value, mask)
        if self.recorder.on and not locked:  # under a lock it is an atomic sum, which reports itself
            self.recorder.add("store", (value,), (), self._access(ptr, mask))

    def _atomic(self, kind: str, ptr: Handle, value: Handle | None, cmp: Handle | None, mask: Handle | None) -> Handle:
        attrs: dict[str, Any] = {}
        elem = elem_of(ptr.dtype.scalar.element_ty)
        if self.recorder.on:
            attrs = {**self._access(ptr, mask), "kind": kind}
            if elem.fmt is not None and value is not None:
                memory, whole = self.ctx.memory, attrs["ptr"]
                attrs["before"] = load_quietly(memory, whole, attrs["active"], elem, ptr.origin, self.ctx.site())
        out = super()._atomic(kind, ptr, value, cmp, mask)
        if not self.recorder.whole:
            self.recorder.read(self.ctx.site(), ptr.v, out.v)
        if self.recorder.on:
            self.recorder.add("atomic", () if value is None else (value,), (), attrs)
            self.recorder.add("returned", (), (out,), {"kind": kind})
        return out

    def _access(self, ptr: Handle, mask: Handle | None) -> dict[str, Any]:
        batch = self.ctx.programs
        at = np.broadcast_to(ptr.v, (batch, *ptr.shape))
        active = np.broadcast_to(True if mask is None else mask.full(mask.v), at.shape)
        name = None if ptr.origin is None else ptr.origin.name  # a later launch may call the same memory otherwise
        return {"ptr": at, "active": active, "origin": ptr.origin, "name": name}


def _handles(value: Any) -> list[Handle]:
    if isinstance(value, tuple):
        return [h for part in value for h in _handles(part)]
    handle = getattr(value, "handle", None)
    return [handle] if isinstance(handle, Handle) else []


def recording(recorder: Recorder) -> Callable[[Context], RecordingBuilder]:
    return lambda ctx: RecordingBuilder(ctx, recorder)


def _recording(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    short = name.removeprefix("create_")

    def create(self: RecordingBuilder, *args: Any, **kwargs: Any) -> Any:
        out = method(self, *args, **kwargs)
        if self.recorder.on:
            outs = (out,) if isinstance(out, Handle) else tuple(out) if isinstance(out, tuple | list) else ()
            if outs and all([isinstance(o, Handle) for o in outs]):  # noqa: C419 (a list is faster)
                self.recorder.add(
                    short,
                    (*args, *kwargs.values()) if kwargs else args,
                    outs,
                    lambda: attributes(short, args, kwargs, outs[0]),
                )
        return out

    create.__name__ = name
    return create


for _name in dir(Builder):
    if _name.startswith("create_") and not any(word in _name for word in _ELSEWHERE):
        setattr(RecordingBuilder, _name, _recording(_name, getattr(Builder, _name)))

__all__ = ["RecordingBuilder", "recording"]
