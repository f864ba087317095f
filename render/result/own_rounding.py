"""What the reference's own rounding explains where its result lies outside of the kernel's bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from render.result import margins
from render.result.blockwise import blocks, flat

if TYPE_CHECKING:
    from render.result.decision import Case, Masks


def explained(case: Case, masks: Masks) -> tuple[np.ndarray, np.ndarray] | None:
    """For the elements with y_ref outside T: (|y_ref - E| <= R, R around y_ref meets T); None if R is unknown.

    A reference that is infinite or NaN where E is finite overflowed in its own dtype, which is its own error. E's
    margin counts beside R, and is asked for where R alone does not say it all.
    """
    from interval_ops import scans

    radius = case.radius()
    if radius is None:
        return None
    pick = masks.outside_ref
    arrays = scans.flats(case.ref, case.exact, np.broadcast_to(radius, case.ref.shape), case.lo, case.hi)
    if scans.explained(pick.reshape(-1), *arrays):
        return (yes := np.ones(int(np.count_nonzero(pick)), bool)), yes
    ref, exact, reach = case.ref[pick], case.exact[pick], np.broadcast_to(radius, case.ref.shape)[pick]
    lo, hi = case.exact_ends()
    reach = reach + (hi[pick] - lo[pick]) / 2
    overflowed = ~np.isfinite(ref) & np.isfinite(exact)
    with np.errstate(invalid="ignore"):
        seen, beyond = np.abs(ref - exact), np.maximum(np.maximum(case.lo[pick] - exact, exact - case.hi[pick]), 0.0)
    # Not known is no explanation; nor is a margin of E's for an E outside that the reference's own error cannot reach.
    within = overflowed | ((seen <= reach) & margins.known(reach) & (beyond <= seen))
    meets = overflowed | (margins.known(reach) & (ref - reach <= case.hi[pick]) & (ref + reach >= case.lo[pick]))
    return within, meets


def carried(case: Case, masks: Masks) -> bool:
    """Whether, of the elements whose y_ref is outside of T, one has it further from E than what the kernel computed.

    At an end of T a reference that is nearly exact may lie outside by its last rounding: what differs is the kernel's.
    """
    from interval_ops import scans

    for at in blocks(case.exact.size):
        pick, *arrays = (flat(x, at) for x in (masks.outside_ref, case.ref, case.value, case.exact))
        if scans.as_far(np.ascontiguousarray(pick), *scans.flats(*arrays)):
            return True
    return False
