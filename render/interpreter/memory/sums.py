"""Closing of float atomic sums: from what was accumulated to bounds that hold for every order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage


def settle(memory: Memory, storage: Storage) -> None:
    """Write the bounds of every open sum into the shadow.

    The sums stay open: more adds of the launch extend them from the same base, so that a read in between does not
    narrow the orders that the final bound covers.
    """
    acc = storage.acc
    if acc is None or not acc.dirty:
        return
    acc.dirty = False
    index = np.flatnonzero(acc.count)
    if not len(index):
        return
    from interval_ops.atomics import close_sum

    base = (acc.base_lo[index], acc.base_hi[index])
    count = acc.count[index].astype(np.int64)
    parts = (acc.sum_lo[index], acc.sum_hi[index], acc.magnitude[index])
    lo, hi = close_sum(base, *parts, count, acc.fmt, memory.profile)
    shadow = memory.shadow_of(storage, acc.fmt)
    shadow.lo[index], shadow.hi[index] = lo, hi
    shadow.stamp[index] = storage.view(shadow.stamp.dtype)[index]
