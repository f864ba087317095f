"""Kernel and reference that both round to 8 bits: do they round the same numbers?

A cast to an 8-bit float is a function that its author wrote, as `round` is: without rounding, a quantiser by 440 / amax
and one by 448 / amax are both the identity. Where the kernel carries no more than its bound and the reference lies
outside of it by such a cast, the reference is run on float64 inputs with its casts to 8 bits made, and nothing else
rounded below float32. The kernel's bound holds both neighbours of what it casts and the exact value, so it holds what
that run gave if the two cast the same numbers, but where a number lies within the other roundings of a tie: single
elements say nothing, `MANY` of them and more than `PART` of all do. A witness has to agree, as with any bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from render.entry.execution import Entry, Execution, on_cpu
from render.explain.stability import coarsest
from render.explain.study import Study
from render.judgement.confirmation import Outside, confirmed
from render.judgement.unrounded import CODE, MANY, PART, SLACK, comparable
from render.reference.oracle import Oracle
from render.result.decision import CARRIES, Case, Decision
from render.result.elements import Witness

EIGHT_BITS = 2.0**-5
"""Unit roundoffs of 8-bit floats are above, of wider ones far below."""


def decided(
    entry: Entry, run: Execution, oracle: Oracle, places: Sequence[int], cases: Sequence[Case], decision: Decision
) -> tuple[Witness | None, Decision]:
    """The decision that the reference carries the error, where both sides round to 8 bits."""
    if decision.code != CARRIES:
        return None, decision
    with on_cpu():
        cast = oracle.cast_to_eight_bits()
    if cast is None or coarsest(Study(entry, tuple(cases))) < EIGHT_BITS:
        return None, decision
    for case, place in zip(cases, places, strict=True):
        if not comparable(case):
            continue
        gap = _outside(case, cast[place])
        many = int((gap > 0).sum())
        if many < MANY or many < PART * gap.size:
            continue
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(gap)), gap.shape))
        value, slack = float(cast[place][at]), SLACK * abs(float(cast[place][at]))
        found = confirmed(entry, run, Outside(case, at, "reference", value - slack, value + slack))
        if found.status == "agrees":
            where = f"{many} of {gap.size} elements of {case.name}, at {case.name}{list(at)} {value:.7g}"
            how = "with its casts to 8 bits made and nothing else rounded, the reference is outside of the bound in"
            detail = f"{how} {where}: the two cast other numbers"
            return found, Decision("Type-II", CODE, detail)
    return None, decision


def _outside(case: Case, cast: np.ndarray) -> np.ndarray:
    """How far each element lies outside of the bound, less `SLACK` of itself."""
    with np.errstate(invalid="ignore"):
        gap = np.maximum(cast - case.hi, case.lo - cast) - SLACK * np.abs(cast)
        return np.where(np.isfinite(gap), np.maximum(gap, 0.0), 0.0)
