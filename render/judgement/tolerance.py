"""The tolerance of one output, derived from its bound: every legal execution passes it, and what it lets through.

|y - y_ref| <= atol + rtol |y_ref| must hold at both ends of T for every element. Of the pairs that do, the one is taken
whose allowance atol + rtol |y_ref| is smallest in the mean: a large rtol helps where the error grows with the element,
an atol where it does not. torch compares in the wider of the two dtypes, so both are widened by what its subtraction,
product and sum round (4u, and two half subnormals). Elements are first gathered by |y_ref| in bins, each as demanding
as its widest element and as small as its smallest, which can only enlarge the result.

What it would miss, from the same numbers: a relative error of the whole output up to rtol + atol / max |y_ref|, and
zeros instead of every element with |y_ref| <= atol + rtol |y_ref|.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from interval_ops import scans
from interval_ops.formats.model import FORMATS, Format
from render.reference.local_error import TORCH_FORMATS
from render.result.blockwise import blocks, flat
from render.result.tolerance import Tolerance

BINS = 4096


def tolerance(
    lo: np.ndarray, hi: np.ndarray, ref: np.ndarray, settled: np.ndarray, dtype: torch.dtype, ref_dtype: torch.dtype
) -> Tolerance | None:
    """None where an element has no finite bound. `settled` elements are infinite or NaN on both sides."""
    fmt = _compared_in(dtype, ref_dtype)
    demands = _Demands(lo, hi, ref, settled, fmt is not None)
    if (known := demands.extent()) is None:
        return None
    largest, mean = known
    atol, rtol = _smallest(*demands.binned(largest), mean, fmt)
    arguments = f"atol={atol:.2g}, rtol={rtol:.2g}"
    arguments += ", check_dtype=False" if dtype != ref_dtype else ""
    arguments += ", equal_nan=True" if np.isnan(ref).any() else ""
    sides = [f"{name}.float()" if _is_fp8(d) else name for name, d in (("actual", dtype), ("expected", ref_dtype))]
    relative = rtol + atol / largest if largest else math.inf if atol else 0.0
    zeros = demands.zeros(atol, rtol)
    return Tolerance(atol, rtol, f"torch.testing.assert_close({', '.join(sides)}, {arguments})", relative, zeros)


def _is_fp8(dtype: torch.dtype) -> bool:
    return "float8" in str(dtype)


def _compared_in(dtype: torch.dtype, ref_dtype: torch.dtype) -> Format | None:
    """The format of torch's comparison; None for integers, which are exact."""
    dtype, ref_dtype = (torch.float32 if _is_fp8(d) else d for d in (dtype, ref_dtype))
    common = torch.promote_types(dtype, ref_dtype)
    return TORCH_FORMATS.get(common, FORMATS["fp32"]) if common.is_floating_point else None


class _Demands:
    """(|y_ref|, what must be covered there) of the elements, block by block."""

    def __init__(self, lo: np.ndarray, hi: np.ndarray, ref: np.ndarray, settled: np.ndarray, inexact: bool) -> None:
        self.arrays, self.inexact = (lo, hi, ref, settled), inexact

    def _known(self) -> Iterator[list[np.ndarray]]:
        """lo, hi and y_ref of the elements that are not settled."""
        for at in blocks(self.arrays[2].size):
            lo, hi, ref, settled = (flat(x, at) for x in self.arrays)
            known = (lo, hi, ref)
            yield [x[~settled] for x in known] if settled.any() else list(known)

    def extent(self) -> tuple[float, float] | None:
        """Largest and mean |y_ref|; None where something is not finite."""
        largest, total, count = 0.0, 0.0, 0
        for lo, hi, ref in self._known():
            bounded, most = scans.extent(*scans.flats(lo, hi, ref))
            if not bounded:
                return None
            largest, total, count = max(largest, most), total + float(np.abs(ref).sum()), count + ref.size
        return largest, total / max(count, 1)

    def zeros(self, atol: float, rtol: float) -> float:
        """The part of the elements that are not 0 and of which atol + rtol |y_ref| would let zeros through."""
        found, count = 0, 0
        for _, _, ref in self._known():
            (one,) = scans.flats(ref)
            found, count = found + int(scans.within(one, atol, rtol)), count + ref.size
        return found / max(count, 1)

    def _each(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for lo, hi, ref in self._known():
            cover = np.maximum(np.maximum(hi - ref, ref - lo), 0.0)
            yield np.abs(ref), np.nextafter(cover, np.inf) if self.inexact else cover

    def binned(self, largest: float) -> tuple[np.ndarray, np.ndarray]:
        """(smallest size, largest cover) of the elements of each bin; few elements are given as they are."""
        if self.arrays[2].size <= BINS:
            return next(self._each())
        small, wide = np.full(BINS, np.inf), np.zeros(BINS)
        scale = BINS / max(largest, np.finfo(float).tiny)
        for at in blocks(self.arrays[2].size):
            *numbers, settled = (flat(x, at) for x in self.arrays)
            scans.binned(small, wide, scale, self.inexact, np.ascontiguousarray(settled), *scans.flats(*numbers))
        used = np.isfinite(small)
        return small[used], wide[used]


def _smallest(size: np.ndarray, cover: np.ndarray, mean: float, fmt: Format | None) -> tuple[float, float]:
    """(atol, rtol), rounded up to two digits."""
    if not size.size or not (need := cover.max()):
        return 0.0, 0.0
    if fmt is None:
        return up(float(need)), 0.0
    found = (float(need), 0.0)
    for k in range(-1, fmt.p + 3):
        rtol = 2.0**-k
        atol = float(np.maximum(cover - rtol * size, 0.0).max())
        if atol + rtol * mean < found[0] + found[1] * mean:
            found = atol, rtol
    slack = 1 + 4 * fmt.u
    return up(found[0] * slack + 2 * fmt.half_subnormal), up(found[1] * slack)


def up(x: float) -> float:
    """x rounded up to two significant digits, so that what is printed still covers the bound."""
    if not math.isfinite(x) or x <= 0:
        return max(x, 0.0)
    x = max(x, 1e-300)  # below, a power of ten is no longer a number
    step = 10.0 ** (math.floor(math.log10(x)) - 1)
    return float(f"{math.ceil(x / step * (1 + 2**-50)) * step:.2g}")
