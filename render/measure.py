"""Counts, widths and the worst element of one output: everything of an `OutputVerdict` that is a number."""

from __future__ import annotations

import numpy as np
import torch

from render.judge import Case, Decision, Masks, device_bound, ref_bound
from render.sides import sides
from render.tolerance import tolerance
from render.verdict import Bound, OutputVerdict

# torch.testing.assert_close (2.6 .. 2.13), by the wider of the two dtypes.
_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}
_FP8 = (torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def tolerances(*dtypes: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) that torch.testing.assert_close takes by default; fp8 compares exactly, as integers do."""
    found = [(0.0, 0.0) if d in _FP8 else _TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
    return max(r for r, _ in found), max(a for _, a in found)


def usage(y: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """|y - mid| / half width: 0 in the middle, 1 at the edge, more outside.

    A point bound is used 0 where y meets it and infinitely where not; NaN where there is no finite bound.
    """
    with np.errstate(all="ignore"):
        half = (hi - lo) / 2
        off = np.abs(y - (lo + half))
        used = off / half
    used = np.where(half == 0, np.where(off == 0, 0.0, np.inf), used)
    # Rounding of this division must not turn an element at the edge into one outside.
    used = np.where((lo <= y) & (y <= hi), np.minimum(used, 1.0), used)
    return np.where(np.isfinite(lo) & np.isfinite(hi), used, np.nan)


def bound_of(lo: np.ndarray, hi: np.ndarray, used: np.ndarray) -> Bound:
    """Summary of a bound; elements without finite ends are left out of the widths."""
    finite = np.isfinite(lo) & np.isfinite(hi)
    low, high = lo[finite], hi[finite]
    width = high - low
    with np.errstate(all="ignore"):
        relative = np.where(width == 0, 0.0, width / np.abs(low + width / 2))
    if not width.size:
        return Bound(lo, hi, used, np.nan, np.nan, np.nan, np.nan)
    halves = width / 2
    numbers = (np.median(relative), relative.max(), np.median(halves), halves.max())
    return Bound(lo, hi, used, *(float(x) for x in numbers))


def _worst_place(case: Case, masks: Masks, gap: np.ndarray) -> tuple[int, ...]:
    """The element furthest outside, if one is outside; else the one with the largest difference."""
    if not gap.size:
        return ()
    device = masks.outside_device if masks.outside_device is not None else np.zeros(gap.shape, bool)
    for mask, y in (
        (masks.nonfinite, case.value),
        (masks.outside_exact, case.exact),
        (device, case.device),
        (masks.outside_ref, case.ref),
    ):
        if mask.any() and y is not None:
            with np.errstate(invalid="ignore"):
                beyond = np.nan_to_num(np.maximum(case.lo - y, y - case.hi), nan=np.inf)
            return _place(np.where(mask, beyond, -np.inf))
    return _place(np.nan_to_num(gap, nan=np.inf))


def _place(score: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(score)), score.shape))


def measure(
    case: Case, masks: Masks, decision: Decision, dtype: torch.dtype, ref_dtype: torch.dtype, tainted: int
) -> OutputVerdict:
    """All numbers of one output whose shape fits the reference's."""
    y = case.ref if case.device is None else case.device
    lo, hi = ref_bound(case) if case.device is None else device_bound(case)
    used = np.where(masks.settled | ~masks.stored, 0.0, usage(y, lo, hi))
    got = case.value if case.device is None else case.device
    rtol, atol = tolerances(dtype, ref_dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(got == case.ref, 0.0, np.abs(got - case.ref))
        close = gap <= atol + rtol * np.abs(case.ref)
        cover = np.maximum(hi - case.ref, case.ref - lo)
    place = _worst_place(case, masks, gap)
    known = used[~np.isnan(used)]
    finite_gap, finite_cover = gap[np.isfinite(gap)], cover[np.isfinite(cover)]

    def at(x: np.ndarray) -> float:
        return float(x[place]) if x.size else float("nan")

    return OutputVerdict(
        name=case.name, shape=tuple(case.value.shape), dtype=name_of(dtype), reference_dtype=name_of(ref_dtype),
        elements=case.value.size, label=decision.label, code=decision.code, detail=decision.detail,
        outside_reference=int(masks.outside_ref.sum()), outside_exact=int(masks.outside_exact.sum()),
        outside_device=None if masks.outside_device is None else int(masks.outside_device.sum()),
        nonfinite_mismatch=int(masks.nonfinite.sum()), unstored=int((~masks.stored).sum()), tainted=tainted,
        allclose_mismatch=int(case.value.size - close.sum()), allclose_rtol=rtol, allclose_atol=atol,
        max_abs_diff=float(finite_gap.max()) if finite_gap.size else float("nan"),
        worst_usage=float(known.max()) if known.size else float("nan"), worst_index=place,
        got=at(got), ref=at(case.ref), exact=at(case.exact), low=at(lo), high=at(hi), usage=at(used),
        covering_atol=float(max(finite_cover.max(), 0.0)) if finite_cover.size else float("nan"),
        bound=bound_of(case.lo, case.hi, used), sides=sides(case, masks, decision),
        tolerance=tolerance(lo, hi, case.ref, masks.settled, dtype, ref_dtype) if decision.label == "Type-I" else None,
    )  # fmt: skip


def unmeasured(name: str, tensor: torch.Tensor, decision: Decision, ref_dtype: torch.dtype) -> OutputVerdict:
    """An output that cannot be compared element by element: its shape or kind differs."""
    nan, none = float("nan"), np.zeros(0)
    return OutputVerdict(
        name=name, shape=tuple(tensor.shape), dtype=name_of(tensor.dtype), reference_dtype=name_of(ref_dtype),
        elements=0, label=decision.label, code=decision.code, detail=decision.detail, outside_reference=0,
        outside_exact=0, outside_device=None, nonfinite_mismatch=0, unstored=0, tainted=0, allclose_mismatch=0,
        allclose_rtol=0.0, allclose_atol=0.0, max_abs_diff=nan, worst_usage=nan, worst_index=(), got=nan, ref=nan,
        exact=nan, low=nan, high=nan, usage=nan, covering_atol=nan, bound=bound_of(none, none, none),
    )  # fmt: skip


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
