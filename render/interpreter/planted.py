"""What mutants call (`render.interpreter.mutation`): each helper is one fault, bound to one launch.

In a session with bounds the faults are operations with bounds of their own, so a mutant can be judged as the kernel
that it is; in one with values only they change values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.formats.casting import cast_interval, round_value
from interval_ops.formats.model import FORMATS, Format
from render.interpreter.handle import Handle
from render.interpreter.types import format_of

TRIP, NARROW, LAST, TICK = "__render_trip__", "__render_narrow__", "__render_last__", "__render_tick__"
SCALE, ZERO = "__render_scale__", "__render_zero__"
_TYPES = {"fp16": tl.float16, "bf16": tl.bfloat16, "fp8e4nv": tl.float8e4nv}
TURNS = 1 << 14
"""A mutant whose `while` loops take more turns than this in one launch is taken for one that never ends."""


class StuckLoop(RuntimeError):
    """A `while` loop of a mutant did not come to its end in as many turns as it may take."""


class Helpers:
    """`uniform(ctx, values)` gives the one value that all programs share, or makes them run apart."""

    def __init__(self, ctx: Any, builder: Any, uniform: Callable[[Any, np.ndarray], Any]) -> None:
        self.ctx = ctx
        self.builder = builder
        self.uniform = uniform
        self.turns = 0

    def table(self) -> dict[str, Any]:
        return {TRIP: self.trips, NARROW: self.narrow, LAST: self.last, TICK: self.tick, SCALE: self.scale,
                ZERO: self.zero}  # fmt: skip

    def trips(self, turns: Any) -> Iterator[Any]:
        """All but the last turn."""
        waiting: list[Any] = []
        for turn in turns:
            yield from waiting
            waiting = [turn]

    def last(self) -> bool:
        x, y, z = self.ctx.grid
        return bool(self.uniform(self.ctx, self.ctx.linear == x * y * z - 1))

    def tick(self) -> None:
        self.turns += 1
        if self.turns > TURNS:
            raise StuckLoop("a loop of this mutant does not end")

    def narrow(self, value: Any, name: str) -> Any:
        """A float tensor cast to `name` and back; anything else, and what has no more bits than that, as it is."""
        target, ty = FORMATS[name], _TYPES[name]

        def rounded(x: Handle, fmt: Format) -> Handle | None:
            if fmt.p <= target.p:
                return None
            if format_of(ty) == target:
                found: Handle | None = self.builder.create_fp_ext(self.builder.create_fp_trunc(x, ty), x.dtype)
                return found
            # formats are lifted: a cast would keep the bits that this fault is about
            v = round_value(x.v, target, "rtne", "inf" if target.has_inf else "saturate")
            return Handle(v.astype(x.v.dtype, copy=False), x.dtype, x.shape, taint=x.taint)

        return _applied(value, rounded)

    def scale(self, value: Any, k: int) -> Any:
        """value * (1 + 2^-k), rounded to its type; integers as they are."""
        by = 1 + 2.0**-k
        if isinstance(value, float):
            return value * by

        def scaled(x: Handle, fmt: Format) -> Handle:
            with np.errstate(over="ignore", invalid="ignore"):
                v = round_value(x.v.astype(np.float64) * by, fmt, "rtne", "inf" if fmt.has_inf else "saturate")
                ends = _outward(*(end * by for end in x.pair))
            lo, hi = None, None
            if self.ctx.interval:
                lo, hi = cast_interval(*ends, FORMATS["fp64"], fmt, self.ctx.model("arith"))
            out = Handle(v.astype(x.v.dtype, copy=False), x.dtype, x.shape, lo, hi, taint=x.taint)
            factor = Handle(np.broadcast_to(np.float64(by), (1, *x.shape)), x.dtype, x.shape)
            self.builder.emit("constant", (), (factor,))
            self.builder.emit("fmul", (x, factor), (out,))
            return out

        return _applied(value, scaled)

    def zero(self, value: Any) -> Any:
        """Zeros of the same type and shape."""
        if isinstance(value, int | float):
            return 0 * value

        def nothing(x: Handle, fmt: Format) -> Handle:
            out = Handle(np.zeros_like(x.v), x.dtype, x.shape)
            self.builder.emit("constant", (), (out,))
            return out

        return _applied(value, nothing)


def _applied(value: Any, change: Callable[[Handle, Format], Handle | None]) -> Any:
    """A float tensor with its handle changed; anything else, and what `change` leaves alone, as it is."""
    handle = getattr(value, "handle", None)
    if not isinstance(handle, Handle) or (fmt := format_of(handle.dtype)) is None:
        return value
    changed = change(handle, fmt)
    return value if changed is None else type(value)(changed, value.type)


def _outward(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounding of one float64 product."""
    return np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf)
