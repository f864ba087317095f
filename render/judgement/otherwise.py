"""Decisions of the reference that hang on its own rounding: E with those that the kernel makes.

Which integer a float becomes, which side of a comparison it is on, which of two elements is the largest: a reference at
its own dtype may decide one way and the same function in float64 another, and the kernel has to agree with only one of
the two. E is one of them (`Oracle.otherwise`). In elements where it lies outside of the bound, and the other inside, it
is the other; everywhere else, a kernel that decides like neither is accused as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from render.entry.execution import on_cpu
from render.judgement.composition import Judged
from render.judgement.references import References
from render.result.decision import Case


def otherwise(references: References, places: Sequence[int], judged: list[Judged]) -> list[Judged]:
    """The outputs with E as the reference has it with the other decisions, where the kernel makes those."""
    return [replace(j, case=_decided(references, i, j.case)) for i, j in zip(places, judged, strict=True)]


def _decided(references: References, i: int, case: Case) -> Case:
    if case.mismatch or case.fmt is None or case.exact is not references.exact.values[i]:
        return case
    with np.errstate(invalid="ignore"):
        outside = ((case.exact < case.lo) | (case.exact > case.hi)).reshape(-1)
    if not outside.any():
        return case
    with on_cpu():
        others = references.oracle.otherwise(references.exact)
    if others is None:
        return case
    at, lo, hi = np.flatnonzero(outside), case.lo.reshape(-1), case.hi.reshape(-1)
    other = others[i].reshape(-1)[at]
    with np.errstate(invalid="ignore"):
        fits = (lo[at] <= other) & (other <= hi[at]) & (other != case.exact.reshape(-1)[at])
    at, other = at[fits], other[fits]
    if not at.size:
        return case
    ends = references.ends_of(i)
    half = np.abs(ends[1].reshape(-1)[at] - ends[0].reshape(-1)[at]) / 2
    with on_cpu():
        references.exact.refine(i, at, other, other - half, other + half, rigorous=False)
    _told(references, int(at.size))
    return replace(case, exact=references.exact.values[i])


def _told(references: References, many: int) -> None:
    """A note with the number of such elements, once."""
    text = f"in {many} elements the reference decides by its own rounding; E is taken with the kernel's decision there"
    if text not in references.exact.notes:
        references.exact.notes.append(text)
