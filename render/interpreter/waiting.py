"""Loops that wait: a turn that reads what the turn before read, and changes nothing, waits for another program.

Reads are loads and what atomics return; a compare-and-swap that fails and an exchange that puts back what was there
change nothing. Where the kernel's own variables repeat as well, but for counters that decide nothing in the loop,
nothing but another program can ever end it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any

import numpy as np
from triton.language import core

from render.interpreter.context import Context
from render.interpreter.control import Waits
from render.interpreter.handle import Handle
from render.interpreter.memory.records import Hazard
from render.interpreter.steps import UNFORESEEN
from render.result.errors import Endless

FIRST_LOOK = 32
"""Turns of a loop before it is watched for two turns; then again after twice as many, and so on."""


class Activity:
    """What the programs of a launch read and changed; `looks` are the loops that watch now."""

    def __init__(self) -> None:
        self.changes = 0
        self.looks: list[Loop] = []

    def read(self, ptr: np.ndarray, v: np.ndarray) -> None:
        if self.looks:
            seen = hash((ptr.tobytes(), v.tobytes()))
            for loop in self.looks:
                loop.seen = hash((loop.seen, seen))
                loop.reads += 1


class Loop:
    """One run of a `while` statement: `Loop(ctx)` before it, called with the condition at every turn."""

    __slots__ = ("before", "changes", "ctx", "idle", "kept", "next_look", "reads", "seen", "turns")

    def __init__(self, ctx: Context, idle: Collection[str] = ()) -> None:
        self.ctx, self.idle = ctx, idle
        self.turns = self.seen = self.reads = self.changes = 0
        self.before: int | None = None
        self.kept: int | None = None
        self.next_look = 2 if ctx.in_turns is not None else FIRST_LOOK

    def __call__(self, condition: Any, frame: FrameType | None = None) -> bool:
        """The condition as a truth value; raises Waits, or lets other programs run, where the loop waits.

        `frame`: that of the kernel's function which runs the loop, if it is not the caller's.
        """
        looks = self.ctx.activity.looks
        if not bool(condition.value if isinstance(condition, core.constexpr) else condition):
            if self in looks:
                looks.remove(self)
            return False
        self.turns += 1
        self.ctx.steps.tick(UNFORESEEN)
        if self.turns >= self.next_look:
            if self in looks:
                self._turned(frame or sys._getframe(1))
            else:
                looks.append(self)
                self.before = self.kept = None
            self.seen = self.reads = 0
            self.changes = self.ctx.activity.changes
        return True

    def _turned(self, frame: FrameType) -> None:
        """A turn that was watched is over."""
        ctx, seen = self.ctx, self.seen
        quiet, first = ctx.activity.changes == self.changes, self.before is None
        same = quiet and seen == self.before
        self.before = seen if quiet else None
        if not same:
            self.kept = None
            if not first:
                self._look_away()
            return
        kept = _variables(frame, self.idle)
        repeats, self.kept = kept == self.kept, kept
        if self.reads:
            self._wait(repeats)
        elif repeats:
            site = ctx.site()
            raise Endless("RND212", f"{ctx.steps.still()}: the loop repeats itself for ever", site.file, site.line)
        elif self.turns > self.next_look + 3:
            self._look_away()

    def _look_away(self) -> None:
        if self.ctx.in_turns is None:
            self.ctx.activity.looks.remove(self)
            self.next_look = 2 * self.turns

    def _wait(self, repeats: bool) -> None:
        if self.ctx.in_turns is not None:
            self.ctx.in_turns.give_way(repeats)
        elif self.ctx.programs > 1:
            raise Hazard("programs of this chunk wait for another one")
        else:
            raise Waits


_UPDATES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "xchg": lambda old, new: old != new, "add": lambda old, new: new != 0,
    "and": lambda old, new: (old & new) != old, "or": lambda old, new: (old | new) != old,
    "xor": lambda old, new: new != 0, "max": lambda old, new: new > old, "min": lambda old, new: new < old,
}  # fmt: skip


def changed(kind: str, old: np.ndarray, new: np.ndarray, cmp: np.ndarray | None, active: np.ndarray | None) -> bool:
    """Whether an atomic may have changed memory: `old` is what it returned."""
    update = _UPDATES.get(kind, lambda old, new: np.True_)
    moved = (old == cmp) & (old != new) if kind == "cas" else update(old, new)
    return bool(np.any(moved if active is None else moved & active))


def _variables(frame: Any, idle: Collection[str]) -> int:
    """Hash of the variables of the kernel's function that runs the loop."""
    return hash(tuple(_parts({n: v for n, v in frame.f_locals.items() if n not in idle})))


def _parts(values: dict[str, Any]) -> Iterator[Any]:
    for name, value in values.items():
        yield name
        yield from _of(value)


def _of(value: Any) -> Iterator[Any]:
    if isinstance(value, core.tensor):
        yield from _of(value.handle)
    elif isinstance(value, Handle):
        yield value.computed.tobytes()
    elif isinstance(value, np.ndarray):
        yield value.tobytes()
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _of(part)
    elif isinstance(value, int | float | str | frozenset | None):
        yield value
    elif isinstance(getattr(value, "wait", None), Loop):  # an inner loop, which is over
        yield None
    else:
        yield id(value)
