"""Ends of bounds around values that were evaluated in float64, in one pass: as a chain of whole arrays each step
fetches all from memory."""

from __future__ import annotations

import math

import numpy as np

from interval_ops.bounds import Array, Pair
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import EPS, TINY

_UP = 1.0 + 2.0**-40


@compiled
def _around(
    values: Array, size: Array, spread: Array, rates: tuple[float, float, float], limit: float, lo: Array, hi: Array
) -> None:
    rate, own, floor = rates
    for i in range(values.size):
        most = size[i]
        error = rate * most + floor
        if not most + error < limit:  # NaN, too
            lo[i] = hi[i] = math.nan
            continue
        value, reach = values[i], (max(spread[i], 0.0) + error + own * most) * _UP
        low, high = value - reach, value + reach
        lo[i], hi[i] = low - abs(low) * EPS - TINY, high + abs(high) * EPS + TINY


def around(values: Array, size: Array, spread: Array, rates: tuple[float, float, float], limit: float) -> Pair:
    """values -+ (spread + (rate + own) size + floor), `rates` being (rate, own, floor); NaN where sums may overflow.

    They do where magnitudes and roundings together reach `limit`.
    """
    v, s, r = (np.ascontiguousarray(x, np.float64).reshape(-1) for x in np.broadcast_arrays(values, size, spread))
    lo, hi = np.empty(v.size), np.empty(v.size)
    _around(v, s, r, rates, limit, lo, hi)
    return lo.reshape(values.shape), hi.reshape(values.shape)


__all__ = ["around"]
