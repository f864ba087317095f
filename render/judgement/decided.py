"""A decision with everything that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from render.entry.execution import Execution
from render.explain.requests import instability_notes
from render.explain.study import Study
from render.judgement import advice
from render.judgement.composition import Judged, exact_everywhere, likely_code
from render.judgement.confirmation import ON_BOUND
from render.judgement.coverage import Coverage
from render.judgement.formulas import FormulasCompared
from render.judgement.sides import blamed
from render.judgement.written import differing, measured
from render.result.decision import Decision, Masks, follows_paper
from render.result.elements import Divergence, Witness
from render.result.records import Instability
from render.result.verdict import BudgetItem, Finding, OutputVerdict


@dataclass(frozen=True)
class Decided:
    """`masks` and `decisions` by output, `decision` for the whole. `witness`, `left`, `weak`: second opinion, departure
    from the reference, instability; `formulas`: both sides without rounding; `defect`: the code of a
    bound that no second evaluation confirms, or ""; `covered`: which tensors were compared."""

    findings: list[Finding]
    masks: list[Masks | None]
    decisions: list[Decision]
    decision: Decision
    study: Study
    witness: Witness | None
    left: Divergence | None
    weak: Instability | None
    formulas: FormulasCompared
    defect: str
    covered: Coverage

    @property
    def notes(self) -> list[str]:
        """What the second looks found, in words."""
        said = [x.sentence for x in (self.witness, self.left) if x]
        said += [*self.formulas.notes, *self.covered.vouched]
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
        return differing(found, self.formulas.answers, self.decision)


def cause_of(items: Sequence[BudgetItem], run: Execution, judged: list[Judged]) -> str:
    """The code of a Type-I: its largest cause."""
    return advice.code_of(items) if items or exact_everywhere(judged) else likely_code(run)
