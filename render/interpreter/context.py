"""What is true while one kernel runs: profile, programs of the chunk, memory, and where the user's code stands."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import triton

from interval_ops.profiles.profile import CAUSES, MissingRule, Profile
from render.interpreter.control import Diverge, OneByOne, Oversized
from render.interpreter.memory.findings import MemoryFinding
from render.interpreter.unordered import Unordered
from render.interpreter.writers import Writers
from render.result.errors import UnsupportedOp

if TYPE_CHECKING:
    from render.interpreter.memory import Memory
    from render.interpreter.steps import Steps
    from render.interpreter.turns import Turns
    from render.interpreter.waiting import Activity

Change = Callable[[Any, ast.Module], ast.Module | None]
"""(jitted function, its tree, which may be written to) -> another tree; None: the function stays as it is."""
TRITON_ROOT = os.path.dirname(os.path.abspath(triton.__file__)) + os.sep
OWN_ROOT = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's source: file and 1-based line."""

    file: str
    line: int


NOWHERE = Site("<unknown>", 0)


@lru_cache(maxsize=1 << 14)
def _site(file: str, line: int) -> Site:
    return Site(file, line)


@dataclass
class Context:
    """State of one launch; `pids` is (B, 3) for the programs of the current chunk, `linear` their rank in the grid."""

    profile: Profile
    interval: bool
    memory: Memory
    grid: tuple[int, int, int]
    mute: frozenset[Any]
    add_taint: Callable[[str, str, Site, str], int]
    note: Callable[[str], None]
    causes: set[tuple[str, str, int]] = field(default_factory=set)
    pids: np.ndarray = field(default_factory=lambda: np.zeros((1, 3), np.int32))
    linear: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    control_taint: frozenset[int] = frozenset()
    files: set[str] = field(default_factory=set)
    home: Site = NOWHERE
    """The kernel's `def`: the place of what happens to its arguments."""
    num_warps: int = 4
    roundings: int = 0
    locks: bool = False
    active: np.ndarray | None = None
    """Programs of the chunk that take part in this turn of a loop; None: all (`lockstep`)."""
    turns: str = ""
    """The loop of which several turns of one program run at once, along the axis of programs (`lockstep`)."""
    apart: set[str] = field(default_factory=set)
    """Loops whose turns were found to run one by one."""
    ordered: bool = False
    """An atomic has run in this pass: programs that go on in step would meet another order."""
    exchanged: dict[int, int] = field(default_factory=dict)
    """Addresses of floats that an atomic exchanged, and the program that did."""
    undefined: float | None = None
    undefined_sites: dict[Site, set[int]] = field(default_factory=dict)
    """Loads without `other` that had masked-off lanes, with the programs that had them."""
    open_sites: set[Site] = field(default_factory=set)
    """Lines where an access may go to one of several places, as far as told."""
    change: Change | None = None
    assume_exact: frozenset[str] = frozenset()
    writers: Writers = field(default_factory=Writers)
    unordered: Unordered = field(default_factory=Unordered)
    sentinels: set[tuple[float, float]] = field(default_factory=set)
    """Ends of the literals beyond any data that the launch met: whatever has exactly these ends is that literal."""
    steps: Steps = field(init=False)
    activity: Activity = field(init=False)
    room: int | None = None
    """Elements of the largest block that the programs of this chunk may make; None: known to fit."""
    part: float | int | None = None
    """The programs that run, as a part of the launch or a number; None: all."""
    at: Site | None = None
    """The place of what is run again outside of the user's frames (`fission`)."""
    decisions: int = 0
    """How often control flow has read a value, or a loop began."""
    in_turns: Turns | None = None
    """What lets other programs run, where the programs of the launch wait for each other."""
    _muted: dict[str, Profile] = field(default_factory=dict)

    def in_parts(self) -> None:
        """What follows has an order, or concerns one turn of a loop alone."""
        if self.turns:
            raise OneByOne

    def expect(self, shape: tuple[int, ...]) -> None:
        """A block of this shape comes next; raises Oversized where the chunk is too long for it."""
        if self.room is not None and (elements := prod(shape)) > self.room:
            raise Oversized(elements)

    @property
    def programs(self) -> int:
        return len(self.linear)

    def site(self) -> Site:
        """Innermost frame of the user's own kernel code; before its body runs, its `def`."""
        if self.at is not None:
            return self.at
        frame = sys._getframe(1)
        files = self.files
        while frame is not None:
            if frame.f_code.co_filename in files:
                return _site(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        return self.home

    def calls(self) -> tuple[int, ...]:
        """Lines of the user's kernel code that runs now, innermost first."""
        frame, lines = sys._getframe(1), []
        while frame is not None:
            if frame.f_code.co_filename in self.files:
                lines.append(frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        return tuple(lines)

    def model(self, cause: str) -> Profile:
        """The profile to use for an error of this cause at this line: muted if the session asked for that."""
        self.roundings += 1
        site = self.site()
        key = (cause, site.file, site.line)
        self.causes.add(key)
        if key in self.mute:
            if cause not in self._muted:
                self._muted[cause] = self.profile.mute(cause)
            return self._muted[cause]
        return self.profile

    @contextmanager
    def without_rounding(self) -> Iterator[None]:
        """Inside, every cause of error is silent; what is asked of the context meanwhile is not counted."""
        kept = self.profile, set(self.causes), self.roundings, self.mute
        self.profile, self.mute = self.profile.mute(*CAUSES), frozenset()
        try:
            yield
        finally:
            self.profile, causes, self.roundings, self.mute = kept
            self.causes.intersection_update(causes)

    def defect(self, code: str, message: str, site: Site | None = None) -> None:
        """A finding that is about no memory, at the user's line or at this one."""
        site = site or self.site()
        program = tuple(int(i) for i in self.pids[0])
        finding = MemoryFinding(code, message, None, program, (), site.file, site.line, 1, "combine", 0, 0, 0)
        self.memory.report(finding, np.zeros(1, np.int64))

    def lacks(self, op: str, missing: MissingRule) -> UnsupportedOp:
        """The error to raise where the profile has no rule: named after the op, at the user's line."""
        site = self.site()
        return UnsupportedOp(op, getattr(missing, "reason", "") or str(missing), site.file, site.line)

    def taint(self, code: str, op: str, message: str) -> frozenset[int]:
        self.in_parts()
        if self.active is not None:  # it may come from programs that take no part
            raise Diverge(self.active)
        return frozenset((self.add_taint(code, op, self.site(), message),))


def is_user_file(path: str) -> bool:
    return not os.path.abspath(path).startswith((TRITON_ROOT, OWN_ROOT))
