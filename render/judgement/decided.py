"""A decision with everything that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from render.entry.execution import Execution
from render.explain.requests import Diagnosis, instability_notes
from render.explain.study import Study
from render.judgement import advice
from render.judgement.blame import blamed
from render.judgement.composition import Judged, exact_everywhere, likely_code
from render.judgement.confirmation import ON_BOUND
from render.judgement.coverage import Coverage
from render.judgement.formulas import FormulasCompared
from render.judgement.probable import Band
from render.judgement.written import differing, measured
from render.result.codes import CAUSED
from render.result.decision import EQUAL, Decision, Masks, equal, follows_paper, hardly
from render.result.elements import Witness
from render.result.records import Differs, Instability
from render.result.verdict import BudgetItem, Finding, OutputVerdict

LITTLE = frozenset(["RND301", "RND304"])
"""Inconclusive verdicts that say that the bound tells little: nothing against outputs that are equal."""
ROUNDED = "RND104"


class Rules(NamedTuple):
    """What the rules alone say: memory findings, masks and decision by output, the decision for the whole."""

    findings: list[Finding]
    masks: list[Masks | None]
    decisions: list[Decision]
    decision: Decision


@dataclass(frozen=True)
class Decided:
    """`masks` and `decisions` by output, `decision` for the whole. `witness`, `told`, `weak`: second opinion, what the
    bug is and where, instability; `formulas`: both sides without rounding; `defect`: the code of a
    bound that no second evaluation confirms, or ""; `covered`: which tensors were compared; `same`: the outputs that
    are equal to the reference's in every bit; `bands`: the probabilistic ones where the bound is hollow."""

    findings: list[Finding]
    masks: list[Masks | None]
    decisions: list[Decision]
    decision: Decision
    study: Study
    witness: Witness | None
    told: Diagnosis | None
    weak: Instability | None
    formulas: FormulasCompared
    defect: str
    covered: Coverage
    same: frozenset[str] = frozenset()
    bands: tuple[Band, ...] = ()

    @property
    def all_equal(self) -> bool:
        """Whether that is the verdict: every output equal in every bit."""
        return self.decision[:2] == ("Type-I", EQUAL) and self.same == {o.name for o in self.study.cases}

    def named(self, decision: Decision, cause: str) -> Decision:
        """A Type-I with the code of its cause, where it has none of its own and is not equal in every bit."""
        return decision._replace(code=cause) if decision.code == EQUAL and not self.all_equal else decision

    def coded(self, outputs: list[OutputVerdict], decision: Decision, cause: str) -> list[OutputVerdict]:
        """The same for each output; of a verdict that says equal, none says anything else."""
        if decision.code == EQUAL:
            return [replace(o, label=decision.label, code=EQUAL) for o in outputs]
        return [replace(o, code=cause) if o.code == EQUAL and o.name not in self.same else o for o in outputs]

    @property
    def notes(self) -> list[str]:
        """What the second looks found, in words."""
        said = [self.witness.sentence] if self.witness else []
        said += self.told.notes if self.told else []
        said += [*self.formulas.notes, *self.covered.vouched]
        said += [n for c, m in zip(self.study.cases, self.masks, strict=True) if m and (n := hardly(c, m))]
        return said + (instability_notes(self.weak) if self.weak else [])

    def paper(self, judged: list[Judged]) -> bool:
        """The published rule alone."""
        bad = bool(self.findings)
        return all(m is not None and follows_paper(j.case, m, bad) for j, m in zip(judged, self.masks, strict=True))

    def outputs(self, judged: list[Judged]) -> list[OutputVerdict]:
        """The numbers of every output, with who is to blame."""
        found = measured(judged, self.masks, self.decisions)
        if self.findings:
            found = blamed(found, "memory")
        if self.defect:
            label = self.decision.label
            found = [replace(o, label=label, code=self.defect) if o.code in ON_BOUND else o for o in found]
            found = blamed(found, "unknown")
        hollow = {band.output for band in self.bands}
        found = [replace(o, label="Type-I", code=self.decision.code) if o.name in hollow else o for o in found]
        return differing(found, self.formulas.answers, self.decision)


def equal_outputs(run: Execution, judged: Sequence[Judged]) -> frozenset[str]:
    """The outputs with the reference's bits. Without a device's, those of a run that does what a device does: one that
    cuts operands or sums in fewer bits gives others there."""
    unlike = any(cause[0] in ("operand", "lowacc") for cause in run.session.causes)
    return frozenset(j.case.name for j in judged if equal(j.case) and not (unlike and j.case.device is None))


def equalled(decision: Decision, same: bool) -> Decision:
    """Equal in every bit is Type-I, also where the bound says little or E is not known; not behind a taint."""
    return (
        Decision("Type-I", EQUAL, "") if same and (decision.label == "Type-I" or decision.code in LITTLE) else decision
    )


def cause_of(why: Differs | None, items: Sequence[BudgetItem], run: Execution, judged: list[Judged]) -> str:
    """The code of a Type-I: why the outputs differ, where that is known; else what owns the bound.

    An exact kernel whose reference differs: the reference rounds.
    """
    if why is not None and why.leading in CAUSED:
        return CAUSED[why.leading]
    return advice.code_of(items) if items else ROUNDED if exact_everywhere(judged) else likely_code(run)
