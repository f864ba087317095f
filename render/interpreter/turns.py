"""Programs that wait for each other run in turns: each in a thread of its own, one at a time, in a fixed order.

A program runs until it ends or waits; then the next one in the ring goes on, in the order of the grid, and the first
that has not begun is part of the ring. So every program that can go on does, and ten runs are ten times the same.
Where all that are left read the same again, with the same variables, and nothing has changed, none of them ever ends.
Where their variables still change, so that a wait may give up some time, they are followed for many turns.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from types import FrameType

import numpy as np

from render.interpreter.context import Context, Site
from render.interpreter.control import Abandoned
from render.interpreter.unordered import Unordered
from render.result.errors import Endless

LARGEST_RING = 1 << 12
"""Programs that may wait at once: more than any device holds, and each is a thread here."""
_NAMED = 4
PATIENCE, EACH = 1 << 16, 1 << 9
"""Turns in which programs do nothing but wait before they are given up, and how many each of them has at least."""


class _Program:
    """One program of the ring; `seen` counts the changes of memory when it began to wait."""

    def __init__(self, turns: Turns, pids: np.ndarray, linear: np.ndarray) -> None:
        self.turns, self.pids, self.linear = turns, pids, linear
        self.go, self.over, self.paused = threading.Semaphore(0), False, False
        self.seen, self.repeats, self.at = -1, False, Site("", 0)
        self.calls: tuple[int, ...] = ()
        self.error: BaseException | None = None
        self.kept: tuple[frozenset[int], bool, Unordered] = (frozenset(), False, turns.ctx.unordered)
        self.thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)

    @property
    def place(self) -> str:
        """The line at which it waits, and from where the function that waits was called."""
        return ", called at line ".join(map(str, self.calls[:2] or (self.at.line,)))

    def _run(self) -> None:
        self.go.acquire()
        try:
            if self.turns.ctx.steps.cancelled is None:
                self.turns.body(self.pids, self.linear)
        except BaseException as error:
            self.error = error
        self.over = True
        self.turns.back.release()


class Turns:
    """Runs programs `pids` (n, 3) of a launch in turns; `body` runs the kernel for one of them."""

    def __init__(self, ctx: Context, body: Callable[[np.ndarray, np.ndarray], None],
                 resumed: Callable[[np.ndarray], None] | None, whole: bool) -> None:  # fmt: skip
        self.ctx, self.body, self.resumed, self.whole = ctx, body, resumed, whole
        self.back = threading.Semaphore(0)
        self.ring: list[_Program] = []
        self._running: _Program | None = None
        self._quiet, self._changes = 0, -1

    def run(self, pids: np.ndarray, linear: np.ndarray, done: Callable[[int], None]) -> None:
        ctx, memory, ended = self.ctx, self.ctx.memory, 0
        memory.begin_chunk()
        memory.in_turns, ctx.in_turns = True, self
        try:
            at, begun = 0, 0
            while self.ring or begun < len(pids):
                if at >= len(self.ring):
                    at = 0 if begun == len(pids) else at
                    if begun < len(pids):
                        self._begin(pids[begun : begun + 1], linear[begun : begun + 1])
                        begun += 1
                    elif self._stuck() or self._in_vain():
                        raise self._deadlock()
                program = self.ring[at]
                self._resume(program)
                if program.error is not None:
                    raise program.error
                if program.over:
                    self.ring.pop(at)
                    ended += 1
                    done(ended)
                else:
                    at += 1
            memory.commit()
        except BaseException as error:
            self._abandon(error)
            memory.undo()
            raise
        finally:
            memory.in_turns, ctx.in_turns = False, None

    def _begin(self, pids: np.ndarray, linear: np.ndarray) -> None:
        if len(self.ring) >= LARGEST_RING:
            raise Endless("RND309", f"more than {LARGEST_RING} programs wait at once: {self.ctx.steps.still()}",
                          self.ring[0].at.file, self.ring[0].at.line)  # fmt: skip
        program = _Program(self, pids, linear)
        self.ring.append(program)
        program.thread.start()

    def _resume(self, program: _Program) -> None:
        ctx = self.ctx
        ctx.pids, ctx.linear = program.pids, program.linear
        ctx.control_taint, ctx.locks, ctx.unordered = program.kept
        if program.seen >= 0 and self.resumed is not None:
            self.resumed(program.linear)
        looks, ctx.activity.looks = ctx.activity.looks, []
        self._running = program
        program.go.release()
        self.back.acquire()
        self._running, ctx.activity.looks = None, looks

    def give_way(self, repeats: bool) -> None:
        """Called by the program that runs: it waits; returns when it is its turn again."""
        program, ctx = self._running, self.ctx
        assert program is not None
        program.seen, program.repeats, program.at = ctx.activity.changes, repeats, ctx.site()
        program.calls = ctx.calls()
        program.kept = ctx.control_taint, ctx.locks, ctx.unordered
        looks = ctx.activity.looks
        program.paused = True
        self.back.release()
        program.go.acquire()
        program.paused = False
        if ctx.steps.cancelled is not None:
            raise Abandoned
        ctx.activity.looks = looks

    def _stuck(self) -> bool:
        """Whether every program waits, and repeats itself since memory last changed."""
        changes = self.ctx.activity.changes
        return bool(self.ring) and all(p.repeats and p.seen == changes for p in self.ring)

    def _in_vain(self) -> bool:
        """Whether all have been waiting for long, and memory has not changed meanwhile."""
        if self._changes != self.ctx.activity.changes:
            self._quiet, self._changes = 0, self.ctx.activity.changes
        self._quiet += len(self.ring)
        return self._quiet > max(PATIENCE, EACH * len(self.ring))

    def _deadlock(self) -> Endless:
        total = self.ctx.steps.total
        places = [f"program {int(p.linear[0]) + 1} of {total} at line {p.place}" for p in self.ring]
        named = ", ".join(places[:_NAMED]) + (f" and {len(places) - _NAMED} more" if len(places) > _NAMED else "")
        what = "a program waits for what no program changes" if len(places) == 1 else "programs wait for each other"
        code = "RND212"
        if not self._stuck():
            code, what = "RND309", f"{what}, and none has changed anything in {self._quiet} turns"
        elif not self.whole:
            code, what = "RND309", "not all programs were run, and those that were wait"
        elif any(p.kept[0] for p in self.ring):
            code, what = "RND303", f"{what}, in the one of several executions that was followed"
        return Endless(code, f"{what}: {named}", self.ring[0].at.file, self.ring[0].at.line)

    def _abandon(self, error: BaseException) -> None:
        """Ends every thread; the one that runs stops at its next step."""
        running = self._running
        self.ctx.steps.cancelled = Abandoned()
        if running is not None:  # Ctrl-C arrives while the main thread waits for the program
            error.args = error.args or (self.ctx.steps.still(self._frame(running)),)
            if not (running.paused or running.over):  # else it has let go already, and nobody else will
                self.back.acquire()
        for program in self.ring:
            program.go.release()
            program.thread.join()

    @staticmethod
    def _frame(program: _Program) -> FrameType | None:
        return sys._current_frames().get(program.thread.ident or 0)
