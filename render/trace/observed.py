"""A run recorded while it is judged, where it is small: whoever asks for slices then needs no other run.

What is recorded does not change a result, bit for bit (`recording`). A recording keeps every value of the run, so it is
dropped as soon as those would take more than `LIMIT` bytes; this shows early, while the first program of a launch
runs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from render.entry.execution import Entry, Execution
from render.interpreter.context import Context
from render.interpreter.events import listened
from render.trace.recorder import Recorder

LIMIT = 16 << 20
"""Bytes of values that the recording of a run keeps: about 600 thousand lanes with their bounds. Recording takes up
to as long as the run; of a larger one, to run the few programs again that are asked about costs less."""

HELD = 256 << 20
"""Bytes of memory that kernels may address and that a recording keeps with it."""


class Observer(Recorder):
    """Records every launch and program from the beginning of a run, or nothing if there is more than a small run."""

    def __init__(self) -> None:
        super().__init__({}, run_all=True)
        self.limit = LIMIT
        self.dropped = False
        self._before = 0

    def launched(self, ctx: Context) -> None:
        self.programs[self.launch + 1] = None
        self._before = self.kept_bytes
        super().launched(ctx)
        if self.dropped:
            self.overflow()

    def begin_pass(self, linear: np.ndarray) -> None:
        if self.dropped:
            return
        seen, total = (
            sum(len(p.linear) for p in self.passes if p.launch == self.launch),
            int(np.prod(self.context.grid)),
        )
        if self._before + (self.kept_bytes - self._before) * (total / max(1, seen)) > LIMIT:
            self.overflow()
            return
        part = min(
            (seen + len(linear)) / total, 1.0
        )  # what programs so far may take, for all to take no more than LIMIT
        self.limit = self._before + (LIMIT - self._before) * part
        self.begin(linear)

    def overflow(self) -> None:
        self.dropped, self._recording = True, False
        self.passes.clear()
        self.soft.clear()
        self.decided.clear()


def observed(entry: Entry) -> Execution:
    """`entry.run()`, with its recording where it is small. Raises what a run raises."""
    if "builder" in entry.options:
        return entry.run()
    observer = Observer()
    run = replace(entry, options={**entry.options, "builder": listened(observer)}).run()
    if observer.dropped or observer.launch < 0:
        return run
    observer.registry = registry = run.session.memory.registry
    if sum(storage.nbytes for storage in registry) > HELD:
        return run
    return replace(run, recording=observer)
