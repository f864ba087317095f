"""Closing of float atomic sums: from what was accumulated to bounds that hold for every order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Accumulator, Storage
    from render.interpreter.memory.shadow import Shadow

_BLOCK = 1 << 15
"""Sums closed at a time, so that intermediate arrays stay in the cache."""


def settle(memory: Memory, storage: Storage, first: int = 0, last: int | None = None) -> None:
    """Write the bounds of the open sums among the elements [first, last) into the shadow.

    The sums stay open: more adds of the launch extend them from the same base, so that a read in between does not
    narrow the orders that the final bound covers.
    """
    acc = storage.acc
    if acc is None:
        return
    index = np.flatnonzero(acc.stale[first:last]) + first
    if not len(index):
        return
    acc.stale[index] = False
    shadow = memory.shadow_of(storage, acc.fmt)
    mem = storage.view(shadow.stamp.dtype)
    for k in range(0, len(index), _BLOCK):
        _close(memory, acc, shadow, mem, index[k : k + _BLOCK])


def _close(memory: Memory, acc: Accumulator, shadow: Shadow, mem: np.ndarray, index: np.ndarray) -> None:
    from interval_ops.reduction.atomics import close_sum

    base_lo, base_hi, sum_lo, sum_hi, magnitude, count = (a[index] for a in acc.arrays)
    lo, hi = close_sum((base_lo, base_hi), sum_lo, sum_hi, magnitude, count.astype(np.int64), acc.fmt, memory.profile)
    shadow.lo[index], shadow.hi[index] = lo, hi
    shadow.stamp[index] = mem[index]


def settle_for(memory: Memory, storage: Storage, ptr: np.ndarray) -> None:
    """Settle what an access at these addresses may read."""
    assert storage.acc is not None
    size = storage.acc.fmt.bits // 8
    first = max(0, (int(ptr.min()) - storage.base) // size)
    settle(memory, storage, first, max(first, (int(ptr.max()) - storage.base) // size + 1))
