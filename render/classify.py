"""Is the difference between a kernel and its reference round-off or a bug?

`classify` runs the unedited entry function in the interpreter, the reference as it is and in float64, hands the arrays
to the rules (`render.judge`) and asks, for what is round-off, where the width of the bound comes from.
"""

from __future__ import annotations

import gc
import platform
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interval_ops.profile import CAUSES, CONTRACTIONS, NEWEST, SUM_ORDERS, MissingRule
from render import advice, execution
from render.allocator import large_blocks_kept, trim
from render.budget import NOTHING, Budget, Halves, budget, confirm, first_order, halves_of
from render.compose import (
    NEVER_WRITTEN,
    UNKNOWN,
    Judged,
    differences,
    exact_everywhere,
    findings_of,
    likely_code,
    place_of,
    taints_of,
    too_large,
    untracked,
    versions,
)
from render.errors import RenderError, UnsupportedOp
from render.execution import Entry, Execution
from render.explain.asked import (
    SECONDS,
    Asked,
    departure,
    gain_help,
    ieee_gain,
    ieee_help,
    instability_notes,
    nonfinite,
    of_names,
    origin_note,
    seeded_faults,
    unstable,
    what_if,
    widths,
)
from render.explain.counterfactuals import Progress
from render.explain.records import Counterfactual, Instability, Origin, Witness
from render.explain.study import Study
from render.explain.variants import ieee_products
from render.inputs import Inputs, gather, of_call
from render.judge import Case, Decision, compare, decide, follows_paper, worst
from render.measure import measure, unmeasured
from render.noise import TORCH_FORMATS
from render.oracle import Ends, Exact, Oracle, array
from render.outputs import Named, Pair, devices, match, of_reference, shape_mismatch
from render.reference import Reference, plans, resolve
from render.reference import run as run_reference
from render.script import left_out_note
from render.sides import blamed
from render.target import find_entry, load_module
from render.tf32 import reference_precision
from render.undefined import undefined_note
from render.verdict import EXIT_CODES, BudgetItem, Finding, Outputs, OutputVerdict, TaintNote, Verdict
from render.witness.second import DEFECT, ON_BOUND, second_opinion


def classify(
    fn: Callable[..., Any],
    *inputs: Any,
    ref: str | Callable[..., Any] | None = None,
    device: str = "any",
    output: Any = None,
    seed: int = 0,
    ref_precision: str = "ieee",
    budget: bool = True,
    explain: Iterable[str] = (),
    explain_seconds: float = SECONDS,
    progress: Progress | None = None,
    sum_order: str = "any",
    fp_contraction: str = "any",
    triton_version: str | None = None,
    options: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Verdict:
    """Judge `fn(*inputs, **keywords)`, which launches Triton kernels, against the reference `ref`.

    `device` names the profile whose legal executions the bound covers; `output` is what a real device returned for
    the same inputs (tensors, or the path of a tensors file). `ref_precision="tf32"` says that the reference multiplied
    with TF32 operands ("tf32-rna": rounded to nearest instead of truncated). `sum_order` "tree" assumes the order of
    additions inside a program that Triton's lowering gives, `fp_contraction` says whether products that are added may
    be contracted ("on", "off"), `triton_version` which version compiles the kernel (default: the installed one).
    `options` go to the interpreter session.
    `explain` names what else to find out ("counterfactuals"), each in at most `explain_seconds` of further runs, with
    `progress(done, total, what)` called before each.
    Raises RenderError for a call that cannot be judged and KernelError for what the user's own code raises.
    """
    if not callable(fn):
        hint = "pass the function that launches the kernel"
        raise RenderError("RND902", f"{type(fn).__name__} is not a function", hint)
    given = of_call(fn, inputs, keywords)
    asked = of_names(explain, explain_seconds, progress)
    chosen = choices(sum_order, fp_contraction, triton_version, options)
    settings = Settings(device, seed, ref_precision, budget, chosen, asked)
    return Judgement(fn, given, resolve(ref), _recorded(output), settings).verdict()


def classify_file(
    path: str | Path,
    entry: str | None = None,
    ref: str | None = None,
    device: str = "any",
    inputs: str | Path | None = None,
    specs: Sequence[str] = (),
    seed: int = 0,
    output: Any = None,
    ref_precision: str = "ieee",
    budget: bool = True,
    explain: Iterable[str] = (),
    explain_seconds: float = SECONDS,
    progress: Progress | None = None,
    sum_order: str = "any",
    fp_contraction: str = "any",
    triton_version: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Verdict:
    """`classify` for a Python file: finds the entry function, the inputs and the reference in it."""
    with execution.on_cpu():
        module = load_module(path)
        fn = find_entry(module, entry, ref if isinstance(ref, str) else None)
        given = gather(fn, module, inputs, specs, seed)
    asked = of_names(explain, explain_seconds, progress)
    chosen = choices(sum_order, fp_contraction, triton_version, options)
    settings = Settings(device, seed, ref_precision, budget, chosen, asked)
    note = left_out_note(module)
    told = () if note is None else (note,)
    return Judgement(fn, given, resolve(ref, module), _recorded(output), settings, told).verdict()


def choices(
    sum_order: str, fp_contraction: str, triton_version: str | None, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Session options with what the user lets bounds assume of the compiler; nothing for what was left open."""
    asked = {"sum_order": sum_order, "fp_contraction": fp_contraction, "triton_version": triton_version}
    return {**{name: value for name, value in asked.items() if value not in (None, "any")}, **(options or {})}


def _recorded(output: Any) -> Any:
    if isinstance(output, str | Path):
        from render.tensors import load

        return load(Path(output))
    return output


LARGE = 1 << 20
"""Elements of an output from which on memory is worth a collection of garbage."""


@dataclass(frozen=True)
class Settings:
    """What does not depend on the kernel."""

    device: str
    seed: int
    ref_precision: str
    budget: bool
    options: dict[str, Any]
    asked: Asked = field(default_factory=Asked)


@dataclass
class Judgement:
    """One classification, step by step; `verdict` is the whole of it."""

    fn: Callable[..., Any]
    inputs: Inputs
    reference: Reference
    recorded: Any
    settings: Settings
    told: tuple[str, ...] = ()

    def verdict(self) -> Verdict:
        with large_blocks_kept():
            return self._verdict()

    def _verdict(self) -> Verdict:
        began = time.perf_counter()
        self.timing: dict[str, float | None] = {"stock_equivalent_s": None}
        s = self.settings
        self.entry = Entry(self.fn, self.inputs, s.device, s.seed, s.options)
        try:
            run = self.entry.run()
        except (UnsupportedOp, MissingRule) as error:
            return self._unsupported(error, began)
        run.session.forget()
        self.timing["interval_s"], self.timing["interval_cpu_s"] = run.seconds, run.cpu_seconds
        cases, notes = self._cases(run)
        undefined = undefined_note(self.entry, run)
        notes = [*self.told, *run.session.notes, *notes, *([undefined] if undefined else [])]
        return self._conclude(run, cases, notes, began)

    def _cases(self, run: Execution) -> tuple[list[Judged], list[str]]:
        """(outputs with everything that they are judged on, notes); y_ref and y_dev are kept as those numbers only."""
        native = self._reference(run)
        trim()
        pairs, notes = match(run.named, native)
        self.places = [pair.reference for pair in pairs]
        exact = self._exact(native)
        cases = [self._case(run, pair, native, exact, device) for pair, device in self._devices(run, pairs)]
        self.oracle.native = [(name, _outline(x)) for name, x in native]
        self.recorded = self.recorded is not None or None
        trim()
        return cases, notes

    # the reference
    def _reference(self, run: Execution) -> Named:
        """y_ref of every output, as the reference computes it."""
        began = time.perf_counter()
        named = run.named
        values = self.inputs.values
        written = {name for name, _ in named if name in values}
        options = plans(self.reference.fn, list(values), values, written)

        def fresh() -> Mapping[str, Any]:
            torch.manual_seed(self.settings.seed)
            return self.inputs.clone().values

        with execution.on_cpu(), reference_precision(self.settings.ref_precision):
            result, self.plan, used = run_reference(self.reference, options, fresh)
        self.timing["reference_s"] = time.perf_counter() - began
        named = [(name, _outline(x)) for name, x in named]
        self._collect = lambda result, values: of_reference(result, values, named)
        return self._collect(result, used)

    def _exact(self, native: Named) -> Exact:
        began = time.perf_counter()
        tf32 = self.settings.ref_precision != "ieee"
        seed = self.settings.seed
        self.oracle = Oracle(self.reference, self.plan, self.inputs, self._collect, native, seed, tf32)
        with execution.on_cpu():
            exact = self.oracle.exact()
        self.timing["exact_s"] = time.perf_counter() - began
        self._radius: list[np.ndarray | None] | None = None
        self.exact = exact
        return exact

    def _ends_of(self, i: int) -> Ends:
        """The interval around E of one reference output, computed when first asked for."""
        with execution.on_cpu():
            return self.exact.ends(i)

    def _radius_of(self, i: int) -> np.ndarray | None:
        """R of one reference output, computed when first asked for."""
        if self._radius is None:
            with execution.on_cpu():
                self._radius = self.oracle.radius(self.exact)
        return self._radius[i]

    def _devices(self, run: Execution, pairs: list[Pair]) -> list[tuple[Pair, torch.Tensor | None]]:
        recorded = devices(self.recorded, run.named)
        return [(pair, recorded[pair.kernel]) for pair in pairs]

    # one output
    def _case(self, run: Execution, pair: Pair, native: Named, exact: Exact, device: torch.Tensor | None) -> Judged:
        ours, theirs = run.outputs[pair.kernel], native[pair.reference][1]
        why = shape_mismatch(pair.name, ours.tensor, theirs)
        if not why and device is not None:
            why = shape_mismatch(pair.name, ours.tensor, device, "the device output")
        ref = ours.value if why else array(theirs)
        i = pair.reference
        ours = ours if ours.tracked or why else untracked(ours, ref)
        taints = {run.session.taints[t].code for t in ours.taints if t in run.session.taints} - {NEVER_WRITTEN}
        case = Case(
            pair.name, ours.value, ours.lo, ours.hi, ref,
            ref if why else exact.values[i], (lambda: (ref, ref)) if why else (lambda: self._ends_of(i)),
            fmt=TORCH_FORMATS.get(ours.tensor.dtype), ref_fmt=TORCH_FORMATS.get(theirs.dtype),
            device=None if device is None or why else array(device),
            device_fmt=None if device is None else TORCH_FORMATS.get(device.dtype),
            radius=lambda: self._radius_of(i), unstored=ours.unstored, mismatch=why,
            taints=frozenset(taints | (set() if ours.tracked or why else {UNKNOWN})),
        )  # fmt: skip
        if not why and too_large(ours.tensor, theirs, device):
            case = _as_differences(case, ours.tensor, theirs, device)
        return Judged(case, ours, theirs.dtype)

    # the answer
    def _conclude(self, run: Execution, judged: list[Judged], notes: list[str], began: float) -> Verdict:
        findings = findings_of(run, judged)
        masks = [compare(j.case) if not j.case.mismatch else None for j in judged]
        decisions = [decide(j.case, m) for j, m in zip(judged, masks, strict=True)]
        notes += self.exact.notes  # only now: computing R may have added to them
        outputs = self._measured(judged, masks, decisions)
        paper = all(
            m is not None and follows_paper(j.case, m, bool(findings)) for j, m in zip(judged, masks, strict=True)
        )
        decision = worst(decisions)
        if findings:
            decision = Decision("Type-II", min(f.code for f in findings), findings[0].message)
            outputs = blamed(outputs, "memory")
        study = Study(self.entry, tuple(j.case for j in judged))
        witness, decision = self._second_opinion(run, judged, masks, decisions, decision)
        if decision.code == DEFECT:
            outputs = [replace(o, label=decision.label, code=DEFECT) if o.code in ON_BOUND else o for o in outputs]
            outputs = blamed(outputs, "unknown")
        notes += [witness.sentence] if witness else []
        left = departure(study, self.oracle, decision, self.settings.asked)
        notes += [left.sentence] if left else []
        weak, decision = self._unstable(study, run, decision)
        notes += instability_notes(weak) if weak else []
        parts = self._budget(study, run, outputs, decision)
        items = parts.items
        notes += [parts.note] if parts.note else []
        what_ifs, more = what_if(study, run, self.settings.asked)
        notes += [more] if more else []
        power, decision = seeded_faults(study, run, decision, self.settings.asked)
        cause = advice.code_of(items) if items or exact_everywhere(judged) else likely_code(run)
        if decision.code == "RND100":
            decision = decision._replace(code=cause)
        outputs = [replace(o, code=cause) if o.code == "RND100" else o for o in outputs]
        taints = taints_of(run, judged)
        found = self._written(run, decision, Outputs(outputs), items, findings, taints, notes, paper, began)
        found = replace(found, power=power, study=study, witness=witness, budget_basis=parts.basis)
        found = replace(found, lines=widths(study, self.settings.asked))
        found = replace(found, divergence=left)
        found = self._with_origins(found, nonfinite(study, decision, run.work, self.settings.asked))
        found = self._with_instability(found, weak)
        return self._explained(found, run, what_ifs, began)

    def _second_opinion(
        self, run: Execution, judged: list[Judged], masks: list[Any], decisions: list[Decision], decision: Decision
    ) -> tuple[Witness | None, Decision]:
        began = time.perf_counter()
        found = second_opinion(self.entry, run, [j.case for j in judged], masks, decisions, decision)
        if found[0] is not None:
            _free_runs(j.case.value for j in judged)
            self.timing["witness_s"] = time.perf_counter() - began
        return found

    def _unstable(self, study: Study, run: Execution, decision: Decision) -> tuple[Instability | None, Decision]:
        return unstable(study, run, self.oracle, self.places, decision)

    def _with_instability(self, verdict: Verdict, weak: Instability | None) -> Verdict:
        """The verdict with the output to blame, and the line where the bound grows most as the place to look at."""
        if weak is None:
            return verdict
        verdict = replace(verdict, instability=weak)
        if weak.downgrade:
            return replace(verdict, subtype="downgrade")
        if verdict.code != "RND206":
            return verdict
        outputs = [
            replace(o, label=verdict.label, code=verdict.code) if o.name == weak.output else o for o in verdict.outputs
        ]
        verdict = replace(verdict, outputs=Outputs(blamed(outputs, "unstable", weak.output)))
        if not weak.file:
            return verdict
        first, last = advice.columns(weak.file, weak.line, "arith")
        return replace(verdict, file=weak.file, line=weak.line, column=first, end_column=last)

    def _with_origins(self, verdict: Verdict, origins: tuple[Origin, ...]) -> Verdict:
        """The verdict with the place where its NaN or infinity was made as the place to look at."""
        if not origins:
            return verdict
        file, line = origins[0].file, origins[0].line
        first, last = advice.columns(file, line)
        notes = (*verdict.notes, *(origin_note(o) for o in origins))
        if verdict.code not in ("RND204", "RND304") or origins[0].reach != "output":
            return replace(verdict, origins=origins, notes=notes)
        return replace(verdict, origins=origins, notes=notes, file=file, line=line, column=first, end_column=last)

    def _explained(self, verdict: Verdict, run: Execution, what_ifs: list[Counterfactual], began: float) -> Verdict:
        """The verdict with its explanations and with help that quotes only what was run."""
        gain = ieee_gain(what_ifs, verdict.budget) if verdict.code == "RND101" else None
        help = advice.advice(verdict.code, verdict.budget, verdict.outputs, ieee_help(gain))
        help = [*gain_help(verdict.code, what_ifs), *help]
        return replace(verdict, help=tuple(help), counterfactuals=tuple(what_ifs), timing=self._timing(began))

    def _measured(self, judged: list[Judged], masks: list[Any], decisions: list[Decision]) -> list[OutputVerdict]:
        found = []
        for j, m, d in zip(judged, masks, decisions, strict=True):
            if m is None:
                found.append(unmeasured(j.case.name, j.ours.tensor, d, j.ref_dtype))
            else:
                tainted = int((m.top & ~m.settled).sum())
                found.append(measure(j.case, m, d, j.ours.tensor.dtype, j.ref_dtype, tainted))
        return found

    def _budget(self, study: Study, run: Execution, outputs: list[OutputVerdict], decision: Decision) -> Budget:
        """Where the width comes from; for a Type-II that rests on it to first order only, without another whole run."""
        bug = decision.label == "Type-II"
        if not self.settings.budget or (bug and decision.code not in ON_BOUND):
            return NOTHING
        began = time.perf_counter()
        places = [o.worst_index for o in outputs]

        def halves(of: Execution) -> Halves:
            tensors = {o.name: o for o in of.outputs}
            return halves_of([(tensors[o.name].lo, tensors[o.name].hi) for o in outputs], places)

        def without(key: str) -> Halves | None:
            """One real run without this cause; products of whole operands for cut ones."""
            if key == "operand":
                return halves(study.run(ieee_products(run.session.profile).options))
            return halves(self.entry.run([key])) if key in CAUSES else None

        full = halves(run)
        if bug:
            found = first_order(self.entry, run, outputs) or NOTHING
        else:
            found = budget(self.entry, run, outputs, full, lambda mute: halves(self.entry.run(mute)))
            found = confirm(found, full, without, run.work)
        _free_runs(o.bound.lo for o in outputs)
        self.timing["budget_s"] = time.perf_counter() - began
        return found

    def _written(
        self, run: Execution, decision: Decision, outputs: Outputs, budget: list[BudgetItem], findings: list[Finding],
        taints: list[TaintNote], notes: list[str], paper: bool, began: float,
    ) -> Verdict:  # fmt: skip
        owners = [] if decision.label == "Type-II" else budget
        file, line = place_of(run, decision, owners, findings, taints)
        first, last = advice.columns(file, line, owners[0].key if owners and not findings else "")
        if taints and decision.label != "Inconclusive":
            notes.append(f"{taints[0].message} ({taints[0].code}): part of the output has no sound bound")
        return Verdict(
            label=decision.label, code=decision.code, subtype=advice.subtype(decision.code, outputs),
            paper_rule="Type-I" if paper else "Type-II",
            message=advice.message(decision.code, decision.detail, findings, taints),
            kernels=tuple(dict.fromkeys(launch.kernel for launch in run.session.launches)),
            grid=tuple(run.session.launches[-1].grid), device=self.settings.device, reference=self.reference.title,
            outputs=outputs, budget=tuple(budget), findings=tuple(findings), taints=tuple(taints),
            notes=tuple(dict.fromkeys(notes)), assumptions=self._assumptions(run, decision),
            timing=self._timing(began), versions=versions(), exit_code=EXIT_CODES[decision.label],
            file=file, line=line, column=first, end_column=last, compiler=compiler_of(run.session),
        )  # fmt: skip

    def _assumptions(self, run: Execution, decision: Decision) -> tuple[str, ...]:
        profile = getattr(run.session, "profile", None)
        title = getattr(profile, "title", self.settings.device)
        confidence = getattr(profile, "confidence", "")
        lines = [
            f"device {self.settings.device}: {title}" + (f" ({confidence})" if confidence else ""),
            *_compiled(profile),
            self.exact.assumption,
        ]
        if self.settings.ref_precision != "ieee":
            lines.append(f"the reference's float32 products take {self.settings.ref_precision} operands (emulated)")
        if decision.code == "RND110":
            lines.append("the rounding of the reference itself: any order, errors of its own dtypes, to first order")
        if self.recorded is None:
            lines.append("no device output: nothing is said about compiler or hardware")
        return tuple(lines)

    def _timing(self, began: float) -> dict[str, float | None]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.timing["total_s"] = time.perf_counter() - began
        self.timing["peak_rss_mb"] = peak / (2**20 if platform.system() == "Darwin" else 1024)
        return self.timing

    def _unsupported(self, error: UnsupportedOp | MissingRule, began: float) -> Verdict:
        """Nothing was guessed: the interpreter stopped at an operation without a rule."""
        op = error.op if isinstance(error, UnsupportedOp) else error.name
        file, line = getattr(error, "file", None), getattr(error, "line", None) or 0
        first, last = advice.columns(file, line)
        return Verdict(
            label="Inconclusive", code=UNKNOWN, subtype="taint", paper_rule="unknown", message=f"cannot tell: {error}",
            device=self.settings.device, reference=self.reference.title,
            taints=(TaintNote(UNKNOWN, op, str(error), file, line),), timing=self._timing(began), versions=versions(),
            exit_code=EXIT_CODES["Inconclusive"], file=file, line=line, column=first, end_column=last,
            help=tuple(advice.advice(UNKNOWN, (), ())),
        )  # fmt: skip


def compiler_of(session: Any) -> dict[str, str]:
    """What bounds assume of the compiler, as the options that say so."""
    profile = getattr(session, "profile", None)
    if profile is None:
        return {}
    version = ".".join(map(str, profile.triton))
    return {"sum_order": profile.sum_order, "fp_contraction": profile.contraction, "triton": version}


def _compiled(profile: Any) -> Iterator[str]:
    """What is assumed of the compiler: order of additions, contraction, version."""
    if profile is None:
        return
    yield f"{SUM_ORDERS[profile.sum_order]}, {CONTRACTIONS[profile.contraction]}"
    if profile.known_order and not profile.trees:
        since = ".".join(map(str, profile.tree_since))
        yield f"reductions in any order: they are balanced trees from Triton {since} on only"
    if profile.known_order or profile.triton != NEWEST:
        yield f"compiled by Triton {'.'.join(map(str, profile.triton))}"


def _free_runs(outputs: Iterable[np.ndarray]) -> None:
    """Collects what further runs of a large case left behind: their sessions refer to themselves."""
    if any(x.size >= LARGE for x in outputs):
        gc.collect()
        trim()


def _outline(x: torch.Tensor) -> torch.Tensor:
    """Shape and dtype of a float tensor, without its memory; integers are looked at again, so they stay."""
    return x.to("meta") if x.is_floating_point() else x


def _as_differences(case: Case, ours: torch.Tensor, theirs: torch.Tensor, device: torch.Tensor | None) -> Case:
    """The case of large integers with y_ref as origin; such integers are exact on both sides."""
    zero = np.zeros(case.value.shape)
    value = differences(ours, theirs)
    return replace(
        case, value=value, lo=value, hi=value, ref=zero, exact=zero, exact_ends=lambda: (zero, zero),
        device=None if device is None else differences(device, theirs),
    )  # fmt: skip
