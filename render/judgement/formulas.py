"""What the comparison without rounding (`judgement.unrounded`) does to a decision, and who has to agree first."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from interval_ops.profiles.profile import MissingRule
from render.entry.execution import FAILURES, Entry, Execution
from render.explain.study import Study
from render.judgement import handed, quantised, unrounded
from render.judgement.composition import Judged
from render.judgement.confirmation import Outside, all_confirmed, confirmed, rests_on_given, unconfirmed
from render.judgement.confirmation import without_rounding as exactly
from render.judgement.references import References
from render.result.decision import Case, Decision, equal
from render.result.elements import Witness
from render.result.records import Unrounded
from render.witness.unrounded import unrounded as without_rounding


@dataclass(frozen=True)
class FormulasCompared:
    """The answers per output, what follows from them, and the witness of a difference."""

    decision: Decision
    answers: tuple[Unrounded, ...] = ()
    witness: Witness | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


Sample = Sequence[tuple[tuple[int, ...], float]]
"""Elements, each with the slack of its exact value."""
Look = tuple[Unrounded | None, list[Witness]]


class Looked(NamedTuple):
    """What was asked of some elements of a run: their bound and exact values, by identity, and how."""

    run: Execution
    case: Case
    sample: Sample
    estimated: bool

    def same(self, other: Looked) -> bool:
        """A device output beside them changes nothing."""
        arrays = zip(_arrays(self.case), _arrays(other.case), strict=True)
        return self.run is other.run and all(x is y for x, y in arrays) and self[2:] == other[2:]


def _arrays(case: Case) -> tuple[np.ndarray, ...]:
    return case.lo, case.hi, case.exact


def equal_of(cases: Sequence[Case]) -> frozenset[str]:
    return frozenset(case.name for case in cases if equal(case))


@dataclass
class Comparison:
    """Asks once; the answers do not depend on a device output."""

    entry: Entry
    references: References
    places: Sequence[int]
    unread: Callable[[], handed.Unread] = handed.Unread
    """What the reference does not read."""
    _answers: list[Unrounded] | None = field(default=None, init=False)
    _asked: bool = field(default=False, init=False)
    _seen: list[tuple[Looked, Look]] = field(default_factory=list, init=False)

    def __call__(self, run: Execution, judged: Sequence[Judged], decision: Decision) -> FormulasCompared:
        """The decision in the light of F and E."""
        cases = [j.case for j in judged]
        if not unrounded.wanted(run, decision, self.references.exact):
            return FormulasCompared(decision)
        if unrounded.too_much(run):
            return self._sampled_as_handed(run, cases, decision)
        compared = self._compared(run, cases)
        if compared is None:
            return FormulasCompared(unrounded.unestablished(decision), left_out=(unrounded.NOT_KNOWN,))
        answers = tuple(compared)
        found = unrounded.decided(answers, decision, equal_of(cases))
        if answers and handed.accused(found) and (others := self.unread()):
            answers, found = self._as_handed(run, cases, decision, others, found)
        if found.code != unrounded.CODE:
            known = self.references.oracle
            witness, found = quantised.decided(self.entry, run, known, self.places, cases, found)
            return FormulasCompared(found, answers, witness, tuple(unrounded.notes(answers)))
        witness, found = self._second(run, cases, answers, found)
        return FormulasCompared(found, answers, witness)

    def _as_handed(
        self, run: Execution, cases: Sequence[Case], decision: Decision, others: handed.Unread, accused: Decision
    ) -> tuple[tuple[Unrounded, ...], Decision]:
        """The answers and what follows where these are roundings (`judgement.handed`)."""
        known, study, answers = self.references, Study(self.entry, tuple(cases)), list[Unrounded]()
        for wider in (others.widened(self.entry), others.halved(self.entry)):
            try:
                given = handed.reach(study, wider)
            except (*FAILURES, MissingRule):
                break
            answers = unrounded.unrounded(self.entry, run, known.oracle, known.exact, self.places, cases, given) or []
            found = unrounded.decided(answers, decision, equal_of(cases))
            if not handed.accused(found):
                return tuple(answers), (handed.untold(wider, accused) if wider.half else found)
        return tuple(self._answers or answers), accused

    def _sampled_as_handed(self, run: Execution, cases: Sequence[Case], decision: Decision) -> FormulasCompared:
        """The sample, and where it accuses, the same as `_as_handed`."""
        first = self._sampled(run, cases, decision)
        if not handed.accused(first.decision) or handed.accused(decision) or not (others := self.unread()):
            return first
        for wider in (others.widened(self.entry), others.halved(self.entry)):
            try:
                given = handed.reach(Study(self.entry, tuple(cases)), wider)
            except (*FAILURES, MissingRule):
                break
            found = self._sampled(run, cases, decision, given)
            if not handed.accused(found.decision):
                return replace(found, decision=handed.untold(wider, first.decision)) if wider.half else found
        return first

    def _sampled(
        self, run: Execution, cases: Sequence[Case], decision: Decision,
        given: Mapping[str, np.ndarray] = unrounded.NONE_GIVEN,
    ) -> FormulasCompared:  # fmt: skip
        """By the slices of a few elements: their witnesses are the comparison, so that none confirms another."""
        known, answers, seen = self.references, [], list[Witness]()
        for case, place in zip(cases, self.places, strict=True):
            if not unrounded.comparable(case):
                continue
            # What inputs and float64 do to E takes runs of the reference with errors beside it: asked where it matters.
            answer, found = self._looked_at(run, case, unrounded.nearby(case), False)
            if answer is not None and answer.differing:
                sample = unrounded.sampled(known.oracle, known.exact, place, case, given)
                answer, found = (None, []) if sample is None else self._looked_at(run, case, *sample)
                seen += [w for w in found if w.status == "agrees"]
            answers += [] if answer is None else [answer]
        left_out = (unrounded.TOO_MUCH,) if answers else (unrounded.NOT_KNOWN,)
        decision = decision if answers else unrounded.unestablished(decision)
        decision = unrounded.decided(answers, decision, equal_of(cases))
        witness = next(iter(seen), None) if decision.code == unrounded.CODE else None
        return FormulasCompared(decision, tuple(answers), witness, tuple(unrounded.notes(answers)), left_out)

    def _looked_at(self, run: Execution, case: Case, sample: Sample, estimated: bool) -> Look:
        """The answer of these elements with their slack, and their witnesses; None where none can be evaluated.

        Evaluated once: a second look at the same elements, as without the device output, finds the same.
        """
        asked = Looked(run, case, sample, estimated)
        for before, found in self._seen:
            if before.same(asked):
                return found
        self._seen.append((asked, self._look(asked)))
        return self._seen[-1][1]

    def _look(self, asked: Looked) -> Look:
        run, case, sample, estimated = asked
        around = [(at, float(case.exact[at]), slack) for at, slack in sample]
        claims = [Outside(case, at, "reference", e - slack, e + slack) for at, e, slack in around]
        found = all_confirmed(self.entry, run, claims, without_rounding)
        ends = [(at, slack, w.ends) for (at, slack), w in zip(sample, found, strict=True) if w.ends is not None]
        if not ends:
            return None, found
        f = tuple(np.array(x) for x in zip(*(e for _, _, e in ends), strict=True))
        slacks = np.array([slack for _, slack, _ in ends])
        return unrounded.of_slices(case, [at for at, _, _ in ends], slacks, (f[0], f[1]), estimated), found

    def _compared(self, run: Execution, cases: Sequence[Case]) -> list[Unrounded] | None:
        if not self._asked:
            self._asked = True
            known = self.references
            self._answers = unrounded.unrounded(self.entry, run, known.oracle, known.exact, self.places, cases)
        return self._answers

    def _second(
        self, run: Execution, cases: Sequence[Case], answers: Sequence[Unrounded], decision: Decision
    ) -> tuple[Witness | None, Decision]:
        """A bug only if the second evaluation agrees; one that says otherwise is a defect of ours."""
        tried = []
        by_name = {case.name: case for case in cases}
        for name, place, low, high in unrounded.claims(answers):
            claim = Outside(by_name[name], place, "reference", low, high)
            found = confirmed(self.entry, run, claim, without_rounding)
            if found.status == "disagrees" and rests_on_given(found):
                found = self._calmly(claim)
            if found.status == "agrees":
                return found, decision
            tried.append(found)
        if any(w.status == "disagrees" for w in tried):
            return unconfirmed(tried, decision)
        return tried[0], Decision("Inconclusive", "RND301", f"{decision.detail} (no second evaluation confirms it)")

    def _calmly(self, claim: Outside) -> Witness:
        """The second evaluation where host code gave bounds with the target's roundings in them: they are taken from a
        run without any, its host by torch's own float64 kernels."""
        calm = exactly(self.entry)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return confirmed(calm, calm.run(), claim, without_rounding)
        except (*FAILURES, MissingRule) as error:
            return Witness("none", claim.case.name, claim.place, f"without rounding it does not run: {error}")
