"""From one call to its verdict: run, compare, decide, and then what is worth knowing about the decision.

In stages (`Verdict.stage`), each handed to `Options.on_stage`: what the rules say of the run is *provisional*, for the
second looks may take it back; once they are made it is *checked*, with label, code and line; what takes further runs
only to be told more of it (`render.judgement.later`) is done where somebody asks, and then it is *explained*.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from interval_ops.allocator import large_blocks_kept, spare
from interval_ops.profiles.profile import MissingRule
from render.entry.execution import FAILURES, Entry, Execution, described_as
from render.entry.held import MOST
from render.entry.inputs import Inputs
from render.entry.memo import Memo
from render.entry.outputs import devices, match
from render.entry.recording import DeviceRecording
from render.entry.resolve import Reference
from render.explain.budget import NOTHING, Budget
from render.explain.downgrade import downgrade, narrowed
from render.explain.requests import diagnosis, nonfinite, seeded_faults, unstable, weak_reference, what_if, widths
from render.explain.study import Study
from render.explain.undefined import NOT_TRIED, undefined
from render.judgement import accuracy, chosen, handed, hollow, probable
from render.judgement.assumptions import assumptions
from render.judgement.blame import own_error
from render.judgement.cases import judged_of
from render.judgement.causes import causes_of, wanted
from render.judgement.composition import Judged, findings_of, taints_of, with_exact
from render.judgement.configurations import worst_of_all
from render.judgement.confirmation import DEFECTS, second_opinion
from render.judgement.coverage import coverage, in_part, sampled, scope_of
from render.judgement.decided import Decided, Rules, cause_of, equal_outputs, equalled
from render.judgement.evidence import evidence_of
from render.judgement.formulas import Comparison, FormulasCompared
from render.judgement.later import Explanations, changed, provisional
from render.judgement.memory import free_runs, older_left_alone, peak_mb
from render.judgement.otherwise import otherwise
from render.judgement.precision import finer
from render.judgement.quotes import quoted
from render.judgement.references import References, Timing
from render.judgement.written import (
    explained,
    unsupported,
    with_diagnosis,
    with_downgrade,
    with_instability,
    with_origins,
    with_place,
    written,
)
from render.result.decision import CARRIES, Decision, Masks, compare, decide, rests_on_rounding, worst
from render.result.defects import add, collected
from render.result.elements import Witness
from render.result.errors import RenderError, UnsupportedOp
from render.result.options import Options
from render.result.records import Instability
from render.result.verdict import Finding, Outputs, OutputVerdict, Verdict

HELD_IN_PART = f"the functions hold more than {MOST} objects: of the rest nothing is put back between runs"


@dataclass
class Judgement:
    """One classification; `verdict` is the whole of it. `told`: notes on how the function was found."""

    fn: Callable[..., Any]
    inputs: Inputs
    reference: Reference
    recorded: Any
    options: Options
    told: tuple[str, ...] = ()
    memo: Memo = field(default_factory=Memo, repr=False)
    session: Any = field(default=None, init=False, repr=False)
    provenance: str = field(default="", init=False, repr=False)
    confirming: Callable[[], Budget] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.inputs = self.inputs.beside(self.fn, self.reference.fn)
        if self.inputs.held is not None and self.inputs.held.partly and HELD_IN_PART not in self.told:
            self.told = (*self.told, HELD_IN_PART)

    def verdict(self) -> Verdict:
        """The verdict of every check, or without `Options.wait` the provisional one, which has the others to come."""
        if self.options.configs == "all":
            return self._told(lambda: worst_of_all(self._configured))
        with older_left_alone():
            found = self._told(self._verdict)
            return found.wait("checked") if self.options.wait else found

    def _told(self, step: Callable[[], Verdict]) -> Verdict:
        """What a step gives, with the lines that it points to and what was caught since the first, for who listens."""
        kept = self.inputs.held.lent() if self.inputs.held is not None else nullcontext()
        with older_left_alone(), large_blocks_kept(), described_as(self.options.device), collected() as caught, kept:
            found = step()
        for defect in found.defects:
            add(caught, defect)
        found = quoted(replace(found, defects=tuple(caught.values())))
        if self.options.on_stage is not None:
            self.options.on_stage(found)
        return found

    def _quietly(self, step: Callable[[], Verdict]) -> Verdict:
        """The same of a second look: infinities of outputs meet there, and what numpy has to tell of the user's code it
        told when that ran first."""
        with np.errstate(all="ignore"):
            return self._told(step)

    def _configured(self, config: Mapping[str, int]) -> tuple[Verdict, Any]:
        """The verdict with these autotune configurations, and the session that they ran in, if there was one."""
        session = {**self.options.session, "config": config}
        one = replace(self, options=replace(self.options, session=session, on_stage=None))
        return one._told(one._verdict).wait("checked"), one.session

    def _verdict(self) -> Verdict:
        began = time.perf_counter()
        self.timing: Timing = {"stock_equivalent_s": None}
        s = self.options
        self.entry = Entry(self.fn, self.inputs, s.device, s.seed, s.for_session)
        try:
            run = self._run()
        except (UnsupportedOp, MissingRule) as error:
            return unsupported(error, device=s.device, reference=self.reference.title, timing=self._timing(began))
        self.session = run.session
        if s.configs.isdecimal() and int(s.configs) and not run.session.tuned:
            raise RenderError("RND902", f"--configs {s.configs}: no kernel has autotune configurations", "leave it out")
        run.session.forget()
        free_runs(o.value for o in run.outputs)
        self.timing["interval_s"], self.timing["interval_cpu_s"] = run.seconds, run.cpu_seconds
        run, cases, notes = self._cases(run)
        self._ruled(run, cases)
        run, cases = self._as_chosen(run, cases, notes)
        run, cases = self._as_handed(run, cases, notes)
        told = self.rules._replace(decision=in_part(run, cases, self.rules.decision))
        first = provisional(run, told, cases, self.options.device, self.reference.title, self._timing(began))
        return replace(first, later=lambda v: self._quietly(lambda: self._checked(run, cases, notes, began, v)))

    def _checked(self, run: Execution, cases: list[Judged], notes: list[str], began: float, first: Verdict) -> Verdict:
        """The verdict in the light of every check."""
        self._unsupposed(cases)
        self.undefined = undefined(self.entry, run)
        notes = [*self.told, *run.session.notes, *notes, *([self.undefined.sentence] if self.undefined.outputs else [])]
        return changed(first, self._conclude(run, cases, notes, began))

    def _run(self) -> Execution:
        """The run that is judged; recorded on the way if its causes are asked for."""
        if not self.options.budget:
            return self.entry.run()
        from render.trace.observed import observed

        return observed(self.entry)

    def _cases(self, run: Execution) -> tuple[Execution, list[Judged], list[str]]:
        """(the run, outputs with everything that they are judged on, notes); y_ref and y_dev are kept as numbers."""
        known = self.references = References(self.reference, self.inputs, self.options, self.timing, run, self.memo)
        spare()
        pairs, notes = match(run.named, known.native)
        self.places = [pair.reference for pair in pairs]
        run, said = with_exact(run, pairs, known.native)
        notes += said
        known.recompute()
        self.unread = cache(partial(handed.unread, known, self.entry, tuple(run.session.arrays)))
        self.comparison = Comparison(self.entry, known, self.places, self.unread)
        recorded = devices(self._device_output(), run.named)
        of_these = isinstance(self.recorded, DeviceRecording)
        cases = [judged_of(run, known, pair, recorded[pair.kernel], of_these) for pair in pairs]
        known.forget()
        cases = self._finer(known, cases)
        self.recorded = self.recorded is not None or None
        spare()
        return run, cases, notes

    def _finer(self, known: References, cases: list[Judged]) -> list[Judged]:
        """The outputs with E in more bits where float64's error matters."""
        began = time.perf_counter()
        cases = otherwise(known, self.places, cases)
        cases, self.finer = finer(known, self.places, cases, self.options.progress)
        if self.finer:
            self.timing["finer_s"] = time.perf_counter() - began
        return otherwise(known, self.places, cases)  # more bits decide as E did

    def _device_output(self) -> Any:
        if isinstance(self.recorded, DeviceRecording):
            self.provenance = self.recorded.sentence
            return self.recorded.outputs
        self.provenance = "given without a recording of its inputs" if self.recorded is not None else ""
        return self.recorded

    def _conclude(self, run: Execution, judged: list[Judged], notes: list[str], began: float) -> Verdict:
        """Decides, and asks what explains the decision."""
        d = self._decided(run, judged)
        study, decision = d.study, d.decision
        notes += [*self.references.exact.notes, *d.notes]  # only now: what was looked at may have added to the first
        outputs = d.outputs(judged)
        parts = self._budget(study, run, outputs, decision)
        notes += [parts.note] if parts.note else []
        price = (narrowed(study, run) or downgrade(study, run, parts)) if decision.label == "Type-I" else None
        notes += [price.sentence] if price else []
        known, keys = [j.case for j in judged], {i.key for i in parts.items}
        exactness, decision = (
            ((), decision)
            if price or d.weak
            else accuracy.decided(self.entry, run, known, decision, keys, parts.beside)
        )
        notes += [one.sentence for one in exactness if one.worse]
        what_ifs, more = what_if(study, run, self.options)
        notes += [more] if more else []
        power, decision = seeded_faults(study, run, decision, self.options)
        cause = cause_of(parts.differs, parts.items, run, judged)
        decision = d.named(decision, cause)
        outputs = accuracy.coded(d.coded(outputs, decision, cause), exactness, decision)
        found = written(
            run, decision, Outputs(outputs), parts.items, d.findings + self.undefined.findings,
            taints_of(run, judged), notes, d.paper(judged),
            device=self.options.device, reference=self.reference.title, assumptions=self._assumptions(run, decision),
            power=power, study=study, witness=d.witness, budget_basis=parts.basis, lines=widths(study, self.options),
            divergence=d.told and d.told.left, guilty=d.told and d.told.guilty,
            resembles=d.told.resembles if d.told else (),
            differs=accuracy.named(parts.differs, exactness), downgrade=price, unrounded=d.formulas.answers,
            finer=self.finer,
        )  # fmt: skip
        found = with_origins(found, nonfinite(study, decision, run.work, self.options))
        found = with_place(with_diagnosis(found, d.told), accuracy.place(exactness, decision))
        found = explained(with_instability(with_downgrade(found), d.weak), what_ifs)
        left_out = (*sampled(run, judged), *d.formulas.left_out, *(() if self.undefined.tried else (NOT_TRIED,)))
        scope = scope_of(run, self.inputs, self.options.seed, d.covered, left_out, self.provenance)
        proved = {j.case.name: self._proved(j) for j in judged}
        bands = (*(b.evidence for b in d.bands), *(e for a in exactness for e in a.evidence))
        evidence = (*evidence_of(found, proved), *bands, *accuracy.simulated(exactness, parts.sums))
        found = replace(found, timing=self._timing(began), scope=scope, evidence=evidence)
        weakest = cache(partial(weak_reference, self.references.oracle)) if decision.code == CARRIES else None
        by_name = {j.case.name: j.case for j in judged}
        rest = Explanations(
            self.inputs, self.confirming, weakest, tuple(what_ifs), proved, lambda name: own_error(by_name[name])
        )
        return replace(found, stage="checked", later=lambda v: self._quietly(lambda: rest.added(v)))

    def _ruled(self, run: Execution, judged: list[Judged]) -> None:
        """What the rules say, before any second look and before the reference's own rounding is known."""
        masks = [compare(j.case) if not j.case.mismatch else None for j in judged]
        decisions = [decide(j.case, m, supposed=True) for j, m in zip(judged, masks, strict=True)]
        self.rules = self._rules(findings_of(run, judged), masks, decisions)

    def _as_chosen(self, run: Execution, judged: list[Judged], notes: list[str]) -> tuple[Execution, list[Judged]]:
        """The run with decisions as its values make them, where bounds leave them open and that is all in the way."""
        before = self.rules
        if before.decision.code not in chosen.ASKED or (found := chosen.chosen(self.entry, judged)) is None:
            return run, judged
        found = replace(found, judged=self._finer(self.references, found.judged))
        self._ruled(found.run, found.judged)
        if not found.holds(self.rules.decision):
            self.rules = before
            return run, judged
        notes.append(found.sentence)
        self.entry, self.session = found.entry, found.run.session
        return found.run, found.judged

    def _as_handed(self, run: Execution, judged: list[Judged], notes: list[str]) -> tuple[Execution, list[Judged]]:
        """The run with the inputs that the reference does not read as roundings, where that is what accuses it."""
        before = self.rules
        if not handed.accused(before.decision) or not (others := self.unread()):
            return run, judged
        for wider in (others.widened(self.entry), others.halved(self.entry)):
            try:
                other, cases = handed.rejudged(self._study(judged), judged, wider)
            except (*FAILURES, MissingRule):
                break
            self._ruled(other, cases)
            if self.rules.decision.label != "Type-I":
                continue
            if not wider.half:
                notes.append(wider.sentence)
                self.entry, self.session = wider.entry, other.session
                return other, cases
            told = [handed.untold(wider, d) if handed.accused(d) else d for d in before.decisions]
            self.rules = before._replace(decisions=told, decision=worst(told))
            return run, judged
        self.rules = before
        return run, judged

    def _unsupposed(self, judged: list[Judged]) -> None:
        """With that rounding, where an output was supposed to rest on it."""
        findings, masks, before, _ = self.rules
        outputs = zip(judged, masks, before, strict=True)
        self.rules = self._rules(
            findings, masks, [decide(j.case, m) if rests_on_rounding(m, d) else d for j, m, d in outputs]
        )

    def _rules(self, findings: list[Finding], masks: list[Masks | None], decisions: list[Decision]) -> Rules:
        decision = worst(decisions)
        if findings:
            decision = Decision("Type-II", min(f.code for f in findings), findings[0].message)
        return Rules(findings, masks, decisions, decision)

    def _decided(self, run: Execution, judged: list[Judged]) -> Decided:
        """What the rules say, and what a second look at it says."""
        findings, masks, decisions, decision = self.rules
        study = self._study(judged)
        witness, decision = self._second_opinion(run, judged, masks, decisions, decision)
        defect = decision.code if decision.code in DEFECTS else ""
        formulas = self._formulas(run, judged, decision)
        covered = coverage(self.entry, run, judged, formulas.decision)
        weak, decision = self._unstable(run, judged, formulas.decision)
        asked = partial(hollow.decided, self.references, self.places)
        known = [j.case for j in judged]
        decision = asked(known, decision)
        bands, decision = probable.decided(self.entry, run, known, decisions, formulas.answers, decision, asked)
        decision = covered.decided(decision)
        same = equal_outputs(run, judged)
        decision = self.undefined.decided(equalled(decision, len(same) == len(judged) and covered.complete))
        decision = in_part(run, judged, decision)
        witness = witness or formulas.witness
        told = diagnosis(study, run, self.references.oracle, self.places, decision, self.options)
        return Decided(
            findings, masks, decisions, decision, study, witness, told, weak, formulas, defect, covered, same, bands
        )

    def _second_opinion(
        self, run: Execution, judged: list[Judged], masks: list[Any], decisions: list[Decision], decision: Decision
    ) -> tuple[Witness | None, Decision]:
        began = time.perf_counter()
        found = second_opinion(self.entry, run, [j.case for j in judged], masks, decisions, decision)
        if found[0] is not None:
            free_runs(j.case.value for j in judged)
            self.timing["witness_s"] = time.perf_counter() - began
        return found

    def _formulas(self, run: Execution, judged: list[Judged], decision: Decision) -> FormulasCompared:
        began = time.perf_counter()
        found = self.comparison(run, judged, decision)
        if found.answers:
            free_runs(j.case.value for j in judged)
            self.timing["unrounded_s"] = time.perf_counter() - began
        return found

    def _study(self, judged: Sequence[Judged]) -> Study:
        return Study(self.entry, tuple(j.case for j in judged))

    def _unstable(
        self, run: Execution, judged: list[Judged], decision: Decision
    ) -> tuple[Instability | None, Decision]:
        return unstable(self._study(judged), run, self.references.oracle, self.places, decision)

    def _budget(self, study: Study, run: Execution, outputs: list[OutputVerdict], decision: Decision) -> Budget:
        if not self.options.budget or not wanted(decision):
            return NOTHING
        began, cpu = time.perf_counter(), time.process_time()
        found, self.confirming = causes_of(self.entry, study, run, outputs, decision)
        free_runs(o.bound.lo for o in outputs)
        self.timing["budget_s"], self.timing["budget_cpu_s"] = time.perf_counter() - began, time.process_time() - cpu
        return found

    def _proved(self, j: Judged) -> bool:
        """Whether E is proved in this output; where its margin decided nothing it was not looked at."""
        known = self.references.exact.bounded and not j.case.mismatch
        return known and bool(np.all(j.case.proved()))

    def _assumptions(self, run: Execution, decision: Decision) -> tuple[str, ...]:
        exact = self.references.exact.assumption
        return assumptions(run, self.options, decision, exact, self.recorded is not None)

    def _timing(self, began: float) -> Timing:
        self.timing["total_s"] = time.perf_counter() - began
        self.timing["peak_rss_mb"] = peak_mb()
        return self.timing
