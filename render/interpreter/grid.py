"""Executes the programs of a launch, many at a time.

Every handle has a leading axis over programs, so one Python pass over the kernel body runs a whole chunk. Where
programs of a chunk disagree on control flow (other than on when a loop ends, see `lockstep`) the chunk is undone and
its parts are run apart; where they touch each other's memory it is undone and fewer are tried, down to one program at a
time, in order (of programs that take one of many locks, as many run together as there are locks); where one waits for
another they run in turns (`turns`) from there on. Neighbours often agree (the rows of one block of a causal attention,
over all heads), so the part at the end of a chunk that was split waits for the next chunk, and chunks are cut to the
length of such runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from render.interpreter.context import Context
from render.interpreter.control import Diverge, OneByOne, Oversized, Waits
from render.interpreter.handle import METER
from render.interpreter.memory import Hazard, Retry
from render.interpreter.steps import innermost
from render.interpreter.turns import Turns

AT_FIRST = 256
"""Programs that run together while nobody knows how large their blocks are."""
TARGET = 3 << 17
"""Elements of its largest handle that a chunk aims for: enough to hide Python, and for several threads; few enough for
memory. Flat kernels see them in blocks that the caches hold."""
ORDERED = 1 << 22
"""Programs of a launch up to which an order of one's own can be asked for; larger ones run as they come."""


@dataclass
class GridStats:
    chunks: int = 0
    passes: int = 0
    rollbacks: int = 0
    sequential: bool = False
    chunk_size: int = 1
    programs: int = 0
    in_turns: bool = False


@dataclass
class Grid:
    """One launch's programs; `body` runs the kernel once for `ctx.pids`. `together`: how many run first."""

    ctx: Context
    body: Callable[[], None]
    chunk: int | None = None
    on_progress: Callable[[int, int], None] | None = None
    order: Callable[[int], np.ndarray] | None = None
    begin_pass: Callable[[np.ndarray], None] | None = None
    together: int | None = None
    stats: GridStats = field(default_factory=GridStats)
    _split_at: int = 0
    _run_length: int = 0
    _most: int = ORDERED

    def run(self) -> GridStats:
        try:
            return self._run()
        except KeyboardInterrupt as stop:
            stop.args = stop.args or (self.ctx.steps.still(innermost(stop)),)
            raise

    def _run(self) -> GridStats:
        whole = self.ctx.steps.total
        order = None if self.order is None or (whole > ORDERED and self.ctx.part is None) else self.order(whole)
        self.stats.programs = total = whole if order is None else len(order)
        done = 0
        if self.on_progress is not None:
            self.on_progress(0, total)
        size = min(self.together or self.chunk or AT_FIRST, total)
        # Unless it is known how large the blocks are, the first chunk shows it, and is cut where they turn out larger.
        guessed = self.together is None and self.chunk is None
        while done < total:
            self.ctx.room = TARGET // size if guessed and size > 1 else None
            linear = np.arange(done, done + size) if order is None else order[done : done + size]
            try:
                ran = self._top_level(program_ids(self.ctx.grid, linear), linear, last=done + size >= total)
            except Oversized as block:
                self.stats.chunks -= 1
                size = max(1, TARGET // block.elements)
                continue
            except Waits:
                self._undo()
                rest = np.arange(done, total) if order is None else order[done:]
                self._in_turns(rest, done, total)
                break
            self.stats.chunk_size = max(self.stats.chunk_size, size)
            done += ran
            if ran < min(size, self._most):
                self._run_length, self._split_at = done - self._split_at, done
            self._progress(done)
            size, guessed = self._next_size(total - done), False
        return self.stats

    def _progress(self, done: int) -> None:
        self.ctx.steps.passed(done)
        if self.on_progress is not None:
            self.on_progress(min(done, self.stats.programs), self.stats.programs)

    def _in_turns(self, linear: np.ndarray, done: int, total: int) -> None:
        """The rest of the launch, where programs wait for each other."""
        self.stats.sequential = self.stats.in_turns = True
        pids = program_ids(self.ctx.grid, linear)
        turns = Turns(self.ctx, self._pass, self.begin_pass, whole=total == self.ctx.steps.total)
        turns.run(pids, linear, lambda n: self._progress(done + n))

    def probe(self) -> None:
        """Runs the first program, for what it raises, and undoes it."""
        first = np.arange(min(1, self.ctx.steps.total))
        self.ctx.memory.begin_chunk()
        try:
            if len(first):
                self._pass(program_ids(self.ctx.grid, first), first)
        except (Retry, Waits):
            pass
        finally:
            self.ctx.memory.undo()

    def _next_size(self, left: int) -> int:
        size = self.chunk or self._whole_runs(max(1, TARGET // max(1, METER.get().largest)))
        return max(1, min(size, left, self._most))

    def _whole_runs(self, size: int) -> int:
        """About `size` programs, at most half more, such that a run of programs that agree is cut evenly."""
        if not self._run_length:
            return size
        return math.ceil(self._run_length / max(1, math.ceil(self._run_length / size - 0.5)))

    def _top_level(self, pids: np.ndarray, linear: np.ndarray, last: bool) -> int:
        """Runs a chunk and gives the number of its programs that are done: all, or those before a part that waits or
        that must not run beside them."""
        self.stats.chunks += 1
        memory, size = self.ctx.memory, len(pids)
        while True:
            memory.begin_chunk()
            try:
                done = self._groups(pids[:size], linear[:size], last and size == len(pids))
            except Retry:
                self._undo()
                continue
            except Hazard:
                if size == 1:
                    raise
                self._undo()
                self.stats.sequential = True
                size = self._most = 1 << (size - 1).bit_length() - 1  # locks are often a power of two
                continue
            except (Waits, Oversized):  # what runs again says it again
                memory.undo()
                raise
            except BaseException:
                memory.tell()
                memory.undo()
                raise
            memory.commit()
            return done

    def _undo(self) -> None:
        self.stats.rollbacks += 1
        self.ctx.memory.undo()

    def _groups(self, pids: np.ndarray, linear: np.ndarray, last: bool) -> int:
        """Runs the chunk; where control flow diverges, undoes only the diverging part and splits it by value.

        Where the whole chunk splits, programs at its end that agree with each other alone are left for the next chunk.
        """
        done = len(pids)
        todo = [np.arange(done)]
        while todo:
            group = todo.pop()
            mark = self.ctx.memory.mark()
            try:
                self._pass(pids[group], linear[group])
            except Diverge as split:
                self.stats.rollbacks += 1
                self.ctx.memory.undo_to(mark)
                values = split.values
                if len(group) == len(pids) and not last:
                    done = _start_of_last(values)
                    group, values = group[:done], values[:done]
                found, first = np.unique(values, return_index=True)
                todo.extend(group[values == value] for value in found[np.argsort(-first)])  # who comes first runs first
        return done

    def _pass(self, pids: np.ndarray, linear: np.ndarray) -> None:
        ctx = self.ctx
        while True:
            ctx.pids, ctx.linear, ctx.control_taint, ctx.locks = pids, linear, frozenset(), False
            ctx.active, ctx.ordered, ctx.turns = None, False, ""
            ctx.unordered = ctx.unordered.anew()
            ctx.activity.looks = []
            ctx.steps.tick()
            self.stats.passes += 1
            if self.begin_pass is not None:
                self.begin_pass(linear)
            mark = ctx.memory.mark() if len(linear) == 1 else None
            try:
                self.body()
                return
            except (OneByOne, Diverge, Hazard):
                if mark is None or not ctx.turns:
                    raise
                self.stats.rollbacks += 1
                ctx.memory.undo_to(mark)
                ctx.apart.add(ctx.turns)


def _start_of_last(values: np.ndarray) -> int:
    """Where the programs at the end begin that share a value which no other has; all of them if there are none."""
    others = np.flatnonzero(values != values[-1])
    start = int(others[-1]) + 1
    return start if (values[:start] != values[-1]).all() else len(values)


def program_ids(grid: tuple[int, int, int], linear: np.ndarray | None = None) -> np.ndarray:
    """(programs, 3) int32 in the stock interpreter's order: x outermost, z innermost; of these ranks (all)."""
    ranks = np.arange(prod(grid)) if linear is None else linear
    out = np.zeros((len(ranks), 3), np.int32)
    if len(ranks):
        out[:, 0], out[:, 1], out[:, 2] = np.unravel_index(ranks, grid)
    return out
