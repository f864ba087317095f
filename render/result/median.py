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
        low, high = scans.flats(flat(lo, at), flat(hi, at))
        count += scans.half_widths(low, high, halves[count:])
    if not count:
        return None
    halves, rank = halves[:count], (count - 1) // 2
    half = scans.kth(halves, rank)
    return _nth(lo, hi, half, rank - int(np.count_nonzero(halves < half)))


def _nth(lo: np.ndarray, hi: np.ndarray, half: float, n: int) -> int:
    """The flat index of element number n among those of this half width."""
    for at in blocks(lo.size):
        low, high = scans.flats(flat(lo, at), flat(hi, at))
        place, met = scans.of_half_width(low, high, half, n)
        if place >= 0:
            found: int = at.start + int(place)
            return found
        n -= met
    raise AssertionError("the half width is that of an element")
