"""One stream of events: (operation, operands, results) of everything that a kernel does, in the order of execution.

A builder with listeners tells them about every operation: methods of the builder, loads, stores, atomics, reductions,
scans, sorts, movements, vendor functions and mapped functions. Results are those of the ordinary builder, bit for bit,
and the ordinary builder tells nobody: a run without listeners pays nothing. Where an operation is made of others, these
are told first, and the first report about a result says how it was made.

Names are those of the builder's methods without `create_`; `library NAME` for a vendor function, `inside` for the mask
of a block pointer or descriptor, `branch` for a value that Python asks for. A place in the user's source is
`context.site()` at the time of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.bounds import Pair, is_point
from render.interpreter.builder import Builder
from render.interpreter.context import Context
from render.interpreter.handle import Handle
from render.interpreter.types import format_name
from render.ops.rule import Shape
from render.ops.table import RULES

Attributes = dict[str, Any] | Callable[[], dict[str, Any]] | None
"""What else than its operands decides a result; a function that gives it is called only where it is wanted."""

GIVEN = frozenset(["argument", "constant"])
"""Events that no operation of the kernel makes."""


class Listener:
    """Told about every operation of a session's launches; handles must be left as they are."""

    context: Context
    first_alone = False
    """Whether the first program of each launch is to run by itself."""

    def launched(self, ctx: Context) -> None:
        """A kernel is about to run."""
        self.context = ctx

    def order(self, usual: np.ndarray) -> np.ndarray:
        """The programs of the launch in the order in which they are to run; programs may be left out."""
        return usual

    def begin_pass(self, linear: np.ndarray) -> None:
        """The kernel's body is about to run for these programs; what an undone pass did never happened."""

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Attributes = None) -> None:
        """One operation has run. `args` as the builder got them: handles, and what is none.

        load: (pointers, mask, other); store: (pointers, value, mask); atomic: (pointers, value, compared, mask) with
        its `kind`, the result is what it returns; branch: the value that Python asks for, of a condition or a count.
        """

    def before_atomic(self, ptr: Handle, value: Handle | None, mask: Handle | None) -> None:
        """An atomic is about to change memory."""

    def mark(self) -> Any:
        """A point of the pass to come back to."""

    def undo_to(self, mark: Any) -> None:
        """What happened since then is undone."""

    def ended(self) -> None:
        """The launch is over and its atomic sums are closed; the host goes on after this."""


class ListenedBuilder(Builder):
    """`Session(builder=listened(...))`."""

    def __init__(self, ctx: Context, listeners: Sequence[Listener]) -> None:
        super().__init__(ctx)
        self.listeners = listeners
        self.emit = listeners[0].event if len(listeners) == 1 else self._emit_to_all
        for listener in listeners:
            listener.launched(ctx)

    def _emit_to_all(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Attributes = None) -> None:
        for listener in self.listeners:
            listener.event(op, args, outs, attrs)

    @property
    def first_alone(self) -> bool:
        return any(listener.first_alone for listener in self.listeners)

    def order(self, programs: int) -> np.ndarray:
        found = super().order(programs)
        for listener in self.listeners:
            found = listener.order(found)
        return found

    def begin_pass(self, linear: np.ndarray) -> None:
        for listener in self.listeners:
            listener.begin_pass(linear)

    def given(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            for handle in _handles(value):
                self.emit("argument", (), (handle,), {"name": name})

    def ended(self) -> None:
        for listener in self.listeners:
            listener.ended()

    def mark(self) -> Any:
        return [listener.mark() for listener in self.listeners]

    def undo_to(self, mark: Any) -> None:
        for listener, place in zip(self.listeners, mark, strict=True):
            listener.undo_to(place)

    def float_constant(self, value: float, ty: Any) -> Handle:
        out = super().float_constant(value, ty)
        self.emit("constant", (), (out,))
        return out

    def _atomic(self, kind: str, ptr: Handle, value: Handle | None, cmp: Handle | None, mask: Handle | None) -> Handle:
        for listener in self.listeners:
            listener.before_atomic(ptr, value, mask)
        out = super()._atomic(kind, ptr, value, cmp, mask)
        self.emit("atomic", (ptr, value, cmp, mask), (out,), {"kind": kind})
        return out

    # a scaled dot is told as what its unit does: scaled numbers, then a dot of these
    def create_dot_scaled(self, *args: Any) -> Handle:
        self._factors: list[Handle] = []
        out = super().create_dot_scaled(*args)
        attrs = {"kind": "" if out.pend is None else out.pend.kind, "fmt": format_name(out.dtype), "imprecise": None}
        self.emit("dot", (*self._factors, args[-1]), (out,), attrs)
        return out

    def _numbers(
        self, h: Handle, scale: Handle | None, name: str, kind: str, axis: int, pack_axis: int
    ) -> tuple[np.ndarray, Pair]:
        values, pair = super()._numbers(h, scale, name, kind, axis, pack_axis)
        lo, hi = (None, None) if is_point(pair) else pair
        factor = Handle(values, tl.float32, values.shape[1:], lo, hi)
        self._factors.append(factor)
        attrs = {"axes": (axis, pack_axis), "code": name if name == "e2m1" else None, **self._widened(scale, kind)}
        self.emit("scaled", [part for part in (h, scale) if part is not None], (factor,), attrs)
        return values, pair

    def _widened(self, scale: Handle | None, kind: str) -> dict[str, Any]:
        """Format of the scales, and the one that the target widens the products to (None: neither)."""
        if scale is None:
            return {"scale": None, "widen": None}
        native = kind.startswith("mx") and self._dot_profile(kind).dot(kind).truncate != "bf16"
        fmt = "e8m0" if scale.dtype.scalar.is_int() else format_name(scale.dtype)
        return {"scale": fmt, "widen": None if native else "fp16" if kind == "fp16" else "bf16"}


def listened(*listeners: Listener) -> Callable[[Context], ListenedBuilder]:
    """Builders that tell these listeners, one for each launch."""
    return lambda ctx: ListenedBuilder(ctx, listeners)


def _handles(value: Any) -> list[Handle]:
    if isinstance(value, tuple):
        return [h for part in value for h in _handles(part)]
    handle = getattr(value, "handle", None)
    return [handle] if isinstance(handle, Handle) else []


def _telling(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    short = name.removeprefix("create_")

    def create(self: ListenedBuilder, *args: Any, **kwargs: Any) -> Any:
        out = method(self, *args, **kwargs)
        outs = (out,) if isinstance(out, Handle) else tuple(out) if isinstance(out, tuple | list) else ()
        if outs and all([isinstance(o, Handle) for o in outs]):  # noqa: C419 (a list is faster)
            self.emit(short, (*args, *kwargs.values()) if kwargs else args, outs)
        return out

    create.__name__ = name
    return create


def _tells_itself(op: str) -> bool:
    """What moves through memory, and what is told as other operations."""
    rule = RULES.get(op)
    return op == "dot_scaled" or "descriptor" in op or (rule is not None and rule.shape is Shape.MEMORY)


for _name in dir(Builder):
    if _name.startswith("create_") and not _tells_itself(_name.removeprefix("create_")):
        setattr(ListenedBuilder, _name, _telling(_name, getattr(Builder, _name)))
