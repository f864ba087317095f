"""A builder that tells a listener about every operation it executes, with the place in the user's source.

Results are those of the ordinary builder, bit for bit. What an operation does inside itself is reported first, then
the operation as a whole: the last report about a result is the one to believe.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from render.interpreter.builder import Builder
from render.interpreter.context import Context
from render.interpreter.handle import Handle
from render.interpreter.reduce import Reductions

_ACCESS = ("load", "store", "atomic", "descriptor")


class Listener:
    """Called after each operation; the handles must be left alone. `first`: the program to run before all others."""

    first: int | None = None

    def launched(self, ctx: Context) -> None:
        """A kernel is about to run."""

    def op(self, ctx: Context, name: str, args: tuple[Any, ...], outs: list[Handle]) -> None:
        """One builder operation, named without `create_`."""

    def reduced(self, ctx: Context, name: str, axis: int, parts: list[Handle], outs: list[Handle]) -> None:
        """A reduction (the axis is removed) or a scan."""

    def loaded(self, ctx: Context, ptr: Handle, mask: Handle | None, other: Handle | None, out: Handle) -> None:
        """A load from memory, or what an atomic returned."""

    def stored(self, ctx: Context, ptr: Handle, value: Handle, mask: Handle | None, atomic: bool) -> None:
        """A store or an atomic update."""


class WatchedReductions(Reductions):
    def __init__(self, *args: Any, listener: Listener) -> None:
        super().__init__(*args)
        self.listener = listener

    def _reduce(self, parts: list[Handle], axis: int, fn: Any) -> list[Handle]:
        outs = super()._reduce(parts, axis, fn)
        self.listener.reduced(self.ctx, "reduce", axis, parts, outs)
        return outs

    def _native_scan(self, x: Handle, axis: int, kind: str, reverse: bool) -> Handle:
        out = super()._native_scan(x, axis, kind, reverse)
        self.listener.reduced(self.ctx, "reverse scan" if reverse else "scan", axis, [x], [out])
        return out

    def _generic_scan(self, parts: list[Handle], axis: int, fn: Any, reverse: bool) -> list[Handle]:
        outs = super()._generic_scan(parts, axis, fn, reverse)
        self.listener.reduced(self.ctx, "reverse scan" if reverse else "scan", axis, parts, outs)
        return outs


class WatchedBuilder(Builder):
    """`Session(builder=watched(listener))`."""

    def __init__(self, ctx: Context, listener: Listener) -> None:
        super().__init__(ctx)
        self.listener = listener
        self.reductions = partial(WatchedReductions, listener=listener)  # type: ignore[assignment]
        listener.launched(ctx)

    def order(self, programs: int) -> np.ndarray:
        usual = super().order(programs)
        first = self.listener.first
        if first is None or not 0 <= first < programs:
            return usual
        return np.concatenate([usual[first : first + 1], usual[:first], usual[first + 1 :]])

    def _load(self, ptr: Handle, mask: Handle | None, other: Handle | None) -> Handle:
        out = super()._load(ptr, mask, other)
        self.listener.loaded(self.ctx, ptr, mask, other, out)
        return out

    def _store(self, ptr: Handle, value: Handle, mask: Handle | None) -> None:
        super()._store(ptr, value, mask)
        self.listener.stored(self.ctx, ptr, value, mask, False)

    def _atomic(self, kind: str, ptr: Handle, value: Handle | None, cmp: Handle | None, mask: Handle | None) -> Handle:
        out = super()._atomic(kind, ptr, value, cmp, mask)
        self.listener.loaded(self.ctx, ptr, mask, None, out)
        if value is not None:
            self.listener.stored(self.ctx, ptr, value, mask, True)
        return out


def watched(listener: Listener) -> Callable[[Context], WatchedBuilder]:
    return lambda ctx: WatchedBuilder(ctx, listener)


def _reporting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    short = name.removeprefix("create_")

    def create(self: WatchedBuilder, *args: Any, **kwargs: Any) -> Any:
        out = method(self, *args, **kwargs)
        outs = [out] if isinstance(out, Handle) else list(out) if isinstance(out, tuple | list) else []
        if outs and all(isinstance(o, Handle) for o in outs):
            self.listener.op(self.ctx, short, (*args, *kwargs.values()), outs)
        return out

    create.__name__ = name
    return create


for _name in dir(Builder):
    if _name.startswith("create_") and not any(word in _name for word in _ACCESS):
        setattr(WatchedBuilder, _name, _reporting(_name, getattr(Builder, _name)))
