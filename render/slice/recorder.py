"""Runs chosen programs of chosen launches and writes down every operation, with its operands and source line.

Results are those of the ordinary builder, bit for bit. Launches before the last chosen one run whole, later ones not
at all. A part of the grid that is undone and run again is recorded again: of each program, only its last pass counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from render.interpreter.builder import Builder
from render.interpreter.builder.dots import dot_kind
from render.interpreter.context import NOWHERE, Context, Site
from render.interpreter.handle import Handle, Place
from render.interpreter.memory.reading import load_quietly
from render.interpreter.reduce import Reductions, combine_kind
from render.interpreter.types import elem_of, float_format, format_of
from render.interpreter.writers import Writers

_ELSEWHERE = ("load", "store", "atomic", "descriptor")


LANES = 60_000_000
"""Lanes of values that one recording keeps: about a gigabyte with their bounds."""


class Enough(BaseException):
    """Everything that was asked for is recorded; raised through the user's code, which must not catch it."""


@dataclass(eq=False)
class Entry:
    """One operation of one pass. Handles are kept, so that their identity names a value."""

    op: str
    site: Site
    args: tuple[Handle, ...]
    outs: tuple[Handle, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Pass:
    """One execution of the kernel's body for the programs `linear`; no programs: the arguments of the launch."""

    launch: int
    linear: np.ndarray
    entries: list[Entry] = field(default_factory=list)


class Recorder:
    """`programs`: launch number -> programs to record there. The others do not run, unless `run_all` says so."""

    def __init__(self, programs: Mapping[int, np.ndarray], run_all: bool = False) -> None:
        self.programs = dict(programs)
        self.run_all = run_all
        self.launch = -1
        self.passes: list[Pass] = []
        self.soft: set[int] = set()
        self.decided: dict[int, Handle] = {}
        self.context: Context | None = None
        self.lanes = 0
        self.writers: list[Writers] = []
        self._recording = False

    @property
    def full(self) -> bool:
        """Whether more was computed than a recording keeps."""
        return self.lanes > LANES

    @property
    def launch_of_last(self) -> int:
        """The last launch that is recorded."""
        return max(self.programs)

    @property
    def chosen(self) -> bool:
        """Whether something of the launch in progress is recorded."""
        return self.launch in self.programs

    @property
    def on(self) -> bool:
        """Whether what happens now is recorded."""
        return self._recording

    def launched(self, ctx: Context) -> None:
        self.launch += 1
        if self.launch > max(self.programs):
            raise Enough
        self.context = ctx
        self.writers.append(ctx.writers)
        self._recording = self.chosen
        if self.on:
            self.passes.append(Pass(self.launch, np.empty(0, np.int32)))

    def begin_pass(self, linear: np.ndarray) -> None:
        self._recording = self.chosen and bool(np.isin(linear, self.programs[self.launch]).any())
        if self.on:
            self.passes.append(Pass(self.launch, np.array(linear)))

    def add(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: dict[str, Any] | None = None) -> None:
        if not self.on:
            return
        fresh = tuple(o for o in outs if not any(o is a for a in args))
        if not fresh and outs:
            return
        assert self.context is not None
        handles = tuple(a for a in args if isinstance(a, Handle))
        self._follow(op, handles, fresh)
        if fresh and not any(self.kept(o) for o in fresh):
            return  # integers and addresses are taken by value
        self.lanes += sum(o.computed.size for o in fresh)
        if self.full:
            raise Enough
        site = self.context.site() if len(self.passes[-1].linear) else NOWHERE
        self.passes[-1].entries.append(Entry(op, site, handles, fresh, attrs or {}))

    def _follow(self, op: str, args: tuple[Handle, ...], outs: tuple[Handle, ...]) -> None:
        """Which truths and integers depend on floats that carry a bound."""
        ids = [id(a) for a in args]
        soft = any(i in self.soft for i in ids)
        bounded = any(a.dtype.scalar.is_floating() and not a.is_point for a in args if not a.dtype.scalar.is_ptr())
        for out in outs:
            scalar = out.dtype.scalar
            if scalar.is_ptr() or scalar.is_floating():
                continue
            if scalar.is_int1() and (bounded or soft):
                self.soft.add(id(out))
            elif bounded or soft or any(i in self.decided for i in ids):
                self.decided[id(out)] = out  # kept, so that no later handle gets its id

    def kept(self, out: Handle) -> bool:
        """Whether values of this handle are traced to what made them."""
        scalar = out.dtype.scalar
        return bool(scalar.is_floating()) or id(out) in self.soft

    def valid(self) -> list[Pass]:
        """The passes that count, oldest first: for every program the last one that ran it."""
        last: dict[tuple[int, int], Pass] = {}
        for p in self.passes:
            last.update({(p.launch, int(i)): p for i in p.linear})
        kept = {id(p) for p in last.values()}
        return [p for p in self.passes if id(p) in kept or not len(p.linear)]


class RecordingReductions(Reductions):
    def __init__(self, *args: Any, recorder: Recorder) -> None:
        super().__init__(*args)
        self.recorder = recorder

    def _native(self, x: Handle, axis: int, kind: str) -> Handle:
        out = super()._native(x, axis, kind)
        self.recorder.add("reduce", (x,), (out,), {"kind": kind, "axis": axis})
        return out

    def _native_scan(self, x: Handle, axis: int, kind: str, reverse: bool) -> Handle:
        out = super()._native_scan(x, axis, kind, reverse)
        self.recorder.add("scan", (x,), (out,), {"kind": kind, "axis": axis, "reverse": reverse})
        return out

    def _arg(self, x: Handle, index: Handle, axis: int, kind: str) -> list[Handle]:
        best, chosen = super()._arg(x, index, axis, kind)
        self.recorder.add(kind, (x,), (chosen,))
        return [best, chosen]

    def _slice(self, h: Handle, axis: int, part: Any) -> Handle:
        out = super()._slice(h, axis, part)
        self.recorder.add("slice", (h,), (out,), {"move": partial(_sliced, axis=axis, part=part)})
        return out

    def _concatenate(self, parts: list[Handle], axis: int, like: Handle) -> Handle:
        out = super()._concatenate(parts, axis, like)
        self.recorder.add("concatenate", parts, (out,), {"axis": axis})
        return out


def _sliced(a: np.ndarray, axis: int, part: Any) -> np.ndarray:
    return a[(slice(None),) * (axis + 1) + (part,)]


class RecordingBuilder(Builder):
    """`Session(builder=recording(recorder))`."""

    def __init__(self, ctx: Context, recorder: Recorder) -> None:
        super().__init__(ctx)
        self.recorder = recorder
        self.reductions = partial(RecordingReductions, recorder=recorder)  # type: ignore[assignment]
        recorder.launched(ctx)

    def order(self, programs: int) -> np.ndarray:
        usual = super().order(programs)
        if self.recorder.run_all or not self.recorder.chosen:
            return usual
        return usual[np.isin(usual, self.recorder.programs[self.recorder.launch])]

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
        self.recorder.add(f"library {name}", args, (out,), {"fmt": _format_name(args[0]) if args else ""})

    def float_constant(self, value: float, ty: Any) -> Handle:
        out = super().float_constant(value, ty)
        self.recorder.add("constant", (), (out,))
        return out

    def _load(self, ptr: Handle, mask: Handle | None, other: Handle | None) -> Handle:
        out = super()._load(ptr, mask, other)
        if self.recorder.on:
            self.recorder.add("load", () if other is None else (other,), (out,), self._access(ptr, mask))
        return out

    def _store(self, ptr: Handle, value: Handle, mask: Handle | None) -> None:
        locked = value.grown is not None and value.grown[0].same(Place(ptr, mask))
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
        if self.recorder.on:
            self.recorder.add("atomic", () if value is None else (value,), (), attrs)
            self.recorder.add("returned", (), (out,), {"kind": kind})
        return out

    def _access(self, ptr: Handle, mask: Handle | None) -> dict[str, Any]:
        batch = self.ctx.programs
        at = np.broadcast_to(ptr.v, (batch, *ptr.shape))
        active = np.broadcast_to(True if mask is None else mask.full(mask.v), at.shape)
        return {"ptr": at, "active": active, "origin": ptr.origin}


def _handles(value: Any) -> list[Handle]:
    if isinstance(value, tuple):
        return [h for part in value for h in _handles(part)]
    handle = getattr(value, "handle", None)
    return [handle] if isinstance(handle, Handle) else []


def _format_name(h: Handle) -> str:
    fmt = None if h.dtype.scalar.is_ptr() else format_of(h.dtype)
    return "" if fmt is None else fmt.name


def recording(recorder: Recorder) -> Callable[[Context], RecordingBuilder]:
    return lambda ctx: RecordingBuilder(ctx, recorder)


def _attributes(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Handle) -> dict[str, Any]:
    """What else than its operands decides the result of an operation."""
    handles = [a for a in args if isinstance(a, Handle)]
    given = (*args, *kwargs.values())
    if op in ("fp_trunc", "fp_ext", "fp_to_fp"):
        rtz = any("RTZ" in str(g) for g in given[2:])
        return {"src": _format_name(handles[0]), "dst": _format_name(out), "mode": "rtz" if rtz else "rtne"}
    if op in ("si_to_fp", "ui_to_fp"):
        return {"dst": _format_name(out)}
    if op == "dot":
        precision, imprecise = (*given[3:], None)[:2]
        if out.dtype.scalar.is_int():
            return {}
        kind = dot_kind(format_of(handles[0].dtype), out.dtype.scalar, precision)
        return {"kind": kind, "fmt": _format_name(out), "operand": _format_name(handles[0]), "imprecise": imprecise}
    if op == "fadd" and out.pend is not None:
        return {"fold": _folded(handles, out), "kind": out.pend.kind, "fmt": float_format(out.dtype).name}
    if op in ("expand_dims", "broadcast", "splat", "unsplat", "reshape", "trans", "join", "split", "cat", "gather"):
        return {"given": args}
    return {"fmt": _format_name(handles[0])} if handles else {}


def _folded(handles: list[Handle], out: Handle) -> int:
    """Which operand of the addition is the dot that takes the other one as its accumulator."""
    for i, (c, dot) in ((1, handles), (0, handles[::-1])):
        if dot.pend is not None and dot.pend.fresh and dot.shape == c.shape:
            return i
    return 1


def _recording(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    short = name.removeprefix("create_")

    def create(self: RecordingBuilder, *args: Any, **kwargs: Any) -> Any:
        out = method(self, *args, **kwargs)
        if self.recorder.on:
            outs = [out] if isinstance(out, Handle) else list(out) if isinstance(out, tuple | list) else []
            if outs and all(isinstance(o, Handle) for o in outs):
                self.recorder.add(short, (*args, *kwargs.values()), outs, _attributes(short, args, kwargs, outs[0]))
        return out

    create.__name__ = name
    return create


for _name in dir(Builder):
    if _name.startswith("create_") and not any(word in _name for word in _ELSEWHERE):
        setattr(RecordingBuilder, _name, _recording(_name, getattr(Builder, _name)))

__all__ = ["Enough", "Entry", "Pass", "Recorder", "combine_kind", "recording"]
