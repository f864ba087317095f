"""A finished classification, kept so that variants of it can be run and judged by the same rules."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from render.entry.execution import Entry, Execution
from render.explain.budget import Halves, halves_of
from render.result.decision import Case, Decision, compare, decide, widen, worst


@dataclass(frozen=True)
class Study:
    """The function with its inputs, and what every output was judged on."""

    entry: Entry
    cases: tuple[Case, ...]

    def run(self, options: Mapping[str, Any]) -> Execution:
        """The same call in a session with other options on top of the original ones; what it prints was seen before."""
        options = {**self.entry.options, "printer": lambda text: None, **options}
        mute = options.pop("mute", ())
        with contextlib.redirect_stdout(io.StringIO()):
            return replace(self.entry, options=options).run(mute)

    def alike(self, run: Execution) -> bool:
        """Whether another run's outputs have the shapes of these: a host may decide these by values."""
        shapes = {o.name: o.lo.shape for o in run.outputs}
        return all(case.mismatch or shapes.get(case.name) == case.lo.shape for case in self.cases)

    def with_bounds(self, run: Execution, last_rounding: bool = False) -> tuple[Case, ...]:
        """The cases with the bounds of another run; `last_rounding` adds one rounding to each output's format."""
        tensors = {o.name: o for o in run.outputs}
        found = []
        for case in self.cases:
            other = tensors[case.name]
            if case.fmt is None or case.mismatch:  # integers have no rounding: nothing to vary
                found.append(case)
                continue
            lo, hi = widen(other.lo, other.hi, case.fmt) if last_rounding else (other.lo, other.hi)
            found.append(replace(case, lo=lo, hi=hi, value=other.value, unstored=other.unstored))
        return tuple(found)


def halves(cases: tuple[Case, ...]) -> Halves:
    """Median half widths (and a worst element that nobody asks for)."""
    return halves_of([(c.lo, c.hi) for c in cases], [(0,) * c.lo.ndim for c in cases])


def judged(cases: tuple[Case, ...]) -> Decision:
    """What the rules say to these cases; a Type-I has no cause here."""
    decisions = [decide(case, compare(case) if not case.mismatch else None) for case in cases]
    return worst(decisions)
