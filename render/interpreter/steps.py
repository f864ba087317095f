"""Counted work: what a launch has done, where it stands, and when it has done too much. No clock decides anything.

A step is one turn of a loop or one pass over the kernel's body; beside them count the lanes that operations make.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from render.interpreter.context import Context
from render.interpreter.handle import METER
from render.result.errors import Endless

BUDGET = 1 << 21
"""Steps of one launch: some minutes. What a kernel does in seconds on a device takes thousands of them at most."""
LANES = 1 << 17
"""Lanes that count as one step beyond those that a step usually makes."""
_SPOKEN = 1 << 15
"""After so many steps the first line is said, then after twice as many, and so on."""
_MOST = 1 << 34
"""Programs of which a launch can keep account at all."""
_SAMPLE, _HOPELESS = 1 << 10, 16
UNFORESEEN = 2
"""Steps of a turn of which nobody knows how many are to come, as in a `while`: those that never end are of these."""
_LOOK = 1 << 8


class Steps:
    """The work of one launch; `total` programs, of which `ctx.linear` run now."""

    def __init__(self, ctx: Context, total: int, budget: int, say: Callable[[str], None] | None = None) -> None:
        self.ctx, self.total, self.budget = ctx, total, budget
        self.count, self._look = 0, _LOOK
        self.cancelled: BaseException | None = None
        self._say, self._next = say or _on_terminal, _SPOKEN
        if total > _MOST:
            raise self.over(f"a grid of {total} programs is out of reach")

    def tick(self, steps: int = 1) -> None:
        """One more step; raises Endless where the budget is spent, and what cancelled the launch."""
        self.count += steps
        if self.cancelled is not None:
            raise self.cancelled
        if self.count >= self._look:
            self._look = self.count + _LOOK
            self._check()

    def ticks(self, turns: int) -> None:
        """So many turns at once."""
        self.count += turns - 1
        self.tick()
        self._check()

    def _check(self) -> None:
        work = METER.get().work
        spent = self.count + work // LANES
        if spent >= self.budget:
            raise self.over(f"{self.still()} after {self.count} steps and {work} lanes")
        if spent >= self._next:
            self._next *= 2
            self._say(self.still())

    def passed(self, done: int) -> None:
        """`done` programs of the launch are done: what is left can be told from what they took."""
        self._check()
        work = METER.get().work
        if done >= _SAMPLE and (self.count + work // LANES) / done * self.total > _HOPELESS * self.budget:
            each = f"about {max(1, work // done)} lanes each"
            raise self.over(f"{done} of {self.total} programs are done, {each}: the rest is out of reach")

    def foresee(self, turns: int) -> None:
        """So many turns of a loop are to come, one by one."""
        if self.count + turns > self.budget:
            raise self.over(f"{self.still()}: {turns} turns of a loop are out of reach")

    def over(self, said: str) -> Endless:
        site = self.ctx.site()
        return Endless("RND309", said, site.file, site.line)

    def still(self, frame: FrameType | None = None) -> str:
        """Where the launch stands: programs count from 1 in the order of the grid."""
        ranks = self.ctx.linear
        first, last = int(ranks[0]) + 1, int(ranks[-1]) + 1
        which = f"program {first}" if len(ranks) == 1 else f"programs {first} to {last}"
        line = self.ctx.site().line if frame is None else self._line(frame)
        return f"still in {which} of {self.total}" + (f", line {line}" if line else "")

    def _line(self, frame: FrameType | None) -> int:
        while frame is not None:
            if frame.f_code.co_filename in self.ctx.files:
                return frame.f_lineno
            frame = frame.f_back
        return 0


def innermost(error: BaseException) -> FrameType | None:
    """The frame in which the error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame


def _on_terminal(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)
