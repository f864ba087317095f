"""Everything that one output is judged on, gathered from the run, the reference and the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from render.entry.execution import Execution
from render.entry.outputs import OutputPair, shape_mismatch, values
from render.interpreter.memory.records import Use
from render.judgement.composition import NEVER_WRITTEN, UNKNOWN, Judged, differences, leaves_open, too_large, untracked
from render.judgement.references import References
from render.judgement.related import belongs
from render.reference.local_error import TORCH_FORMATS
from render.result.decision import Case


def judged_of(
    run: Execution, references: References, pair: OutputPair, device: torch.Tensor | None, recorded: bool = False
) -> Judged:
    """The case of one matched output; `device` is what a device returned for it, `recorded` with these inputs."""
    ours, theirs = run.outputs[pair.kernel], references.native[pair.reference][1]
    why = shape_mismatch(pair.name, ours.tensor, theirs)
    if not why and device is not None:
        why = shape_mismatch(pair.name, ours.tensor, device, "the device output")
    ref = ours.value if why else values(theirs)
    i = pair.reference
    ours = ours if ours.tracked or why else untracked(ours, ref)
    noted = [run.session.taints[t] for t in ours.taints if t in run.session.taints]
    taints = {t.code for t in noted} - {NEVER_WRITTEN}
    unstored = np.ones(ours.value.shape, bool) if ours.use is Use.IDLE else ours.unstored
    case = Case(
        pair.name, ours.value, ours.lo, ours.hi, ref,
        ref if why else references.exact.values[i], (lambda: (ref, ref)) if why else (lambda: references.ends_of(i)),
        proved=(lambda: True) if why else (lambda: references.proved(i)),
        confirmed=(lambda: True) if why else (lambda: references.confirmed(i)),
        fmt=TORCH_FORMATS.get(ours.tensor.dtype), ref_fmt=TORCH_FORMATS.get(theirs.dtype),
        device=None if device is None or why else values(device),
        device_fmt=None if device is None else TORCH_FORMATS.get(device.dtype),
        radius=lambda: references.radius_of(i), unstored=unstored, mismatch=why,
        taints=frozenset(taints | (set() if ours.tracked or why else {UNKNOWN})),
        unruled=not ours.tracked or any(map(leaves_open, noted)),
    )  # fmt: skip
    if case.device is not None and not recorded:
        compared = case
        case = replace(case, belongs=lambda: belongs(compared))
    if not why and too_large(ours.tensor, theirs, device):
        case = _as_differences(case, ours.tensor, theirs, device)
    if not why and ours.left is not None and ours.left.any():
        case = _in_part(case, ours.left, references, i)
    return Judged(case, ours, theirs.dtype)


def _in_part(case: Case, left: np.ndarray, references: References, i: int) -> Case:
    """The case without the elements in `left`: NaN on every side is settled, and nothing is said of it."""

    def kept(x: np.ndarray) -> np.ndarray:
        return np.where(left, np.nan, x)

    value, lo, hi, ref = (kept(x) for x in (case.value, case.lo, case.hi, case.ref))
    references.exact.values[i] = exact = kept(case.exact)
    device = None if case.device is None else kept(case.device)
    unstored = None if case.unstored is None else case.unstored & ~left
    case = replace(case, value=value, lo=lo, hi=hi, ref=ref, exact=exact, device=device, unstored=unstored)
    return replace(case, left=int(np.count_nonzero(left)))


def _as_differences(case: Case, ours: torch.Tensor, theirs: torch.Tensor, device: torch.Tensor | None) -> Case:
    """The case of large integers with y_ref as origin; such integers are exact on both sides."""
    zero = np.zeros(case.value.shape)
    value = differences(ours, theirs)
    return replace(
        case, value=value, lo=value, hi=value, ref=zero, exact=zero, exact_ends=lambda: (zero, zero),
        device=None if device is None else differences(device, theirs),
    )  # fmt: skip
