"""Is what lies within the bound as accurate as the precision that the kernel declares? Sums kept too short say no.

A bound holds what a split-K with float16 partials loses, and what a float16 accumulator does. Of outputs that are
called round-off and keep sums in fewer bits than float32 it is counted how many elements are further from E than the
declared precision typically makes (`trace.declared`, an estimate): of the kernel's, and of the reference's, so that a
reference that keeps its sums as short accuses nobody. Many of the kernel's, few of the reference's: legal and
systematically less accurate, Type-I *degraded* (RND111) with the line that keeps the sums. What the accumulators lose
on their own terms is simulated (a measurement) and stands in the evidence with its index (VRR); neither changes a
label.

A device output whose errors are larger than those of the run, a legal execution, by a factor and in many elements,
under a bound of many tolerances, with accumulators that suffice, is explained by nothing: Inconclusive (RND301).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from render.entry.execution import Entry, Execution
from render.judgement.unrounded import comparable
from render.result.decision import EQUAL, Case, Decision
from render.result.loose import LOOSE, off, reproduced, rounding_of, width_of
from render.result.margins import SIGMA
from render.result.records import Differs, Evidence
from render.result.verdict import OutputVerdict
from render.trace.accumulation.swamping import Swamping, evidence_of, of_slices
from render.trace.accumulation.terms import MOST
from render.trace.declared import DeclaredBand, band_from, bands_of, first_look
from render.trace.model import Slice

DEGRADED, PROBABLE, POWERLESS = "RND111", "RND120", "RND301"
MANY = 1 / 100
"""Part of the elements outside of the declared band from which on an output is degraded; a choice."""
FEW = 1 / 2
"""Part of the kernel's number that the reference has outside at most."""
LOW = frozenset(["lowacc", "cast", "narrow", "atomics"])
"""Causes that keep a sum in fewer bits."""


@dataclass(frozen=True)
class Accuracy:
    """Of one output: elements outside of the declared band on either side, and what its accumulators lose."""

    band: DeclaredBand
    outside: int
    reference: int
    elements: int
    worst: float
    sums: tuple[Swamping, ...]

    @property
    def many(self) -> bool:
        return self.outside >= max(1.0, MANY * self.elements)

    @property
    def worse(self) -> bool:
        return self.many and self.reference <= FEW * self.outside

    @property
    def short(self) -> bool:
        return any(s.short for s in self.sums)

    @property
    def headline(self) -> str:
        return self.band.place

    @property
    def sentence(self) -> str:
        return f"{self._counted}, up to {self.worst:.2g} times: {self.band.sentence}"

    @property
    def _counted(self) -> str:
        return (
            f"{self.outside} of {self.elements} elements of {self.band.output} (the reference: {self.reference}) are "
            "further off than float32 sums and one rounding typically are"
        )

    @property
    def evidence(self) -> Iterator[Evidence]:
        path, band = f"outputs/{self.band.output}", self.band
        said = (
            f"errors of {band.declared:.3g} times {SIGMA:g} sd of the declared precision, {band.own:.3g} times those "
            f"of the kernel's own; {band.sentence}"
        )
        yield Evidence("estimate", f"{path}/declared", band.declared, said)
        yield Evidence("measurement", f"{path}/less_accurate", self.outside, self.sentence)


def decided(
    entry: Entry, run: Execution, cases: Sequence[Case], decision: Decision, causes: Collection[str] = (),
    cut: Sequence[Slice] = (),
) -> tuple[tuple[Accuracy, ...], Decision]:  # fmt: skip
    """(what was found, the decision in its light); a code of its own stands, a probabilistic one names the sums.

    `causes`: those of the budget, which tells arithmetic in few bits from others where the run's own do not. `cut`:
    what `first_looks` asked for.
    """
    if decision.label != "Type-I" or decision.code not in (EQUAL, PROBABLE):
        return (), decision
    if LOW.isdisjoint(causes) and not any(c[0] in LOW for c in run.session.causes):
        return (), decision
    asked = [case for case in cases if _asked(case)]
    seen = {case.name: one for case in asked if (one := _settled(case, cut)) is not None}
    left = [case for case in asked if case.name not in seen]
    bands = zip(left, bands_of(entry, run, left), strict=True)
    seen |= {case.name: accuracy(case, band) for case, band in bands if band is not None}
    found = [seen[case.name] for case in asked if case.name in seen]
    of = {case.name: case for case in cases}
    for one in found:
        if one.worse and not one.short and _beyond(of[one.band.output]):
            detail = f"{one.sentence}; no accumulator loses as much, and the run is off by less than half of it"
            return tuple(found), Decision("Inconclusive", POWERLESS, detail)
    worst = _worst(found)
    if decision.code == PROBABLE:
        return tuple(found), decision._replace(detail="; ".join([decision.detail, *_named(found)]))
    return tuple(found), decision if worst is None else Decision("Type-I", DEGRADED, worst.headline)


def first_looks(run: Execution, cases: Sequence[Case], decision: Decision) -> list[tuple[str, tuple[int, ...]]]:
    """Elements that `decided` will ask for: where no more than these are needed, no other run has to be recorded."""
    if decision.label != "Type-I" or decision.code != EQUAL or not any(c[0] in LOW for c in run.session.causes):
        return []
    return [one for case in cases if _asked(case) for one in first_look(case)]


def _settled(case: Case, cut: Sequence[Slice]) -> Accuracy | None:
    """What a first look says of an output, where more elements can only widen a band that nearly all are within."""
    mine = [one for one in cut if one.output == case.name]
    if not mine:
        return None
    found = accuracy(case, band_from(case, mine))
    return None if found.many or found.band.cause is not None else found


def _named(found: Sequence[Accuracy]) -> list[str]:
    """The sums that are kept short, and what would suffice."""
    short = [s.sentence for a in found for s in a.sums if s.short]
    return [*(a.band.place for a in found if a.band.cause is not None), *short]


def _worst(found: Sequence[Accuracy]) -> Accuracy | None:
    return max((a for a in found if a.worse and a.band.cause is not None), key=lambda a: a.worst, default=None)


def coded(outputs: list[OutputVerdict], found: Sequence[Accuracy], decision: Decision) -> list[OutputVerdict]:
    """The outputs that are degraded with that code."""
    worse = {a.band.output for a in found if a.worse and decision.code == DEGRADED}
    return [replace(o, code=DEGRADED) if o.name in worse and o.label == "Type-I" else o for o in outputs]


def place(found: Sequence[Accuracy], decision: Decision) -> tuple[str, int] | None:
    """The line that keeps the sums of a degraded output."""
    worst = _worst(found) if decision.code == DEGRADED else None
    return None if worst is None or worst.band.cause is None else (worst.band.cause.file, worst.band.cause.line)


def simulated(found: Sequence[Accuracy], others: Sequence[Swamping]) -> Iterator[Evidence]:
    """What accumulators lose on their own terms: of the outputs that were looked at here, and of `others`."""
    mine = [s for a in found for s in a.sums]
    known = {(s.file, s.line) for s in mine}
    return evidence_of([*mine, *(s for s in others if (s.file, s.line) not in known)])


def named(differs: Differs | None, found: Sequence[Accuracy]) -> Differs | None:
    """Why the outputs differ, with the low precision called by its name where that is the line."""
    if differs is None:
        return None
    low = {(c.file, c.line): c.what for a in found if (c := a.band.cause) is not None}
    one, other = (differs.file or "", differs.line), (differs.by_file or "", differs.by_line)
    return replace(differs, cause=low.get(one, differs.cause), by=low.get(other, differs.by))


def accuracy(case: Case, band: DeclaredBand) -> Accuracy:
    """Of one output, by the elements that were cut out."""
    got, ref = off(case, _got(case)), off(case, case.ref)
    with np.errstate(all="ignore"):
        worst = float(np.nan_to_num(got / band.reach).max(initial=0.0))
    here, there = (int(np.count_nonzero(x > band.reach)) for x in (got, ref))
    return Accuracy(
        band, here, there, got.size, worst, tuple(of_slices(band.slices, most=max(1, MOST // len(band.slices))))
    )


def _beyond(case: Case) -> bool:
    return not reproduced(case) and width_of([case]) > LOOSE


def _asked(case: Case) -> bool:
    """Whether many elements are off by more than one rounding."""
    if not comparable(case):
        return False
    far = np.count_nonzero(off(case, _got(case)) > rounding_of(case))
    return bool(far >= max(1.0, MANY * case.exact.size))


def _got(case: Case) -> np.ndarray:
    return case.value if case.device is None else case.device
