"""Which place of a row has which rank, where bounds overlap."""

from __future__ import annotations

import numpy as np

ROOM = 1 << 22
"""Pairs of elements of rows that are compared."""


def ranks(pair: tuple[np.ndarray, np.ndarray], descending: bool, stable: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """(first, last) place that may have each rank, of rows along the last axis; None where that takes too long.

    An element comes before another where its whole bound does; equal ones of a stable sort as they stand.
    """
    lo, hi = (-pair[1], -pair[0]) if descending else pair
    n = lo.shape[-1]
    if lo.size * n > ROOM:
        return None
    before = hi[..., :, None] < lo[..., None, :]
    if stable:
        before |= (hi[..., :, None] <= lo[..., None, :]) & np.tri(n, n, -1, bool).T
    least, most = before.sum(-2)[..., None, :], n - 1 - before.sum(-1)[..., None, :]
    rank = np.arange(n)[:, None]
    may = (least <= rank) & (rank <= most)
    return np.argmax(may, -1), n - 1 - np.argmax(may[..., ::-1], -1)
