"""How wide a bound is beside what developers allow, and whether the run explains the size of a device's errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from interval_ops import scans
from render.result.decision import Case

LARGER = 2.0
"""Times the error of the run: a device's beyond that is no execution like it."""
LOOSE = 10.0
"""Median width over the default tolerance beyond which a bound is loose."""
TOLERANCES = {"fp16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5), "fp32": (1.3e-6, 1e-5), "fp64": (1e-7, 1e-7)}
"""rtol, atol of torch.testing.assert_close."""


def width_of(cases: Sequence[Case]) -> float:
    """The median over all elements of (hi - lo) / (atol + rtol |ref|), of the output with the widest."""
    worst = 0.0
    for case in cases:
        if case.fmt is None or case.mismatch or not case.lo.size:
            continue
        rtol, atol = TOLERANCES.get(case.fmt.name, (0.1, 0.1))
        with np.errstate(invalid="ignore"):
            ratio = (case.hi - case.lo) / (atol + rtol * np.abs(np.asarray(case.ref, np.float64)))
        worst = max(worst, scans.median(np.where(np.isnan(ratio), np.inf, ratio).reshape(-1)))
    return worst


def reproduced(case: Case) -> bool:
    """Whether the run, a legal execution, is off by half as much as the device at least, beyond one rounding (rms)."""
    if case.device is None or not case.device.size or case.mismatch:
        return True
    room = rounding_of(case)
    theirs, ours = (np.square(np.maximum(off(case, y) - room, 0.0)).mean() for y in (case.device, case.value))
    return bool(theirs <= LARGER**2 * ours)


def rounding_of(case: Case) -> np.ndarray:
    """One rounding of the coarser of both outputs, at every element of E."""
    fmt = max((f for f in (case.fmt, case.ref_fmt) if f is not None), key=lambda f: f.u)
    found: np.ndarray = fmt.u * np.abs(np.asarray(case.exact, np.float64)) + fmt.half_subnormal
    return found


def off(case: Case, y: np.ndarray) -> np.ndarray:
    """|y - E|, 0 where one of them is no number."""
    with np.errstate(all="ignore"):
        found: np.ndarray = np.nan_to_num(np.abs(np.asarray(y, np.float64) - case.exact), nan=0.0, posinf=0.0)
    return found
