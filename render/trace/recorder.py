"""What a recording holds: passes over the kernel's body, and the operations of each with operands and source line.

Launches before the last chosen one run whole, later ones not at all. A part of the grid that is undone and run again is
recorded again: of each program, only its last pass counts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.bounds import is_point
from render.interpreter.context import Context, Site
from render.interpreter.events import Attributes, Listener
from render.interpreter.handle import Handle
from render.interpreter.memory.reading import load_quietly
from render.interpreter.memory.registry import Registry, Storage
from render.interpreter.types import elem_of
from render.interpreter.writers import Writers
from render.trace.attributes import attributes
from render.trace.integers import followed
from render.trace.moves import MOVES

BYTES = 1 << 30
"""Memory that the values of one recording take."""


PATIENCE = 5000
"""Times that one line may read the same numbers at the same addresses, before it is taken for waiting."""
NONE = np.empty(0, np.int32)
FEW = 16
"""Addresses of an access that may be one that waits."""


def _memory(h: Handle) -> int:
    """Bytes of a handle's arrays; one that is still open has no bound of its own."""
    size = h.computed.nbytes
    if h.is_point or h.pend is not None:
        return size
    lo, hi = h.pair
    return size + lo.nbytes + (0 if is_point((lo, hi)) else hi.nbytes)


class Enough(BaseException):
    """Everything that was asked for is recorded; raised through the user's code, which must not catch it."""


@dataclass(eq=False)
class Recorded:
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
    entries: list[Recorded] = field(default_factory=list)


class Recorder(Listener):
    """`programs`: launch number -> programs to record there (None: all). In the last of these launches the others do
    not run, unless `run_all` says so; in earlier ones they do not where launches are `apart`: none reads what another
    stored. `everything`: integers are kept as floats are, addresses never."""

    def __init__(self, programs: Mapping[int, np.ndarray | None], run_all: bool = False, apart: bool = False) -> None:
        self.programs = dict(programs)
        self.run_all, self.apart = run_all, apart
        self.launch = -1
        self.passes: list[Pass] = []
        self.soft: dict[int, Handle] = {}  # by id; kept, so that no later handle gets it, undone work included
        self.decided: dict[int, Handle] = {}
        self.everything = False
        self.kept_bytes = 0
        self.limit: float = BYTES
        self.writers: list[Writers] = []
        self.registry: Registry | None = None
        self._recording = False
        self._kinds: dict[int, tuple[Any, bool]] = {}
        self.waits = False
        self._seen: dict[Site, tuple[np.ndarray, np.ndarray, int]] = {}
        self._there: Any = None

    def _read(self, at: np.ndarray, values: np.ndarray) -> None:
        """Ends a recording of programs that wait for one which does not run: they would wait forever."""
        if self.whole or at.size > FEW:
            return
        site = self.context.site()
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
        return self.kept_bytes > self.limit

    def took(self) -> None:
        """Takes what the run left in memory from its session: that refers to itself and would keep it for long."""
        if self.launch >= 0:
            self.registry = self.context.memory.registry
            self.context.memory.forget()

    def close(self) -> None:
        """Nothing more is asked of it."""
        self.registry, self.passes = Registry(), []

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
        return self.run_all or (self.launch != self.launch_of_last and not self.apart)

    def among(self, linear: np.ndarray) -> np.ndarray:
        """Which of these programs are to be recorded."""
        wanted = self.programs.get(self.launch, NONE)
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

    def find(self, address: int) -> Storage | None:
        """The storage at this address, as the run left it."""
        return (self.registry if self.registry is not None else self.context.memory).find(address)

    def launched(self, ctx: Context) -> None:
        self.launch += 1
        if self.launch > max(self.programs):
            raise Enough
        super().launched(ctx)
        self.writers.append(ctx.writers)
        self._recording = self.chosen
        if self.on:
            self.begin(np.empty(0, np.int32))

    def begin_pass(self, linear: np.ndarray) -> None:
        self._recording = self.chosen and bool(self.among(linear).any())
        if self.on:
            self.begin(linear)

    def begin(self, linear: np.ndarray) -> None:
        """What follows belongs to a pass of these programs."""
        self.passes.append(Pass(self.launch, np.array(linear)))

    def order(self, usual: np.ndarray) -> np.ndarray:
        return usual if self.whole else usual[self.among(usual)]

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Attributes = None) -> None:
        if op in ("load", "atomic"):
            self._read(args[0].v, outs[0].v)
        if not self._recording:
            return
        if op == "load":
            self._add(op, args, args[2:], outs, partial(self._access, args[0], args[1]))
        elif op == "store":
            self._add(op, args, args[1:2], outs, self._access(args[0], args[2]))
        elif op == "atomic":
            assert isinstance(attrs, dict)
            access = self._access(args[0], args[3]) | attrs
            self._add(op, args, args[1:2], (), access | ({} if self._there is None else {"before": self._there}))
            self._add("returned", args, (), outs, access)
        elif op == "branch":
            if self.everything:
                self._add(op, args, args, (), {})
        else:
            self._add(op, args, args, outs, attrs)

    def before_atomic(self, ptr: Handle, value: Handle | None, mask: Handle | None) -> None:
        self._there, elem = None, elem_of(ptr.dtype.scalar.element_ty)
        if self._recording and value is not None:
            access, ctx = self._access(ptr, mask), self.context
            self._there = load_quietly(ctx.memory, access["ptr"], access["active"], elem, ptr.origin, ctx.site())

    def _access(self, ptr: Handle, mask: Handle | None) -> dict[str, Any]:
        at = np.broadcast_to(ptr.v, (self.context.programs, *ptr.shape))
        active = np.broadcast_to(True if mask is None else mask.full(mask.v), at.shape)
        name = None if ptr.origin is None else ptr.origin.name  # a later launch may call the same memory otherwise
        return {"ptr": at, "active": active, "origin": ptr.origin, "name": name, "mask": mask}

    def mark(self) -> int:
        return len(self.passes[-1].entries) if self._recording else 0

    def undo_to(self, mark: int) -> None:
        if self._recording:
            del self.passes[-1].entries[mark:]

    def ended(self) -> None:
        """Reads what the launch's atomics left behind, before the host can change it."""
        if not self.chosen:
            return
        for entry in (e for p in self.passes if p.launch == self.launch for e in p.entries):
            if entry.op == "atomic" and "before" in entry.attrs:
                at, active, origin = (entry.attrs[k] for k in ("ptr", "active", "origin"))
                elem = elem_of(entry.args[0].dtype.scalar)
                entry.attrs["after"] = load_quietly(self.context.memory, at, active, elem, origin, entry.site)

    def _add(
        self, op: str, given: Sequence[Any], operands: Sequence[Any], outs: Sequence[Handle], attrs: Attributes
    ) -> None:
        """Keeps an operation on these of the arguments that it was given, if its results are to be followed."""
        handles = tuple([a for a in operands if isinstance(a, Handle)])
        moves = op in MOVES or (isinstance(attrs, dict) and "move" in attrs)
        fresh, kept = [], not outs
        for out in outs:
            if out in handles:  # by identity
                continue
            fresh.append(out)
            floats, address = self._kind(out)
            if not floats and not address:
                self._follow(op, out, handles, moves)
            kept = kept or floats or id(out) in self.soft or (self.everything and not address)
        if not kept:
            return  # integers and addresses are taken by value
        self.kept_bytes += sum([_memory(out) for out in fresh])
        if self.full:
            self.overflow()
            return
        current = self.passes[-1]
        site = self.context.site() if len(current.linear) else self.context.home
        found = attrs() if callable(attrs) else attributes(op, given, outs[0]) if attrs is None else attrs
        current.entries.append(Recorded(op, site, handles, tuple(fresh), found))

    def overflow(self) -> None:
        """More is computed than a recording keeps."""
        raise Enough

    def _kind(self, h: Handle) -> tuple[bool, bool]:
        """Whether the handle holds floats, and whether it holds addresses."""
        scalar = h.dtype.scalar
        if isinstance(scalar, tl.pointer_type):  # one for every address computed: not worth remembering
            return False, True
        found = self._kinds.get(id(scalar))
        if found is None:  # the type is kept, so that no later one gets its id
            found = self._kinds[id(scalar)] = (scalar, bool(scalar.is_floating()))
        return found[1], False

    def _follow(self, op: str, out: Handle, args: tuple[Handle, ...], moves: bool) -> None:
        """Whether this truth or integer depends on floats that carry a bound.

        It is followed like floats as far as operations with a formula go; further on it is taken by value.
        """
        if op == "load" and out.open is not None:
            self.soft[id(out)] = out
            return
        soft = bounded = decided = False
        for a in args:
            soft = soft or id(a) in self.soft
            decided = decided or id(a) in self.decided
            bounded = bounded or (not a.is_point and self._kind(a)[0])
        if not (soft or bounded or decided):
            return
        traced = out.dtype.scalar.is_int1() or ((moves or followed(op, args)) and not decided)
        if traced and (bounded or soft):
            self.soft[id(out)] = out
        else:
            self.decided[id(out)] = out

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
