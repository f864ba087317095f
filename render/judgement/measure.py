"""Counts, widths and the worst element of one output: everything of an `OutputVerdict` that is a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from interval_ops import scans
from render.judgement.blame import blame
from render.judgement.tolerance import tolerance
from render.result.blockwise import blocks, every, many, part, part_of_masks, some
from render.result.decision import Case, Decision, Masks, device_bound, ref_bound
from render.result.tolerance import Tolerance
from render.result.verdict import Bound, OutputVerdict

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


def bound_of(lo: np.ndarray, hi: np.ndarray, used: Callable[[], np.ndarray]) -> Bound:
    """Summary of a bound; elements without finite ends are left out of the widths."""
    low, high = lo.reshape(-1), hi.reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = high - low
    if not numbers.max(initial=0.0) < np.inf:
        finite = np.isfinite(low) & np.isfinite(high)
        low, high = low[finite], high[finite]
        numbers = high - low
    if not low.size:
        return Bound(lo, hi, used, np.nan, np.nan, np.nan, np.nan)
    half = scans.median(numbers) / 2, float(numbers.max()) / 2
    scans.relative_widths(numbers, *scans.flats(low, high))
    return Bound(lo, hi, used, scans.median(numbers), float(numbers.max()), *half)


def _used(case: Case, masks: Masks) -> np.ndarray:
    """How much of its bound each element of the device output, else of the reference, uses; 0 where that is settled."""
    y = case.ref if case.device is None else case.device
    lo, hi = ref_bound(case) if case.device is None else device_bound(case)
    return np.where(masks.settled | ~masks.stored, 0.0, usage(y, lo, hi))


def _suspects(case: Case, masks: Masks) -> str:
    """The first kind of element outside that there is; none: the differences are looked at."""
    names = ("nonfinite", "outside_exact", "outside_device", "outside_ref")
    return next((n for n in names if getattr(masks, n) is not None and some(getattr(masks, n))), "")


_LOOKED_AT = {"nonfinite": "value", "outside_exact": "exact", "outside_device": "device", "outside_ref": "ref"}


def _score(case: Case, masks: Masks, suspects: str, gap: np.ndarray) -> np.ndarray:
    """How far outside an element is, if some are outside; else the size of its difference."""
    if not suspects:
        found: np.ndarray = np.nan_to_num(gap, nan=np.inf)
        return np.where(masks.settled & np.isnan(case.lo), -1.0, found) if case.left else found
    y = getattr(case, _LOOKED_AT[suspects])
    with np.errstate(invalid="ignore"):
        beyond = np.nan_to_num(np.maximum(case.lo - y, y - case.hi), nan=np.inf)
    return np.where(getattr(masks, suspects), beyond, -np.inf)


@dataclass
class _Extremes:
    """Largest figures over all elements seen so far, NaN where there are none; `worst` is a flat index."""

    gap: float = np.nan
    cover: float = np.nan
    usage: float = np.nan
    score: float = -np.inf
    worst: int = 0
    far: int = 0

    def add(self, case: Case, masks: Masks, suspects: str, tolerance: tuple[float, float], start: int) -> None:
        lo, hi = ref_bound(case) if case.device is None else device_bound(case)
        got = case.value if case.device is None else case.device
        plain = every(masks.stored) and not some(masks.settled)
        if plain and all(bool(np.isfinite(x).all()) for x in (got, case.ref, lo, hi)):
            self._plain(case, masks, suspects, (lo, hi), tolerance, start)
            return
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.where(got == case.ref, 0.0, np.abs(got - case.ref))
            self.far += int(np.count_nonzero(~(gap <= tolerance[1] + tolerance[0] * np.abs(case.ref))))
            cover = np.maximum(hi - case.ref, case.ref - lo)
        used = _used(case, masks)
        self.gap = _larger(self.gap, gap[np.isfinite(gap)])
        self.cover = _larger(self.cover, cover[np.isfinite(cover)])
        self.usage = _larger(self.usage, used[~np.isnan(used)])
        score = _score(case, masks, suspects, gap)
        at = int(np.argmax(score))
        self._scored(float(score[at]), at, start)

    def _plain(
        self, case: Case, masks: Masks, suspects: str, ends: tuple[np.ndarray, np.ndarray],
        limits: tuple[float, float], start: int,
    ) -> None:  # fmt: skip
        """The same where all are finite and stored: one pass for the figures, and a score where some are outside."""
        got, ref, lo, hi = scans.flats(case.value if case.device is None else case.device, case.ref, *ends)
        gap, at, far, cover, used = scans.extremes(ref if case.device is None else got, got, ref, lo, hi, *limits)
        self.far += int(far)
        self.gap, self.cover = float(np.fmax(self.gap, gap)), float(np.fmax(self.cover, cover))
        self.usage = float(np.fmax(self.usage, used))
        if suspects == "outside_ref":
            gap, at = scans.furthest(np.ascontiguousarray(masks.outside_ref).reshape(-1), ref,
                                     *scans.flats(case.lo, case.hi))  # fmt: skip
        elif suspects:
            score = _score(case, masks, suspects, got)
            gap, at = score[int(np.argmax(score))], int(np.argmax(score))
        self._scored(float(gap), int(at), start)

    def _scored(self, score: float, at: int, start: int) -> None:
        if start == 0 or score > self.score:
            self.score, self.worst = score, start + at


def _larger(so_far: float, x: np.ndarray) -> float:
    return float(np.fmax(so_far, x.max())) if x.size else so_far


def measure(
    case: Case, masks: Masks, decision: Decision, dtype: torch.dtype, ref_dtype: torch.dtype, tainted: int
) -> OutputVerdict:
    """All numbers of one output whose shape fits the reference's."""
    size, shape = case.value.size, case.value.shape
    rtol, atol = tolerances(dtype, ref_dtype)
    suspects, found = _suspects(case, masks), _Extremes()
    for at in blocks(size) if size else ():
        found.add(part(case, at), part_of_masks(masks, at), suspects, (rtol, atol), at.start)
    place = tuple(int(i) for i in np.unravel_index(found.worst, shape)) if size else ()
    one = part(case, slice(found.worst, found.worst + 1))
    lo, hi = ref_bound(one) if case.device is None else device_bound(one)
    used = _used(one, part_of_masks(masks, slice(found.worst, found.worst + 1)))

    def at_worst(x: np.ndarray | None) -> float:
        return float(x[0]) if x is not None and x.size else float("nan")

    return OutputVerdict(
        name=case.name, shape=tuple(shape), dtype=name_of(dtype), reference_dtype=name_of(ref_dtype),
        elements=size - case.left, label=decision.label, code=decision.code, detail=decision.detail,
        outside_reference=many(masks.outside_ref), outside_exact=many(masks.outside_exact),
        outside_device=None if masks.outside_device is None else many(masks.outside_device),
        nonfinite_mismatch=many(masks.nonfinite), unstored=size - many(masks.stored), tainted=tainted,
        allclose_mismatch=found.far - case.left, allclose_rtol=rtol, allclose_atol=atol,
        max_abs_diff=found.gap, worst_usage=found.usage, worst_index=place,
        got=at_worst(one.value if case.device is None else one.device), ref=at_worst(one.ref),
        exact=at_worst(one.exact), low=at_worst(lo), high=at_worst(hi), usage=at_worst(used),
        covering_atol=max(found.cover, 0.0),
        bound=bound_of(case.lo, case.hi, partial(_used, case, masks)), sides=blame(case, masks, decision),
        tolerance=_tolerance(case, masks, dtype, ref_dtype) if decision.label == "Type-I" else None,
        exact_bits=case.bits,
    )  # fmt: skip


def _tolerance(case: Case, masks: Masks, dtype: torch.dtype, ref_dtype: torch.dtype) -> Tolerance | None:
    lo, hi = ref_bound(case) if case.device is None else device_bound(case)
    return tolerance(lo, hi, case.ref, masks.settled, dtype, ref_dtype)


def unmeasured(name: str, tensor: torch.Tensor, decision: Decision, ref_dtype: torch.dtype) -> OutputVerdict:
    """An output that cannot be compared element by element: its shape or kind differs."""
    nan, none = float("nan"), np.zeros(0)
    return OutputVerdict(
        name=name, shape=tuple(tensor.shape), dtype=name_of(tensor.dtype), reference_dtype=name_of(ref_dtype),
        elements=0, label=decision.label, code=decision.code, detail=decision.detail, outside_reference=0,
        outside_exact=0, outside_device=None, nonfinite_mismatch=0, unstored=0, tainted=0, allclose_mismatch=0,
        allclose_rtol=0.0, allclose_atol=0.0, max_abs_diff=nan, worst_usage=nan, worst_index=(), got=nan, ref=nan,
        exact=nan, low=nan, high=nan, usage=nan, covering_atol=nan, bound=bound_of(none, none, lambda: none),
    )  # fmt: skip


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
