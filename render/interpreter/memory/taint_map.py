"""Taints of stored elements: one number per byte, an index into the memory's list of taint sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from render.interpreter.memory import operands
from render.interpreter.memory.records import NO_TAINT
from render.interpreter.memory.shadow import JIT

if TYPE_CHECKING:
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.lanes import Plan
    from render.interpreter.memory.registry import Storage


@njit(**JIT)
def _seen(dims, st, ptr, mask, base, limit, size, ids, seen):
    for i in range(dims[0]):
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            for _ in range(dims[2]):
                off = np.int64(ptr[p] - base)
                if mask[m] and off >= 0 and off < limit:
                    for q in range(off, min(off + size, limit)):
                        seen[ids[q]] = True
                p += st[0, 2]
                m += st[1, 2]


def gather_taints(memory: Memory, storage: Storage, p: Plan, flat: list[np.ndarray], size: int) -> frozenset[int]:
    """Union of the taints of all active lanes' elements; `flat` starts with addresses and mask."""
    if storage.taint_map is None:
        return storage.taint
    seen = np.zeros(len(memory.taint_sets), np.bool_)
    _seen(p.dims, p.strides, flat[0], flat[1], storage.base, storage.nbytes, size, storage.taint_map, seen)
    return storage.taint | union(memory, np.flatnonzero(seen))


def union(memory: Memory, ids: np.ndarray) -> frozenset[int]:
    return NO_TAINT.union(*(memory.taint_sets[i] for i in ids))


@njit(**JIT)
def _paint(where, ids, new, offsets, old):
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


@njit(**JIT)
def _unpaint(ids, where, old):
    for n in range(len(where) - 1, -1, -1):
        for q in range(old.shape[1]):
            ids[where[n] + q] = old[n, q]


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
