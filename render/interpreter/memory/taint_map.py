"""Taints of stored elements: one number per byte, an index into the memory's list of taint sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from interval_ops.compiled import compiled
from render.interpreter.memory import operands
from render.interpreter.memory.operands import Where
from render.interpreter.memory.records import NO_TAINT

if TYPE_CHECKING:
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.lanes import Plan
    from render.interpreter.memory.registry import Storage


@compiled
def _seen(where: Where, ids: np.ndarray, seen: np.ndarray) -> None:
    dims, st, ptr, mask, base, limit, size = where
    for i in range(dims[0]):
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            for _ in range(dims[2]):
                off = np.int64(ptr[p] - base)
                if mask[m] and off >= 0 and off < limit:
                    for q in range(int(off), min(int(off) + size, limit)):
                        seen[ids[q]] = True
                p += st[0, 2]
                m += st[1, 2]


def gather_taints(memory: Memory, storage: Storage, p: Plan, flat: list[np.ndarray], size: int) -> frozenset[int]:
    """Union of the taints of all active lanes' elements; `flat` starts with addresses and mask."""
    if storage.taint_map is None:
        return storage.taint
    seen = np.zeros(len(memory.taint_sets), np.bool_)
    everywhere = operands.where(storage, p, flat, size)._replace(limit=storage.nbytes)  # bytes, not whole elements
    _seen(everywhere, storage.taint_map, seen)
    return storage.taint | union(memory, np.flatnonzero(seen))


def union(memory: Memory, ids: np.ndarray) -> frozenset[int]:
    return NO_TAINT.union(*(memory.taint_sets[i] for i in ids))


@compiled
def _paint(where: Where, ids: np.ndarray, new: int, offsets: np.ndarray, old: np.ndarray) -> int:
    """Set the ids of all bytes of the active lanes; `offsets`, `old` keep offset and former ids in order of writing."""
    dims, st, ptr, mask, base, limit, size = where
    n = 0
    for i in range(dims[0]):
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            for _ in range(dims[2]):
                off = np.int64(ptr[p] - base)
                if mask[m] and off >= 0 and off < limit and off & (size - 1) == 0:
                    offsets[n] = off
                    for q in range(size):
                        old[n, q] = ids[off + q]
                        ids[off + q] = new
                    n += 1
                p += st[0, 2]
                m += st[1, 2]
    return n


@compiled
def _unpaint(ids: np.ndarray, offsets: np.ndarray, old: np.ndarray) -> None:
    for n in range(len(offsets) - 1, -1, -1):
        for q in range(old.shape[1]):
            ids[offsets[n] + q] = old[n, q]


def paint(memory: Memory, storage: Storage, p: Plan, flat: list[np.ndarray], size: int, taint: frozenset[int]) -> None:
    """Give the active lanes' elements exactly this taint; undoable. `flat` starts with addresses and mask."""
    if storage.taint_map is None:
        if not taint:
            return
        storage.taint_map = np.zeros(storage.nbytes, np.uint32)
        memory.log.push(lambda: setattr(storage, "taint_map", None))
    ids = storage.taint_map
    offsets, old = np.empty(p.size, np.int64), np.empty((p.size, size), np.uint32)
    new = memory.taint_index(taint)
    n = _paint(operands.where(storage, p, flat, size), ids, new, offsets, old)
    offsets, old = offsets[:n].copy(), old[:n].copy()
    memory.log.push(lambda: _unpaint(ids, offsets, old))
