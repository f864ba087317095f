"""The element in the middle of an output, by the width of its bound, without sorting the output."""

from __future__ import annotations

import numpy as np

from interval_ops import scans
from render.result.blockwise import blocks, flat


def median_element(lo: np.ndarray, hi: np.ndarray) -> int | None:
    """Flat index of the element with the median half width (the lower of two) among those with a finite one above 0.

    Of several with that half width it is the one that a stable sort would put there. None where no element has one.
    """
    halves = np.empty(lo.size)
    count = 0
    for at in blocks(lo.size):
        known = _wide(_halves(lo, hi, at))
        halves[count : count + known.size] = known
        count += known.size
    if not count:
        return None
    halves, rank = halves[:count], (count - 1) // 2
    half = scans.kth(halves, rank)
    return _nth(lo, hi, half, rank - int(np.count_nonzero(halves < half)))


def _nth(lo: np.ndarray, hi: np.ndarray, half: float, n: int) -> int:
    """The flat index of element number n among those of this half width."""
    for at in blocks(lo.size):
        same = np.flatnonzero(_halves(lo, hi, at) == half)
        if n < same.size:
            found: int = at.start + int(same[n])
            return found
        n -= same.size
    raise AssertionError("the half width is that of an element")


def _halves(lo: np.ndarray, hi: np.ndarray, at: slice) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((flat(hi, at) - flat(lo, at)) / 2)


def _wide(half: np.ndarray) -> np.ndarray:
    found: np.ndarray = half[(half > 0) & np.isfinite(half)]
    return found
