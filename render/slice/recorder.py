"""What a recording holds: passes over the kernel's body, and the operations of each with operands and source line.

Launches before the last chosen one run whole, later ones not at all. A part of the grid that is undone and run again is
recorded again: of each program, only its last pass counts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from render.interpreter.context import NOWHERE, Context, Site
from render.interpreter.handle import Handle
from render.interpreter.writers import Writers
from render.slice.integers import followed
from render.slice.moves import MOVES

BYTES = 1 << 30
"""Memory that the values of one recording take."""


PATIENCE = 5000
"""Times that one line may read the same numbers at the same addresses, before it is taken for waiting."""
FEW = 16
"""Addresses of an access that may be one that waits."""


def _memory(h: Handle) -> int:
    """Bytes of a handle's arrays; one that is still open has no bound of its own."""
    arrays = {id(a): a for a in ((h.computed,) if h.pend is not None else (h.computed, *h.pair))}
    return sum(a.nbytes for a in arrays.values())


class Enough(BaseException):
    """Everything that was asked for is recorded; raised through the user's code, which must not catch it."""


@dataclass(eq=False)
class Entry:
    """One operation of one pass. Handles are kept, so that their identity names a value."""

    op: str
    site: Site
    args: tuple[Handle, ...]
    outs: tuple[Handle, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Pass:
    """One execution of the kernel's body for the programs `linear`; no programs: the arguments of the launch."""

    launch: int
    linear: np.ndarray
    entries: list[Entry] = field(default_factory=list)


class Recorder:
    """`programs`: launch number -> programs to record there (None: all). In the last of these launches the others do
    not run, unless `run_all` says so."""

    def __init__(self, programs: Mapping[int, np.ndarray | None], run_all: bool = False) -> None:
        self.programs = dict(programs)
        self.run_all = run_all
        self.launch = -1
        self.passes: list[Pass] = []
        self.soft: set[int] = set()
        self.decided: dict[int, Handle] = {}
        self.context: Context | None = None
        self.kept_bytes = 0
        self.writers: list[Writers] = []
        self._recording = False
        self.waits = False
        self._seen: dict[Site, tuple[np.ndarray, np.ndarray, int]] = {}

    def read(self, site: Site, at: np.ndarray, values: np.ndarray) -> None:
        """Ends a recording of programs that wait for one which does not run: they would wait forever."""
        if self.whole or at.size > FEW:
            return
        before = self._seen.get(site)
        alike = before is not None and np.array_equal(before[0], at) and np.array_equal(before[1], values)
        count = before[2] + 1 if before is not None and alike else 1
        self._seen[site] = at, values, count
        if count > PATIENCE:
            self.waits = True
            raise Enough

    @property
    def full(self) -> bool:
        """Whether more was computed than a recording keeps."""
        return self.kept_bytes > BYTES

    def of(self, launch: int) -> Recorder:
        """What was recorded of one launch, as a recorder of that launch alone."""
        view = copy.copy(self)
        view.programs = {launch: self.programs[launch]}
        view.passes = [p for p in self.passes if p.launch == launch]
        return view

    def holds(self, launch: int) -> bool:
        """Whether every program of this launch was recorded."""
        return launch in self.programs and self.programs[launch] is None

    @property
    def whole(self) -> bool:
        """Whether all programs of the launch in progress run: later launches may read what they store."""
        return self.run_all or self.launch != self.launch_of_last

    def among(self, linear: np.ndarray) -> np.ndarray:
        """Which of these programs are to be recorded."""
        wanted = self.programs[self.launch]
        return np.ones(linear.shape, bool) if wanted is None else np.isin(linear, wanted)

    @property
    def launch_of_last(self) -> int:
        """The last launch that is recorded."""
        return max(self.programs)

    @property
    def chosen(self) -> bool:
        """Whether something of the launch in progress is recorded."""
        return self.launch in self.programs

    @property
    def on(self) -> bool:
        """Whether what happens now is recorded."""
        return self._recording

    def launched(self, ctx: Context) -> None:
        self.launch += 1
        if self.launch > max(self.programs):
            raise Enough
        self.context = ctx
        self.writers.append(ctx.writers)
        self._recording = self.chosen
        if self.on:
            self.passes.append(Pass(self.launch, np.empty(0, np.int32)))

    def begin_pass(self, linear: np.ndarray) -> None:
        self._recording = self.chosen and bool(self.among(linear).any())
        if self.on:
            self.passes.append(Pass(self.launch, np.array(linear)))

    def add(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: dict[str, Any] | None = None) -> None:
        if not self.on:
            return
        fresh = tuple(o for o in outs if not any(o is a for a in args))
        if not fresh and outs:
            return
        assert self.context is not None
        handles = tuple(a for a in args if isinstance(a, Handle))
        self._follow(op, handles, fresh, op in MOVES or "move" in (attrs or {}))
        if fresh and not any(self.kept(o) for o in fresh):
            return  # integers and addresses are taken by value
        self.kept_bytes += sum(_memory(o) for o in fresh)
        if self.full:
            raise Enough
        site = self.context.site() if len(self.passes[-1].linear) else NOWHERE
        self.passes[-1].entries.append(Entry(op, site, handles, fresh, attrs or {}))

    def _follow(self, op: str, args: tuple[Handle, ...], outs: tuple[Handle, ...], moves: bool) -> None:
        """Which truths and integers depend on floats that carry a bound.

        Those are followed like floats as far as operations with a formula go; further on they are taken by value.
        """
        ids = [id(a) for a in args]
        soft = any(i in self.soft for i in ids)
        bounded = any(a.dtype.scalar.is_floating() and not a.is_point for a in args if not a.dtype.scalar.is_ptr())
        for out in outs:
            scalar = out.dtype.scalar
            if scalar.is_ptr() or scalar.is_floating():
                continue
            if op == "load" and out.open is not None:
                self.soft.add(id(out))
                continue
            traced = scalar.is_int1() or ((moves or followed(op, args)) and not any(i in self.decided for i in ids))
            if traced and (bounded or soft):
                self.soft.add(id(out))
            elif bounded or soft or any(i in self.decided for i in ids):
                self.decided[id(out)] = out  # kept, so that no later handle gets its id

    def kept(self, out: Handle) -> bool:
        """Whether values of this handle are traced to what made them."""
        scalar = out.dtype.scalar
        return bool(scalar.is_floating()) or id(out) in self.soft

    def valid(self) -> list[Pass]:
        """The passes that count, oldest first: for every program the last one that ran it."""
        last: dict[tuple[int, int], Pass] = {}
        for p in self.passes:
            last.update({(p.launch, int(i)): p for i in p.linear})
        kept = {id(p) for p in last.values()}
        return [p for p in self.passes if id(p) in kept or not len(p.linear)]
