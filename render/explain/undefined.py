"""Masked-off lanes of a load without `other`: zero here and as NVIDIA and AMD lower them, undefined by the language.

Whether one reaches an output is found by running again, values only, with NaN and then with numbers in those lanes:
an output that changes is computed from them. (A NaN is passed over by maximum and minimum, of two numbers of either
sign each passes one.) Where
programs and launches hand nothing to each other, those that have such lanes run alone first: if nothing that they
store changes, nothing does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from render.entry.execution import FAILURES, WORTH_WORK, Entry, Execution
from render.interpreter.events import Listener, listened
from render.interpreter.handle import Handle
from render.result.decision import Decision
from render.result.verdict import Finding

CODE = "RND311"
FILLERS = (float("nan"), 1234.5, -1234.5)
FILLED = ("sm_", "gfx")
"""Targets whose compiler is known to put zeros there: Triton's lowering of masked loads for NVIDIA and AMD, which
tests/render/explain/test_undefined.py reads in what is compiled here."""
FEW = 4
"""Programs with such lanes run alone where they are at most one in so many."""
NOT_TRIED = "whether masked-off lanes of loads without `other` reach an output could not be tried"


@dataclass(frozen=True)
class Undefined:
    """The outputs that such lanes reach, and the lines of the loads; `filled`: the target is known to zero them."""

    outputs: tuple[str, ...] = ()
    sites: tuple[Any, ...] = ()
    filled: bool = False
    tried: bool = True

    @property
    def sentence(self) -> str:
        places = ", ".join(f"{os.path.basename(s.file)}:{s.line}" for s in self.sites)
        return f"{self._read} ({places}): they read 0 here, the language leaves them undefined"

    @property
    def _read(self) -> str:
        several = "s" if len(self.outputs) == 1 else ""
        return f"{', '.join(self.outputs)} depend{several} on masked-off lanes of a load without `other`"

    @property
    def findings(self) -> list[Finding]:
        """One for each load."""
        return [Finding(CODE, self._read, file=s.file, line=s.line, kind="load") for s in self.sites if self.outputs]

    def decided(self, decision: Decision) -> Decision:
        """Nothing better than Inconclusive, unless the target is known to fill them."""
        if decision.label != "Type-I" or not self.outputs or self.filled:
            return decision
        with_zeros = "with zeros there, as on NVIDIA and AMD, it is Type-I"
        return Decision("Inconclusive", CODE, f"{self._read}, which are undefined; {with_zeros}")


def undefined(entry: Entry, run: Execution) -> Undefined:
    sites = tuple(sorted(run.session.undefined_sites, key=lambda s: (s.file, s.line)))
    if not sites:
        return Undefined()
    if run.work > WORTH_WORK:
        return Undefined(tried=False)
    filled = run.session.profile.name.startswith(FILLED)
    if _untouched_alone(entry, run):
        return Undefined()
    for filler in FILLERS:
        options = {**entry.options, "undefined": filler, "interval": False}
        try:
            again = Entry(entry.fn, entry.inputs, entry.device, entry.seed, options).run()
        except FAILURES:  # a branch that such a number takes
            return Undefined(tried=False)
        again.session.forget()
        if changed := _changed(run, again):
            return Undefined(tuple(changed), sites, filled)
    return Undefined()


class _Only(Listener):
    """Runs these programs of a launch and keeps what they store and where; `handed`: they used an atomic, and so may
    have what others left there."""

    def __init__(self, programs: set[int]) -> None:
        self.programs = np.array(sorted(programs))
        self.handed = False
        self.stored: list[tuple[np.ndarray, np.ndarray]] = []

    def order(self, usual: np.ndarray) -> np.ndarray:
        return usual[np.isin(usual, self.programs)]

    def before_atomic(self, ptr: Handle, value: Handle | None, mask: Handle | None) -> None:
        self.handed = True

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        if op != "store" or args[1] is None:
            return
        ptr, value, mask = args
        places, values = np.broadcast_arrays(ptr.full(ptr.v), value.full(value.v))
        if mask is not None:
            active = np.broadcast_to(mask.full(mask.v), places.shape)
            places, values = places[active], values[active]
        storage = self.context.memory.find(int(places.flat[0])) if places.size else None
        base = 0 if storage is None else storage.base
        self.stored.append((places.ravel() - base, np.array(values).ravel()))

    def as_in(self, other: _Only) -> bool:
        """Whether the same was stored to the same places."""
        pairs = zip(self.stored, other.stored, strict=False)
        return len(self.stored) == len(other.stored) and all(
            np.array_equal(at, there) and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
            for (at, x), (there, y) in pairs
        )


def _untouched_alone(entry: Entry, run: Execution) -> bool:
    """Whether the programs with such lanes, run alone, store the same whatever is there: enough where no other reads
    it."""
    programs = set[int]().union(*run.session.undefined_sites.values())
    launches = run.session.launches
    total = sum(int(np.prod(launch.grid)) for launch in launches)
    if run.aside or not run.apart or "builder" in entry.options or FEW * len(programs) * len(launches) > total:
        return False
    seen: list[_Only] = []
    for filler in (None, *FILLERS):
        seen.append(only := _Only(programs))
        options = {**entry.options, "undefined": filler, "interval": False, "builder": listened(only)}
        try:
            Entry(entry.fn, entry.inputs, entry.device, entry.seed, options).given()
        except FAILURES:
            return False
        only.context.memory.forget()
        if only.handed or not only.stored or not only.as_in(seen[0]):
            return False
    return True


def _changed(run: Execution, again: Execution) -> Sequence[str]:
    pairs = zip(run.outputs, again.outputs, strict=True)
    return [x.name for x, y in pairs if not np.array_equal(x.value, y.value, equal_nan=True)]
