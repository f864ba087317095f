"""The first stage of a verdict and the last: what is said before the checks, and what is told only where it is asked.

Nothing here moves a label. `Explanations.added` runs the kernel without the cause that owns most of the bound, which
confirms its share and gives the factor of the advice, and for a reference that carries the error itself it looks for
the operation that loses it. Where the inputs are no longer what was judged, it says so and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from render.entry.execution import Execution
from render.entry.inputs import Inputs
from render.explain.budget import Budget
from render.judgement.advice import message
from render.judgement.composition import Judged, likely_code, place_of, taints_of
from render.judgement.coverage import hashed
from render.judgement.decided import Rules
from render.judgement.evidence import evidence_of
from render.judgement.written import explained
from render.result.codes import EXIT_CODES
from render.result.decision import CARRIES, EQUAL
from render.result.records import Counterfactual
from render.result.verdict import Outputs, Verdict
from render.result.versions import versions

STALE = "no further run was made: the inputs have changed since they were judged"


def provisional(
    run: Execution, rules: Rules, judged: list[Judged], device: str, reference: str, timing: Mapping[str, float | None]
) -> Verdict:
    """What the rules say of a run; the code of a Type-I is that of the cause that usually owns such a bound."""
    decision, taints = rules.decision, taints_of(run, judged)
    code = likely_code(run) if decision.code == EQUAL else decision.code
    file, line = place_of(run, decision, (), rules.findings, taints)
    outside = any(m is None or m.outside_ref.any() for m in rules.masks)
    return Verdict(
        label=decision.label, code=code, subtype="provisional", paper_rule="Type-II" if outside else "Type-I",
        message=message(code, decision.detail, taints), device=device, reference=reference,
        kernels=tuple(dict.fromkeys(launch.kernel for launch in run.session.launches)),
        grid=tuple(run.session.launches[-1].grid), findings=tuple(rules.findings), taints=tuple(taints),
        timing=dict(timing), versions=versions(), exit_code=EXIT_CODES[decision.label], file=file, line=line,
        stage="provisional",
    )  # fmt: skip


def changed(first: Verdict, found: Verdict) -> Verdict:
    """The checked verdict; a label that is not the provisional one says so, and why."""
    found = replace(found, defects=first.defects)
    if first.label == found.label:
        return found
    return replace(found, changed=f"before the checks it was {first.label} ({first.code})")


@dataclass(frozen=True)
class Explanations:
    """What is left to be told of a checked verdict. `proved`: as in `evidence_of`; `own`: E's error by output."""

    inputs: Inputs
    confirming: Callable[[], Budget] | None
    weakest: Callable[[], list[str]] | None
    what_ifs: tuple[Counterfactual, ...]
    proved: Mapping[str, bool]
    own: Callable[[str], float]

    def added(self, v: Verdict) -> Verdict:
        """The verdict with all of it."""
        v = replace(v, stage="explained", later=None)
        if (self.confirming is None or not v.budget) and self.weakest is None:
            return v
        if tuple(hashed(self.inputs)) != v.scope.inputs:
            return replace(v, notes=(*v.notes, STALE))
        if self.weakest is not None:
            v = replace(v, notes=tuple(dict.fromkeys((*v.notes, *self.weakest()))), outputs=self._blamed(v))
        return self._confirmed(v, self.confirming()) if self.confirming is not None and v.budget else v

    def _blamed(self, v: Verdict) -> Outputs:
        """The outputs whose reference carries the error, with what E itself may be off."""
        return Outputs(
            replace(o, sides=replace(o.sides, exact_error=self.own(o.name))) if o.code == CARRIES and o.sides else o
            for o in v.outputs
        )

    def _confirmed(self, v: Verdict, found: Budget) -> Verdict:
        """With what the run without the largest cause gave."""
        price = v.downgrade
        if price is not None and not price.allocated and found.gains:
            gains = dict(zip((o.name for o in v.outputs), found.gains, strict=False))
            top = found.items[0]
            same = any((one.file, one.line) == (price.file, price.line) for one in top.lines)
            price = replace(price, shrink=gains.get(price.output, 1.0) if same else 1.0)
        notes = tuple(price.sentence if v.downgrade and price and n == v.downgrade.sentence else n for n in v.notes)
        v = explained(replace(v, budget=tuple(found.items), downgrade=price, notes=notes), list(self.what_ifs))
        own = evidence_of(v, self.proved)
        known = {one.name for one in own}
        return replace(v, evidence=(*own, *(one for one in v.evidence if one.name not in known)))
