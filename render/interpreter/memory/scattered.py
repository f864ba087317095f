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
    ranks = np.unique(rank[active])
    if len(ranks) <= 1:
        storage = storages[ranks[0]] if len(ranks) and ranks[0] >= 0 else memory.nowhere
        return [(storage, active)]
    return [(storages[r] if r >= 0 else memory.nowhere, active & (rank == r)) for r in ranks]
