"""Where the width of the bound comes from, as far as a classification asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from interval_ops.profiles.profile import CAUSES
from render.entry.execution import Entry, Execution
from render.explain.budget import NOTHING, TITLES, Budget, Halves, budget, confirm, first_order, halves_of, of_outputs
from render.explain.flips import flips
from render.explain.study import Study
from render.explain.variants import ieee_products
from render.judgement.accuracy import first_looks
from render.judgement.confirmation import ON_BOUND
from render.result.decision import Case, Decision, equal
from render.result.records import LineShare
from render.result.verdict import BudgetItem, OutputVerdict


def wanted(decision: Decision) -> bool:
    """Not for a bug, unless it rests on the bound."""
    return decision.label != "Type-II" or decision.code in ON_BOUND


def host_named(found: Budget, run: Execution) -> Budget:
    """The budget with the host's own rounding by its name, where nothing else can have given bounds to a launch."""
    rounded = sorted(run.session.host_roundings.items(), key=lambda item: -item[1])
    keys = {cause for (cause, _, _), _ in rounded}
    if len(run.session.launches) != 1 or len(keys) != 1 or any(i.key in keys for i in found.items):
        return found
    (key,) = keys
    lines = tuple(LineShare(file, line, 0.0) for (_, file, line), _ in rounded)
    place = {"cause": f"{TITLES[key]}, on the host before the launch", "key": key, "file": lines[0].file}
    place["line"] = lines[0].line

    def named(item: BudgetItem) -> BudgetItem:
        return replace(item, **place, lines=(replace(lines[0], share=item.share),)) if item.key == "earlier" else item

    why = found.differs
    why = replace(why, **place) if why is not None and why.key == "earlier" else why
    return replace(found, items=[named(i) for i in found.items], differs=why)


Later = Callable[[], Budget]
"""The budget once its largest cause was left out in a run."""


def causes_of(
    entry: Entry, study: Study, run: Execution, outputs: Sequence[OutputVerdict], decision: Decision
) -> tuple[Budget, Later]:
    """The budget of a finished run, and the run that confirms it; for a Type-II to first order only, and no other run.

    Rounding is why results differ only where it explains them and the reference is not to blame.
    """
    if decision.label == "Type-II":
        found = replace(first_order(entry, run, outputs) or NOTHING, differs=None)
        return found, lambda: found
    places = [o.worst_index for o in outputs]

    def halves(of: Execution) -> Halves:
        tensors = {o.name: o for o in of.outputs}
        return halves_of([(tensors[o.name].lo, tensors[o.name].hi) for o in outputs], places)

    profile, work = run.session.profile, run.work

    def without(key: str) -> Halves | None:
        """One real run without this cause; products of whole operands for cut ones."""
        if key == "operand":
            return halves(study.run(ieee_products(profile).options))
        if key in ARITHMETIC and sum(i.key in ARITHMETIC for i in found.items) == 1:
            key = "arith"
        return halves(study.run({"mute": [key]})) if key in CAUSES else None

    full = of_outputs(outputs)
    beside = first_looks(run, study.cases, decision)
    found = budget(entry, run, outputs, full, lambda mute: halves(study.run({"mute": mute})), beside=beside)
    if found.gathered is not None:
        found = replace(found, differs=found.gathered.differs(TITLES, _differing(study.cases)))
    found = host_named(found, run)
    if found.differs is None or decision.label != "Type-I" or decision.code == "RND110":
        found = replace(found, differs=None)
    else:
        found = replace(found, differs=replace(found.differs, seen=flips(study.cases)))
    return found, cache(lambda: confirm(found, full, without, work))


ARITHMETIC = frozenset(["arith", "narrow", "contraction"])
"""What one run leaves out together: it says something of the bound where only one of them owns a part."""


def _differing(cases: Sequence[Case]) -> frozenset[str]:
    """The outputs that are not equal in every bit: their roundings are why anything differs."""
    return frozenset(c.name for c in cases if not equal(c))
