"""The walk back over what a recorder wrote down: which lanes of which results lie behind some values.

From the last operation to the first, the lanes that are needed spread from a result to the lanes of the operands that
it is made of (`links`). Slices and provenance are this one walk: slices follow floats and what depends on their bounds,
and stop at an operation without a formula (`cut`); provenance follows every value, whatever made it (`dependence`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from render.interpreter.handle import Handle
from render.trace.links import step_of
from render.trace.model import ABSENT
from render.trace.moves import lanes_of
from render.trace.recorder import Pass, Recorded, Recorder
from render.trace.step import Step


class Walk:
    """One walk over a recording: say what is needed (`need`), then go `back`."""

    through_memory = False
    """Whether every load is followed to what the recorded programs stored there, not only one with a bound."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.entries = [e for p in recorder.valid() for e in p.entries]
        self.place = {id(e): k for k, e in enumerate(self.entries)}
        self.maker: dict[int, tuple[Recorded, int]] = {}
        for entry in self.entries:
            for k, out in enumerate(entry.outs):
                self.maker.setdefault(id(out), (entry, k))
        self.stores = [e for e in self.entries if e.op in ("store", "atomic")]
        self.needed: dict[int, np.ndarray] = {}
        self.handles: dict[int, Handle] = {}
        self.notes: dict[str, int] = {}
        self._spans: dict[int, tuple[int, int]] = {}

    @cached_property
    def owners(self) -> dict[int, Pass]:
        """The pass of every operation, by identity."""
        return {id(e): p for p in self.recorder.passes for e in p.entries}

    @cached_property
    def stored(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of every store and atomic: its place among the operations, and its span."""
        rows = [(self.place[id(e)], *self.span(e)) for e in self.stores]
        place, first, last = np.array(rows, np.int64).reshape(-1, 3).T
        return place, first, last

    def span(self, access: Recorded) -> tuple[int, int]:
        """The first and the last address of a load or store, masked-off lanes included."""
        if id(access) not in self._spans:
            ptr = access.attrs["ptr"]
            self._spans[id(access)] = (int(ptr.min()), int(ptr.max())) if ptr.size else (0, -1)
        return self._spans[id(access)]

    def note(self, text: str) -> None:
        self.notes[text] = self.notes.get(text, 0) + 1

    def follows(self, h: Handle) -> bool:
        """Whether values of this handle are traced to what made them; others are exact and taken as they are."""
        return self.recorder.kept(h)

    def step(self, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
        """What the operation reads for these lanes of its result number `out`."""
        return step_of(self, entry, out, wanted)

    def need(self, h: Handle, lanes: np.ndarray) -> None:
        lanes = lanes[lanes != ABSENT]
        if not lanes.size:
            return
        mask = self.needed.get(id(h))
        if mask is None:
            mask = self.needed[id(h)] = np.zeros(lanes_of(h), bool)
            self.handles[id(h)] = h
        mask[lanes] = True

    def back(self) -> Iterator[tuple[Recorded, int, np.ndarray, Step]]:
        """Every operation behind what is needed, the last one first: its result, the lanes of it, and what it reads."""
        for entry in reversed(self.entries):
            for k, out in enumerate(entry.outs):
                mask = self.needed.get(id(out))
                if mask is None or self.maker[id(out)][0] is not entry or not self.follows(out):
                    continue
                wanted = np.flatnonzero(mask)
                step = self.step(entry, k, wanted)
                yield entry, k, wanted, step
                for h, lanes in step.links:
                    self.need(h, lanes.reshape(-1))
