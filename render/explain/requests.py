"""Explanations on request (`Options.explain`); each spends at most `explain_seconds` on runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from render.entry.execution import WORTH_WORK, Execution, on_cpu
from render.explain.counterfactuals import counterfactuals
from render.explain.study import Study
from render.reference.oracle import Oracle
from render.result.decision import Decision, compare, only_device
from render.result.elements import Divergence, Guilty
from render.result.errors import RenderError, UnsupportedOp
from render.result.options import Options
from render.result.records import Counterfactual, Instability, LineWidth, Origin, Power, factor
from render.result.verdict import BudgetItem


@dataclass(frozen=True)
class Diagnosis:
    """Of a bug: what the outputs are instead, the repair that was found, or where the worst element departs."""

    resembles: tuple[str, ...]
    guilty: Guilty | None
    left: Divergence | None

    @property
    def place(self) -> tuple[str, int] | None:
        if self.guilty is not None:
            return self.guilty.file, self.guilty.line
        if self.left is not None and self.left.established and self.left.file:
            return self.left.file, self.left.line or self.left.after_line
        return None

    @property
    def notes(self) -> list[str]:
        return [x.sentence for x in (self.guilty, self.left) if x] + list(self.resembles)


def what_if(study: Study, run: Execution, options: Options) -> tuple[list[Counterfactual], str | None]:
    """(counterfactuals that apply to this run; a note if time did not suffice for all)."""
    if "counterfactuals" not in options.explain:
        return [], None
    from render.explain.variants import variants

    causes = {cause[0] for cause in run.session.causes}
    todo = variants(run.session.profile, causes)
    found, left = counterfactuals(study, todo, options.explain_seconds, run.seconds, options.progress)
    note = (
        f"{left} counterfactuals were left out (they would take more than {options.explain_seconds:.0f} s)"
        if left
        else None
    )
    return found, note


def seeded_faults(study: Study, run: Execution, decision: Decision, options: Options) -> tuple[Power | None, Decision]:
    """(power, the decision in its light). Power is asked of what is in bound: a Type-I, or a bound that zeros fit."""
    if "power" not in options.explain or decision.label == "Type-II":
        return None, decision
    from render.explain.power import hollow, power

    found = power(study, run, options.explain_seconds, options.progress)
    said = decision.label == "Type-I" and decision.code != "RND120"  # that one rests on another band
    return found, (hollow(found) if said else None) or decision


def widths(study: Study, options: Options) -> tuple[LineWidth, ...]:
    """The growth of the bound per line, if it was asked for."""
    if "lines" not in options.explain:
        return ()
    from render.explain.lines import line_widths

    return tuple(line_widths(study))


def nonfinite(study: Study, decision: Decision, work: int, options: Options) -> tuple[Origin, ...]:
    """Where NaN and infinity are made (re-runs, values only; for an infinite bound, with bounds).

    Without being asked: for the first element with one that the reference does not have (RND204), or whose bound is
    infinite (RND304). On request also those behind an element where both sides agree, and those that no output has.
    """
    if "nonfinite" not in options.explain and (decision.code not in ("RND204", "RND304") or work > WORTH_WORK):
        return ()
    from render.explain.masked import appearances
    from render.explain.nonfinite import origins

    found: tuple[Origin, ...] = ()
    if place := _nonfinite_place(study, decision):
        try:
            found = tuple(origins(study, *place, bounds=decision.code == "RND304"))
        except RenderError:  # the host made it: there is no line of the kernel to name
            found = ()
    if "nonfinite" not in options.explain:
        return found
    known = {(o.kind, o.file, o.line) for o in found}
    return found + tuple(o for o in appearances(study) if (o.kind, o.file, o.line) not in known)


WRONG = frozenset({"RND201", "RND204", "RND205", "RND211"})
"""Bugs whose line nothing else names."""


def diagnosis(
    study: Study, run: Execution, oracle: Oracle, places: list[int], decision: Decision, options: Options
) -> Diagnosis | None:
    """What the wrong outputs are instead, and the line, for a bug that the comparison with the reference shows.

    Cheap probes first; then single changes that make the kernel right; then where the worst element leaves the
    reference. Work is counted.
    """
    if decision.code not in WRONG or not options.diagnose:
        return None
    if decision.code == "RND204" and not any(
        compare(case).nonfinite.any() and not only_device(case) for case in study.cases if not case.mismatch
    ):
        return None  # the source is right, a device is not
    if decision.code == "RND205" and any(case.mismatch for case in study.cases):
        return None  # its allocation is the place
    from render.explain.guilty import guilty
    from render.explain.probes import resembles

    like = tuple(resembles(study, oracle, places))
    if any(
        run.output(case.name).given and not case.mismatch and compare(case).outside_exact.any() for case in study.cases
    ):
        return Diagnosis(like, None, None)  # an input that came back as it was
    left = departure(study, oracle) if run.work <= WORTH_WORK // 8 else None
    kernel: tuple[str, int] | None = None
    others: frozenset[tuple[str, int]] = frozenset()
    if run.work <= WORTH_WORK // 8 and (len(run.session.launches) > 1 or run.session.host_steps or left is None):
        kernel, left, host, others = _stepwise(study, oracle, left)
        if host:
            return Diagnosis(like, None, left)
    near = left.line or left.after_line if left is not None and left.established else 0
    found = guilty(study, run, near, kernel, others)
    return Diagnosis(like, found, left if found is None or "divergence" in options.explain else None)


def _stepwise(
    study: Study, oracle: Oracle, left: Divergence | None
) -> tuple[tuple[str, int] | None, Divergence | None, bool, frozenset[tuple[str, int]]]:
    """(the kernel that departs, where in it, whether it is an operation of the host, kernels that all that is wrong
    passes through), by the steps of the program."""
    from render.explain.steps import first_departure, inside

    try:
        first = first_departure(study, oracle)
    except (RenderError, UnsupportedOp):
        return None, left, False, frozenset()
    if first is None:
        return None, left, False, frozenset()
    output, index = (left.output, left.index) if left is not None else (study.cases[0].name, ())
    found = inside(study, first, output, index)
    if first.step.kernel is None:
        return None, found, first.sure, frozenset()
    place = found if found.established or left is None else left
    return first.step.kernel if first.sure else None, place, False, first.through


def weak_reference(oracle: Oracle) -> list[str]:
    """Where the reference's own error comes from, in words."""
    with on_cpu():
        found = oracle.weakest()
    if found is None:
        return []
    op, file, line, off = found
    return [f"the reference loses it in {op} ({os.path.basename(file)}:{line}): {off:.1e} of the largest element there"]


def departure(study: Study, oracle: Oracle) -> Divergence | None:
    """Where the worst element that is wrong leaves the reference."""
    from render.explain.divergence import divergence

    for case in study.cases:
        masks = None if case.mismatch else compare(case)
        bad = None if masks is None else masks.outside_exact | masks.nonfinite
        if bad is not None and bad.any():
            with np.errstate(invalid="ignore"):
                gap = np.nan_to_num(np.abs(case.value - case.exact), nan=np.inf, posinf=np.inf)
            place = np.unravel_index(int(np.argmax(np.where(bad, gap, -1.0))), gap.shape)
            index = tuple(int(i) for i in place)
            try:
                return divergence(study, oracle, case.name, index)
            except (RenderError, UnsupportedOp) as error:
                return Divergence(case.name, index, why=str(error).splitlines()[0])
    return None


def _nonfinite_place(study: Study, decision: Decision) -> tuple[str, tuple[int, ...]] | None:
    """(output, index) of the first element to ask about."""
    for case in study.cases:
        if case.mismatch:
            continue
        bad = ~np.isfinite(case.value)
        if decision.code == "RND204":
            bad &= compare(case).nonfinite
        elif decision.code == "RND304":
            bad = compare(case).unbounded
        if bad.any():
            return case.name, tuple(int(i) for i in np.argwhere(bad)[0])
    return None


ASKED = frozenset({"RND301", "RND302", "RND304"})
"""Inconclusive verdicts of which stability is asked as well: a bound that says little, or nothing (sqrt of an interval
that a difference of large numbers takes below zero)."""


def unstable(
    study: Study, run: Execution, oracle: Oracle, places: list[int], decision: Decision
) -> tuple[Instability | None, Decision]:
    """(instability, the decision in its light). Asked of what is in bound, and of bounds that say little."""
    if decision.label != "Type-I" and decision.code not in ASKED:
        return None, decision
    from render.explain.stability import cancelling_line, instability

    found = instability(study, run, oracle, places)
    if found is None or found.downgrade:
        return found, decision
    if found.file is None and run.work <= WORTH_WORK and (spot := cancelling_line(study)):
        found = replace(found, file=spot[0], line=spot[1], growth=spot[2])
    if found.grade == "unstable":
        return found, Decision("Type-II", "RND206", _lost(found))
    return found, Decision("Type-I", "RND111", _lost(found)) if decision.label == "Type-I" else decision


def _lost(found: Instability) -> str:
    where = f"{found.output}{list(found.index)}"
    rests = f"; {found.decision} rests on lost digits" if found.decision else ""
    times = f"{factor(found.eta)} times what a careful implementation of the reference loses"
    return f"the error at {where} is {times}, {found.digits:.1f} decimal digits{rests}"


def instability_notes(found: Instability) -> list[str]:
    """What was measured, in words."""
    if found.downgrade:
        eta = f"the error at {found.output}{list(found.index)} is {factor(found.eta)} times what a careful"
        return [f"{eta} implementation loses: a format inside the kernel is coarser than its inputs and outputs"
                " (downgrade)"]  # fmt: skip
    notes = [f"{_lost(found)} (limit 8, the reference: {factor(found.reference)})"]
    if found.file:
        place, times = f"{os.path.basename(found.file)}:{found.line}", factor(found.growth)
        if found.element:
            notes.append(f"the first result that is worse than what it is made of: {place}, {times}x")
        else:
            notes.append(f"the relative width of the bound grows most at {place}, {times}x (re-run)")
    return [*notes, *([f"better: {found.better}"] if found.better else [])]


def origin_note(origin: Origin) -> str:
    """`the first inf behind this element is made by exp (softmax.py:12): exp(89.3) = inf, ...`"""
    where = f"{os.path.basename(origin.file)}:{origin.line}"
    if origin.kernel and origin.launch:
        where += f", {origin.kernel}, launch {origin.launch}"
    what = "infinite bound" if origin.kind == "bound" else origin.kind
    if origin.reach != "output":
        made = f"{what} read from {origin.memory}" if origin.memory else f"{what} made by {origin.op}"
        fate = "is masked: no output has one" if origin.reach == "masked" else "is not behind the element looked at"
        return f"{made} ({where}) in {origin.lanes} lane{'s' * (origin.lanes != 1)} {fate}"
    passes = [n for n in origin.lines if n != origin.line]
    way = f"; it passes line{'s' * (len(passes) > 1)} {', '.join(map(str, passes))}" if passes else ""
    if origin.memory:
        return f"the first {what} behind this element is read from {origin.memory} ({where}){way}"
    example = f": {origin.operands}" if origin.operands else ""
    return f"the first {what} behind this element is made by {origin.op} ({where}){example}{way}"


def ieee_gain(known: Iterable[Counterfactual], budget: Sequence[BudgetItem]) -> Counterfactual | None:
    """What IEEE products do to the bound, from a run that was made: a counterfactual, or that of the budget."""
    for found in known:
        if found.key == "ieee":
            return found
    top = next((i for i in budget if i.key == "operand" and i.shrink > 1.0), None)
    return None if top is None else Counterfactual("ieee", 'input_precision="ieee"', top.shrink, "", "", 0.0)


_REMEDIES = {"RND103": "fp32-accumulator", "RND104": "no-casts"}


def gain_help(code: str, known: Iterable[Counterfactual]) -> list[str]:
    """What the remedy for this code's cause was measured to do, if its run was asked for."""
    return [f"{c.sentence} (re-run)" for c in known if c.key == _REMEDIES.get(code) and not c.note and c.shrink >= 1.05]


def ieee_help(found: Counterfactual | None) -> str:
    """The help line of RND101; it names a factor only where a run gave one."""
    advice = 'input_precision="ieee" in tl.dot'
    if found is None or found.note or found.shrink < 1.05:
        return f"{advice} keeps all bits of the operands"
    gain = "leaves no width" if found.shrink > 1e9 else f"shrinks this bound {factor(found.shrink)}x"
    return f"{advice} {gain} (re-run)"
