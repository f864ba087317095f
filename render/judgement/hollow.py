"""Is the bound hollow at the elements that differ? The power of a bound is local.

Over a whole output `decision.fits_zero` asks whether zeros would lie in the bound everywhere. Here it is asked of the
elements that differ by more than one rounding of the output: if each of their bounds holds zero and is hollow, the
others, which agree anyway, do not make up for it. And one such element is enough where it differs by a good part of the
exact value. A bound is hollow where its half width exceeds half of

    S = |E| + sum_i |dE/dx_i| |x_i|,

so that it would also let through what every input off by half does to the result; zero in a bound alone is what
cancellation looks like. S takes a run of the reference: it is asked for only where zero lies in the bounds of all that
differ, or an element is wide beside the largest of its row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from interval_ops import scans
from render.entry.execution import on_cpu
from render.judgement.references import References
from render.result import margins
from render.result.blockwise import blocks, flat
from render.result.decision import Case, Decision

DIFFERS = 1 / 4
"""Of |E|: a difference of which the sides may be different numbers."""
WIDE = 1 / 16
"""Of the largest |E| of the row (the last dimension): half widths below it are not looked at."""
HOLLOW = 1 / 2
STEP = 2.0**-20


def decided(references: References, places: Sequence[int], cases: Sequence[Case], decision: Decision) -> Decision:
    """A Type-I only where the bound says something at the elements that differ."""
    if decision.label != "Type-I":
        return decision
    for case, place in zip(cases, places, strict=True):
        if not _apart_at_all(case):
            continue
        if _zero_in_all(case):
            at = differing(case)
            if not (at & ~_hollow(references, place, case)).any():
                return _said(case, at, "zero lies in each of their bounds")
        at = suspects(case)
        if at.any() and (at := at & _hollow(references, place, case)).any():
            return _said(case, at, "their bounds would hold what inputs off by half give")
    return decision


def _apart_at_all(case: Case) -> bool:
    """Whether any element differs as `differing` or `suspects` ask: one look at each."""
    if case.mismatch or case.fmt is None or case.ref_fmt is None:
        return False
    u, floor = _rounding(case)
    got = case.value if case.device is None else case.device
    for at in blocks(got.size):
        y, ref, exact = scans.flats(flat(got, at), flat(case.ref, at), flat(case.exact, at))
        if any(scans.apart(y, ref, exact, u, floor, DIFFERS)):
            return True
    return False


def _said(case: Case, at: np.ndarray, text: str) -> Decision:
    many = f"{int(at.sum())} of {at.size} elements of {case.name}"
    return Decision("Inconclusive", "RND301", f"kernel and reference differ in {many}, and {text}")


def _apart(case: Case) -> np.ndarray:
    got = case.value if case.device is None else case.device
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.abs(np.asarray(got, np.float64) - case.ref)
    return found


def _zero_in_all(case: Case) -> bool:
    """Whether there are elements that differ, and zero lies in the bound of each, beside an E of another number."""
    u, floor, got, found = *_rounding(case), case.value if case.device is None else case.device, False
    for at in blocks(got.size):
        y, ref, exact, lo, hi = scans.flats(*(flat(x, at) for x in (got, case.ref, case.exact, case.lo, case.hi)))
        here, other = scans.differing(y, ref, exact, lo, hi, u, floor)
        if other:
            return False
        found = found or here
    return found


def _rounding(case: Case) -> tuple[float, float]:
    """(u, half a subnormal) of the coarser output."""
    assert case.fmt is not None and case.ref_fmt is not None
    return max(case.fmt.u, case.ref_fmt.u), max(case.fmt.half_subnormal, case.ref_fmt.half_subnormal)


def differing(case: Case) -> np.ndarray:
    """Elements that differ by more than one rounding of the coarser output."""
    if case.mismatch or case.fmt is None or case.ref_fmt is None:
        return np.zeros(case.value.shape, bool)
    u, floor = _rounding(case)
    with np.errstate(invalid="ignore"):
        found: np.ndarray = _apart(case) > u * np.abs(case.exact) + floor
    return found


def suspects(case: Case) -> np.ndarray:
    """Elements that differ by much, whose bound holds zero and is wide beside their row."""
    if case.mismatch or case.fmt is None or case.ref_fmt is None or not case.exact.size:
        return np.zeros(case.value.shape, bool)
    got = case.value if case.device is None else case.device
    y, ref, exact, lo, hi = scans.flats(got, case.ref, case.exact, case.lo, case.hi)
    out = np.empty(exact.size, bool)
    scans.hollow(y, ref, exact, (lo, hi), case.exact.shape[-1] if case.exact.ndim else 1, DIFFERS, WIDE, out)
    return out.reshape(case.value.shape)


def _hollow(references: References, place: int, case: Case) -> np.ndarray:
    with on_cpu():
        known = references.oracle.sensitivity(references.exact, STEP)
    if known is None:
        return np.ones(case.value.shape, bool)
    scale = np.abs(case.exact) + known[0][place] / STEP
    found: np.ndarray = ((case.hi - case.lo) / 2 >= HOLLOW * scale) | ~margins.known(scale)
    return found
