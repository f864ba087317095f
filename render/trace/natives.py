"""Reductions, scans, sorts and mapped functions that record what the language does without the builder."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import triton.language as tl

from render.interpreter.combine import linear_recurrence, welford
from render.interpreter.control import Diverge
from render.interpreter.handle import Handle
from render.interpreter.mapping import Lanes, Mapping, scatter
from render.interpreter.ordering import ALTERNATING, DESCENDING, Ordering, compare_exchange
from render.interpreter.reduce import Reductions
from render.interpreter.statements import unwrap
from render.trace.attributes import format_name
from render.trace.recorder import Recorder


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

    def _welford(self, parts: list[Handle], axis: int, fn: Any) -> list[Handle] | None:
        out = super()._welford(parts, axis, fn)
        found = welford(fn)
        if out is not None and found is not None:
            ordered = [parts[k] for k in (found.mean, found.m2, found.weight)]
            for part, k in (("mean", found.mean), ("m2", found.m2), ("weight", found.weight)):
                attrs = {"part": part, "guarded": found.guarded, "axis": axis, "fmt": format_name(parts[k])}
                self.recorder.add("welford", ordered, (out[k],), attrs)
        return out

    def _linear(self, parts: list[Handle], out: list[Handle], axis: int, fn: Any, reverse: bool) -> bool:
        held = super()._linear(parts, out, axis, fn, reverse)
        found = linear_recurrence(fn)
        if held and found is not None:
            factor, addend = parts[found.factor], parts[found.addend]
            attrs = {"axis": axis, "reverse": reverse}
            self.recorder.add("scan", (factor,), (out[found.factor],), {"kind": "prod", **attrs})
            self.recorder.add("recurrence", (factor, addend), (out[found.addend],), attrs)
        return held


def _sliced(a: np.ndarray, axis: int, part: Any) -> np.ndarray:
    return a[(slice(None),) * (axis + 1) + (part,)]


class RecordingOrdering(Ordering):
    def __init__(self, *args: Any, recorder: Recorder) -> None:
        super().__init__(*args)
        self.recorder = recorder

    def flip(self, x: Any, dim: Any = None) -> Any:
        out = super().flip(x, dim)
        axis = -1 if unwrap(dim) is None else int(unwrap(dim))
        move = partial(np.flip, axis=axis % len(x.shape) + 1)
        self.recorder.add("flip", (x.handle,), (out.handle,), {"move": move})
        return out

    def _first(self, x: Any, k: Any, dim: Any, descending: Any) -> Any:
        out = super()._first(x, k, dim, descending)
        self._ranked(x.handle, out.handle, None, bool(unwrap(descending)))
        return out

    def bitonic_merge(self, x: Any, dim: Any = None, descending: Any = False) -> Any:
        """Round by round: each lane is the smaller or larger of two lanes of the round before."""
        if not self.recorder.on:
            return super().bitonic_merge(x, dim, descending)
        size = int(unwrap(x.shape[-1]))
        order = int(unwrap(descending))
        where = np.arange(size)
        stage = size.bit_length() - 1
        flip = (where >> stage & 1).astype(bool) if order == ALTERNATING else np.full(size, order == DESCENDING)
        if stage == 0:
            return super().bitonic_merge(x, dim, descending)
        for bit in reversed(range(stage)):
            out = self._apply(x, size, partial(compare_exchange, bit=bit, flip=flip))
            self._ranked(x.handle, out.handle, bit, flip)
            x = out
        return x

    def _ranked(self, x: Handle, out: Handle, bit: int | None, order: Any) -> None:
        """Every lane of `out` has a rank in ascending order among all lanes of its row, or (`bit`) among two."""
        size, n = out.shape[-1], x.shape[-1]
        where = np.arange(size)
        if bit is None:
            terms = np.broadcast_to(np.arange(n), (size, n))
            ranks = n - 1 - where if order else where
        else:
            terms = np.stack([where, where ^ (1 << bit)], axis=-1)
            ranks = ((where >> bit & 1).astype(bool) != order).astype(np.int64)
        rank = Handle(ranks[None].astype(np.int32), tl.int32, (size,))
        self.recorder.add("ranked", (x,), (out,), {"terms": terms, "rank": rank})


class RecordingMapping(Mapping):
    def __init__(self, *args: Any, recorder: Recorder) -> None:
        super().__init__(*args)
        self.recorder = recorder

    def _attempt(self, fn: Any, args: list[Any]) -> Any:
        entries = self.recorder.passes[-1].entries if self.recorder.on else []
        before = len(entries)
        try:
            return super()._attempt(fn, args)
        except Diverge:
            del entries[before:]  # undone
            raise

    def _flat(self, h: Handle, batch: int) -> Handle:
        out = super()._flat(h, batch)
        move = partial(_flattened, batch=batch, shape=h.shape)
        self.recorder.add("flat", (h,), (out,), {"move": move})
        return out

    def _pick(self, h: Handle, group: Lanes) -> Handle:
        out = super()._pick(h, group)
        self.recorder.add("pick", (h,), (out,), {"move": lambda a: a[group]})
        return out

    def _whole(self, parts: list[tuple[Lanes, Handle]], batch: int, shape: tuple[int, ...]) -> Handle:
        out = super()._whole(parts, batch, shape)
        groups = [group for group, _ in parts]

        def move(*arrays: np.ndarray) -> np.ndarray:
            return scatter(list(zip(groups, arrays, strict=True)), batch, shape, np.int64)

        self.recorder.add("whole", [h for _, h in parts], (out,), {"move": move})
        return out


def _flattened(a: np.ndarray, batch: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(a, (batch, *shape)).reshape(-1)
