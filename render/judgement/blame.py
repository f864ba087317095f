"""Which side is wrong: kernel, device and reference, each against the reference recomputed in float64 (E).

What decides is not who is closer but whether an error can be rounding: the kernel is wrong where its bound misses E
(no legal execution reaches it), the device where only its output is outside, the reference where E is inside and the
value that it returned is not. The errors beside it are the largest |y - E|;
`exact_error` is the largest error of E itself, below which a difference means nothing. Where E is so uncertain that no
element's exact value is known to lie in the bound, nobody is blamed, unless that is the verdict (RND110): there it
decides nothing, and is looked at where it is asked for (`judgement.later`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from interval_ops import scans
from render.result.blame import Blame
from render.result.blockwise import blocks, flat, some
from render.result.decision import CARRIES, Case, Decision, Masks, only_device

if TYPE_CHECKING:
    from render.result.verdict import OutputVerdict


def blame(case: Case, masks: Masks, decision: Decision) -> Blame:
    """Both sides of one output whose shape fits the reference's."""
    kernel, kernel_at = _largest(case.value, case.exact)
    reference, reference_at = _largest(case.ref, case.exact)
    device = None if case.device is None else _largest(case.device, case.exact)[0]
    counts = some(masks.outside_exact) or (some(masks.outside_ref) and decision.code != CARRIES)
    error = own_error(case) if counts else None
    return Blame(_wrong(case, masks, decision), kernel, kernel_at, reference, reference_at, error, device)


def blamed(outputs: Iterable[OutputVerdict], wrong: str, name: str | None = None) -> list[OutputVerdict]:
    """The outputs (or the one called `name`) with another answer: what is not a matter of one output's bound."""
    return [
        replace(o, sides=replace(o.sides, wrong=wrong), tolerance=None) if o.sides and name in (None, o.name) else o
        for o in outputs
    ]


def _wrong(case: Case, masks: Masks, decision: Decision) -> str:
    if decision.label == "Inconclusive":
        return "unknown"
    if decision.code == "RND202" or (decision.code == "RND204" and only_device(case)):
        return "device"
    if decision.label == "Type-II":
        return "kernel"
    if decision.code == CARRIES:  # which the rule gives only where the reference's own error explains it
        return "reference"
    if not some(masks.outside_ref):
        return "neither"
    return "reference" if _surely_inside(case, masks.outside_ref) else "unknown"


def _surely_inside(case: Case, at: np.ndarray) -> bool:
    """Whether, of these elements, one has all of E's own error interval in the bound: else float64 is not enough."""
    lo, hi = (end[at] for end in case.exact_ends())
    return bool(((lo >= case.lo[at]) & (hi <= case.hi[at])).any())


def own_error(case: Case) -> float:
    """The largest half width of E's margin; it costs a run of the reference."""
    lo, hi = case.exact_ends()
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.nan_to_num((hi - lo) / 2, nan=0.0, posinf=np.inf).max(initial=0.0))


def _largest(y: np.ndarray, exact: np.ndarray) -> tuple[float, tuple[int, ...]]:
    if not y.size:
        return 0.0, ()
    best, place = -1.0, 0
    for at in blocks(y.size):
        gap, i = scans.largest_gap(*scans.flats(flat(y, at), flat(exact, at)))
        if gap > best:
            best, place = float(gap), at.start + int(i)
    return best, tuple(int(i) for i in np.unravel_index(place, y.shape))
