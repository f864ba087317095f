"""The verdict as it is handed out, and what later findings add to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from interval_ops.profiles.profile import MissingRule
from render.entry.execution import Execution
from render.explain.requests import WRONG, Diagnosis, gain_help, ieee_gain, ieee_help, origin_note
from render.judgement import advice
from render.judgement.assumptions import compiler_of
from render.judgement.blame import blamed
from render.judgement.composition import UNKNOWN, Judged, place_of
from render.judgement.measure import measure, unmeasured
from render.judgement.unrounded import CODE
from render.result.blockwise import some
from render.result.codes import CODES, EXIT_CODES, of_cause
from render.result.decision import Decision, Masks
from render.result.errors import Endless, UnsupportedOp
from render.result.records import Counterfactual, Instability, Origin, Unrounded
from render.result.verdict import BudgetItem, Finding, Outputs, OutputVerdict, TaintNote, Verdict
from render.result.versions import versions


def measured(judged: list[Judged], masks: list[Masks | None], decisions: list[Decision]) -> list[OutputVerdict]:
    """The numbers of every output."""
    found = []
    for j, m, d in zip(judged, masks, decisions, strict=True):
        if m is None:
            found.append(unmeasured(j.case.name, j.ours.tensor, d, j.ref_dtype))
        else:
            tainted = int((m.top & ~m.settled).sum()) if some(m.top) else 0
            found.append(measure(j.case, m, d, j.ours.tensor.dtype, j.ref_dtype, tainted))
    return found


def differing(outputs: list[OutputVerdict], answers: Sequence[Unrounded], decision: Decision) -> list[OutputVerdict]:
    """The outputs with the decision where theirs is called round-off and differs without any."""
    if decision.code not in (CODE, "RND301", "RND306"):
        return outputs
    shown = {a.output for a in answers if a.shown}
    found = [
        replace(o, label=decision.label, code=decision.code) if o.name in shown and o.label == "Type-I" else o
        for o in outputs
    ]
    wrong = "formula" if decision.code == CODE else "unknown"
    for name in shown:
        found = blamed(found, wrong, name)
    return found


def written(
    run: Execution, decision: Decision, outputs: Outputs, budget: Sequence[BudgetItem], findings: list[Finding],
    taints: list[TaintNote], notes: list[str], paper: bool, **known: Any,
) -> Verdict:  # fmt: skip
    """The verdict; `known` are fields that the run does not say."""
    owners = [] if decision.label == "Type-II" else budget
    why = known.get("differs")
    wrong = [o.name for o in outputs if o.label == decision.label == "Type-II" and o.code == decision.code]
    file, line = place_of(run, decision, owners, findings, taints, wrong or None)
    key = owners[0].key if owners and not findings else ""
    if why is not None and decision.label == "Type-I" and why.place[0] and of_cause(why.leading) == decision.code:
        (file, line), key = why.place, why.leading
    first, last = advice.columns(file, line, key)
    if taints and decision.label != "Inconclusive":
        notes = [*notes, f"{taints[0].message} ({taints[0].code}): part of the output has no sound bound"]
    return Verdict(
        label=decision.label, code=decision.code, subtype=advice.subtype(decision.code, outputs),
        paper_rule="Type-I" if paper else "Type-II",
        message=advice.message(decision.code, decision.detail, taints),
        kernels=tuple(dict.fromkeys(launch.kernel for launch in run.session.launches)),
        grid=tuple(run.session.launches[-1].grid), outputs=outputs, budget=tuple(budget), findings=tuple(findings),
        taints=tuple(taints), notes=tuple(dict.fromkeys(notes)), versions=versions(),
        exit_code=EXIT_CODES[decision.label], file=file, line=line, column=first, end_column=last,
        compiler=compiler_of(run.session), **known,
    )  # fmt: skip


def unsupported(error: UnsupportedOp | MissingRule, **known: Any) -> Verdict:
    """Nothing was guessed: the interpreter stopped at an operation without a rule, or where a kernel does not end."""
    op = error.op if isinstance(error, UnsupportedOp) else error.name
    file, line = getattr(error, "file", None), getattr(error, "line", None) or 0
    first, last = advice.columns(file, line)
    row = CODES[error.code if isinstance(error, Endless) else UNKNOWN]
    assert row.label is not None
    given_up = isinstance(error, Endless)
    return Verdict(
        label=row.label, code=row.code, subtype=row.subtype if given_up else "taint", paper_rule="unknown",
        message=row.sentence.format(detail=error) if given_up else f"cannot tell: {error}",
        taints=() if given_up else (TaintNote(UNKNOWN, op, str(error), file, line),), versions=versions(),
        exit_code=row.exit_code, file=file, line=line, column=first, end_column=last,
        help=tuple(advice.advice(row.code, ())), **known,
    )  # fmt: skip


def with_instability(verdict: Verdict, weak: Instability | None) -> Verdict:
    """The verdict with the output to blame, and the line where digits are lost as the place to look at."""
    if weak is None:
        return verdict
    verdict = replace(verdict, instability=weak)
    if weak.downgrade:
        return replace(verdict, subtype="downgrade")
    if verdict.code not in ("RND206", "RND111"):
        return verdict
    outputs = [
        replace(o, label=verdict.label, code=verdict.code) if o.name == weak.output else o for o in verdict.outputs
    ]
    outputs = blamed(outputs, "unstable", weak.output) if verdict.code == "RND206" else outputs
    verdict = replace(verdict, outputs=Outputs(outputs))
    return with_place(verdict, (weak.file, weak.line) if weak.file else None)


def with_place(verdict: Verdict, place: tuple[str, int] | None) -> Verdict:
    """The verdict with this line as the place to look at."""
    if place is None:
        return verdict
    first, last = advice.columns(*place, "arith")
    return replace(verdict, file=place[0], line=place[1], column=first, end_column=last)


def with_diagnosis(verdict: Verdict, told: Diagnosis | None) -> Verdict:
    """The verdict with the guilty line as the place to look at: first of all, where host code put the number."""
    put_by = verdict.witness and verdict.witness.put_by
    found = put_by or (told and told.place)
    if not found or verdict.code not in WRONG:
        return verdict
    file, line = found
    first, last = advice.columns(file, line)
    return replace(verdict, file=file, line=line, column=first, end_column=last)


def with_downgrade(verdict: Verdict) -> Verdict:
    """The verdict with the subtype that says so; a seeded fault may have made it Inconclusive since."""
    priced = verdict.downgrade is not None and verdict.label == "Type-I"
    return replace(verdict, subtype="downgrade") if priced else verdict


def with_origins(verdict: Verdict, origins: tuple[Origin, ...]) -> Verdict:
    """The verdict with the place where its NaN or infinity was made as the place to look at."""
    if not origins:
        return verdict
    file, line = origins[0].file, origins[0].line
    first, last = advice.columns(file, line)
    notes = (*verdict.notes, *(origin_note(o) for o in origins))
    if verdict.code not in ("RND204", "RND304") or origins[0].reach != "output":
        return replace(verdict, origins=origins, notes=notes)
    return replace(verdict, origins=origins, notes=notes, file=file, line=line, column=first, end_column=last)


def explained(verdict: Verdict, what_ifs: list[Counterfactual]) -> Verdict:
    """The verdict with help that quotes only what was run."""
    gain = ieee_gain(what_ifs, verdict.budget) if verdict.code == "RND101" else None
    help = advice.advice(verdict.code, verdict.outputs, ieee_help(gain))
    weak = verdict.instability
    if verdict.code == "RND111" and weak is None:  # sums that are kept short, not a form that loses digits
        help = help[::-1]
    help = [
        *([weak.better] if weak and weak.better and not weak.downgrade else ()),
        *gain_help(verdict.code, what_ifs),
        *help,
    ]
    return replace(verdict, help=tuple(help), counterfactuals=tuple(what_ifs))
