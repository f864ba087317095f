"""The parts of a verdict that are read off a finished run: memory findings, taints, the place to look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from render.entry.execution import WORTH_WORK, Execution, Tensor
from render.entry.outputs import Named, OutputPair, shape_mismatch, values
from render.entry.target import returning
from render.explain.budget import LIKELY
from render.interpreter.memory import Taint
from render.result import codes
from render.result.decision import Case, Decision
from render.result.verdict import BudgetItem, Finding, TaintNote

NEVER_WRITTEN = "RND208"
UNKNOWN = "RND302"


@dataclass(frozen=True)
class Judged:
    """A case with what is needed to describe it."""

    case: Case
    ours: Tensor
    ref_dtype: torch.dtype


def leaves_open(taint: Taint) -> bool:
    """Whether the value behind it may be any of many: of host operations without a rule, or of programs in an order."""
    return "::" in taint.op or taint.op.startswith(("host ", "atomic_"))


def untracked(ours: Tensor, ref: np.ndarray) -> Tensor:
    """An output that no kernel stored to: it says something only if it equals y_ref."""
    if np.array_equal(ours.value, ref, equal_nan=False):
        return replace(ours, tracked=True)
    nothing = np.full(ours.value.shape, np.nan)
    return replace(ours, lo=nothing, hi=nothing)


def differences(x: torch.Tensor, base: torch.Tensor) -> np.ndarray:
    """x - base of integers, exactly: float64 holds no int64 beyond 2**53, but it tells 0 from any other difference."""
    return (x.to(torch.int64) - base.to(torch.int64)).to(torch.float64).numpy()


def too_large(*tensors: torch.Tensor | None) -> bool:
    """Are these integers that float64 cannot tell apart?"""
    whole = [t for t in tensors if t is not None and t.dtype in (torch.int64, torch.uint64) and t.numel()]
    return any(int(t.to(torch.int64).max()) > 2**53 or int(t.to(torch.int64).min()) < -(2**53) for t in whole)


def with_exact(run: Execution, pairs: Iterable[OutputPair], native: Named) -> tuple[Execution, list[str]]:
    """The run with the host's exact results known as such, where one is not what the reference gave; notes on them.

    Nothing is known of them where to run again is too much work.
    """
    looked = [(run.outputs[p.kernel], native[p.reference][1]) for p in pairs]
    others = [
        t.name for t, ref in looked
        if not t.tracked and not shape_mismatch("", t.tensor, ref) and not np.array_equal(t.value, values(ref))
    ]  # fmt: skip
    exact = run.exactly().intersection(others) if others and run.work <= WORTH_WORK else frozenset[str]()
    outputs = [
        replace(t, tracked=True, given=True, made=t.made or returning(run.fn)) if t.name in exact else t
        for t in run.outputs
    ]
    notes = [f"no kernel stored to {name}: its values are the host's" for name in sorted(exact)]
    return replace(run, outputs=outputs), notes


def findings_of(run: Execution, judged: list[Judged]) -> list[Finding]:
    """Memory findings; a read of never-written memory counts only if it reaches an output."""
    reached = frozenset[int]().union(*(j.ours.taints for j in judged))
    found = []
    for f in run.session.findings:
        taint = getattr(f, "taint", None)
        if f.code == NEVER_WRITTEN and taint is not None and taint not in reached:
            continue
        found.append(Finding(f.code, f.message, f.tensor, f.program, f.index, f.file, f.line, f.count, f.kind))
    return sorted(found, key=lambda f: f.code)


def taints_of(run: Execution, judged: list[Judged]) -> list[TaintNote]:
    ids = sorted(frozenset[int]().union(*(j.ours.taints for j in judged)))
    known = [run.session.taints[i] for i in ids if i in run.session.taints]
    found = [TaintNote(t.code, t.op, t.message, t.file, t.line, t.count) for t in known if t.code != NEVER_WRITTEN]
    for j in judged:
        if not j.ours.tracked and UNKNOWN in j.case.taints:
            text = f"no kernel stored to output {j.case.name}, and how the host made it was not seen from the inputs on"
            found.append(TaintNote(UNKNOWN, "host", text))
    return found


def exact_everywhere(judged: list[Judged]) -> bool:
    """Is every bound a single point (or NaN, where a Type-I means that both sides agree on NaN)?"""
    return all(np.array_equal(j.ours.lo, j.ours.hi, equal_nan=True) for j in judged)


def likely_code(run: Execution) -> str:
    """The code of the cause that usually dominates, for when it was not measured."""
    seen = {cause[0] for cause in run.session.causes}
    return codes.of_cause(next((key for key in LIKELY if key in seen), ""))


def place_of(
    run: Execution, decision: Decision, budget: Iterable[BudgetItem], findings: list[Finding], taints: list[TaintNote],
    wrong: Iterable[str] | None = None,
) -> tuple[str | None, int]:  # fmt: skip
    """File and line to look at: the finding, the taint, the top cause, else the kernel itself.

    Of several launches it is the first that made one of the outputs `wrong`, if any are named; an input that came back
    as it was has the line that returns it, and one of another shape that of its allocation, or where the host made it,
    that which returns it.
    """
    for finding in findings:
        if finding.code == decision.code:
            return finding.file, finding.line
    for taint in taints:
        if decision.label == "Inconclusive" and taint.code == decision.code and taint.file:
            return taint.file, taint.line
    for item in budget:
        if item.file:
            return item.file, item.line
    for output in run.outputs:
        whole = output.unstored is None or not output.unstored.any()
        shaped = decision.code == "RND205" and whole
        if output.name in (wrong or ()) and (output.given or shaped):
            made = output.made or (returning(run.fn) if shaped and run.fn is not None else None)
            if made:
                return made
    launch = run.session.launches[-1 if wrong is None else first_wrong(run, wrong)]
    return launch.file, launch.line


def first_wrong(run: Execution, names: Iterable[str]) -> int:
    """The earliest launch that had the last word on one of these outputs: later ones may only have read it."""
    from render.trace.model import NotSliceable
    from render.trace.places import places

    wanted, found = set(names), []
    for output in run.outputs:
        if output.name not in wanted or not hasattr(run.session, "writers"):
            continue
        try:
            found += [place.launch for place in places(run.session.writers, output.address, output.base)][:1]
        except NotSliceable:
            continue
    return min(found, default=-1)
