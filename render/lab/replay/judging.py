"""Judges one case twice from one execution: with its device output, and at source level without it.

Nothing of the ground truth passes here: the classifier gets the functions of the file, their inputs, the profile, the
declared precision of the reference and the device output, as a user would give them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from interval_ops.allocator import trim
from render.entry.execution import Entry, Execution
from render.entry.resolve import resolve
from render.judgement.composition import Judged
from render.judgement.decided import Decided, cause_of
from render.judgement.memory import free_runs
from render.judgement.steps import Judgement
from render.lab.corpus import device_models
from render.result.decision import EQUAL, Decision
from render.result.options import Options
from render.result.records import Differs, Instability
from render.result.verdict import BudgetItem, Verdict

if TYPE_CHECKING:
    from types import ModuleType

    from render.entry.inputs import Inputs
    from render.lab.corpus.case import CorpusCase


class SourceLevel(NamedTuple):
    """The verdict at source level."""

    label: str
    code: str


@dataclass
class Twofold(Judgement):
    """A judgement that keeps its execution, so that the verdict without the device output costs no second one.

    `recorded` makes the device output (None: there is none) when it is first compared: until then it needs no memory.
    """

    model_s: float = field(default=0.0, init=False)
    execution: Execution | None = field(default=None, init=False)
    judged: list[Judged] = field(default_factory=list, init=False)
    _weak: tuple[Decision, tuple[Instability | None, Decision]] | None = field(default=None, init=False)

    def _device_output(self) -> Any:
        began = time.perf_counter()
        self.recorded = self.recorded()
        self.model_s = time.perf_counter() - began
        trim()
        return self.recorded

    def _conclude(self, run: Execution, judged: list[Judged], notes: list[str], began: float) -> Verdict:
        self.execution, self.judged = run, judged
        return super()._conclude(run, judged, notes, began)

    def _unstable(
        self, run: Execution, judged: list[Judged], decision: Decision
    ) -> tuple[Instability | None, Decision]:
        """As before, if the decision is the same as before: it does not depend on the device output."""
        if self._weak is None or self._weak[0] != decision:
            self._weak = decision, super()._unstable(run, judged, decision)
        return self._weak[1]

    def source_level(self, verdict: Verdict) -> SourceLevel:
        """What `verdict` would have been without a device output.

        The bound and its causes are the same; only where none were looked for do they have to be found now.
        """
        if self.execution is None or all(j.case.device is None for j in self.judged):
            return SourceLevel(verdict.label, verdict.code)
        free_runs(j.case.value for j in self.judged)
        bare = [replace(j, case=replace(j.case, device=None, device_fmt=None)) for j in self.judged]
        self._ruled(self.execution, bare)
        self._unsupposed(bare)
        decided = self._decided(self.execution, bare)
        label, code, _ = decided.decision
        if decided.all_equal:
            pass
        elif code == EQUAL and verdict.label == "Type-I" and verdict.code != EQUAL:
            code = verdict.code
        elif code == EQUAL:
            known = (verdict.differs, verdict.budget) if verdict.budget else self._causes(decided, bare)
            code = cause_of(*known, self.execution, bare)
        return SourceLevel(label, code)

    def _causes(self, decided: Decided, bare: list[Judged]) -> tuple[Differs | None, Sequence[BudgetItem]]:
        assert self.execution is not None
        found = self._budget(decided.study, self.execution, decided.outputs(bare), decided.decision)
        return found.differs, found.items


@dataclass(frozen=True)
class Replayed:
    """A case with both verdicts and what they were made from."""

    case: CorpusCase
    module: ModuleType
    inputs: Inputs
    verdict: Verdict
    source: SourceLevel
    judged: list[Judged]
    programs: int
    model_s: float
    entry: Entry


def judge(case: CorpusCase, small: bool = False, **options: Any) -> Replayed:
    """Runs the case at its published size (`small`: at the size of the tests)."""
    module = case.load()
    inputs = case.inputs(module, small)
    facts = case.facts
    settings = Options(device=case.profile, seed=facts.seed, ref_precision=facts.reference.judged_as, session=options)  # type: ignore[arg-type]
    model = partial(device_models.generate, case, module, inputs)
    judgement = Twofold(case.entry(module), inputs, resolve(case.reference(module)), model, settings)
    verdict = judgement.verdict()
    source = judgement.source_level(verdict)
    launches = judgement.execution.session.launches if judgement.execution else []
    programs = sum(launch.programs for launch in launches)
    trim()  # several workers share the machine
    return Replayed(case, module, inputs, verdict, source, judgement.judged, programs, judgement.model_s,
                    judgement.entry)  # fmt: skip
