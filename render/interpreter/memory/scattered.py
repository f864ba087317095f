"""Pointers of unknown origin: which storage each address lies in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage


def parts(memory: Memory, ptr: np.ndarray, mask: np.ndarray | None) -> list[tuple[Storage, np.ndarray]]:
    """(storage, lanes in it) for the active lanes, at least one entry; lanes in no storage belong to `nowhere`."""
    shape = ptr.shape if mask is None else np.broadcast_shapes(ptr.shape, mask.shape)
    active = np.broadcast_to(np.True_ if mask is None else mask, shape)
    rank, storages = memory.registry.locate(np.broadcast_to(ptr, shape))
    found = rank[active]
    if not found.size or (found == found[0]).all():
        storage = storages[found[0]] if found.size and found[0] >= 0 else memory.nowhere
        return [(storage, active)]
    ranks = np.flatnonzero(np.bincount(found + 1)) - 1  # few numbers from -1 on: no need to sort all lanes
    return [(storages[r] if r >= 0 else memory.nowhere, active & (rank == r)) for r in ranks]
