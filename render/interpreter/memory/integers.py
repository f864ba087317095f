"""Stored integers that rounding leaves open: their ends beside the bits, as for floats, where there are any.

They are rare (a few lanes at the boundary of a rounding), so a storage gets a shadow for them only when one is stored,
and then every store of that type goes through here. Float64 holds the ends exactly (`open_integers.EXACT`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from render.interpreter.memory.events import inside_lanes, spread
from render.interpreter.memory.lanes import Plan, plan

if TYPE_CHECKING:
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage
    from render.interpreter.types import ElemType

Ends = tuple[np.ndarray, np.ndarray]
LEFT_OPEN = "the bounds leave open which integer was stored"


@dataclass(frozen=True)
class IntegerType:
    """What a shadow knows of its elements' type, as `Format` says it of floats."""

    name: str
    bits: int


INTEGERS: dict[torch.dtype, IntegerType] = {
    dtype: IntegerType(str(dtype).removeprefix("torch."), 8 * dtype.itemsize)
    for dtype in (
        torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.bool,
    )
}  # fmt: skip


@cache
def type_of(name: str) -> IntegerType | None:
    """By Triton's name; None for what is no integer, truth values in kernels among it (`int1`)."""
    return next((t for t in INTEGERS.values() if t.name == name), None)


def note(memory: Memory, storage: Storage, ptr: np.ndarray, active: np.ndarray, between: Ends, elem: ElemType) -> None:
    """Attach ends to the integers that a store has just written; lanes of one address get the hull."""
    kind = type_of(elem.name)
    if kind is None:
        return
    shadow = memory.shadow_of(storage, kind)
    p, flat = plan([ptr, active, *between])
    lanes, offsets = inside_lanes(storage, p, flat, elem.itemsize)
    if not len(lanes):
        return
    index, where = np.unique(offsets // elem.itemsize, return_inverse=True)
    lo, hi = np.full(len(index), np.inf), np.full(len(index), -np.inf)
    np.minimum.at(lo, where, spread(p, flat[2], 2)[lanes])
    np.maximum.at(hi, where, spread(p, flat[3], 3)[lanes])
    old = [array[index] for array in (shadow.lo, shadow.hi, shadow.stamp)]

    def put_back() -> None:
        shadow.lo[index], shadow.hi[index], shadow.stamp[index] = old

    memory.log.push(put_back)
    shadow.lo[index], shadow.hi[index] = lo, hi
    shadow.stamp[index] = storage.view(shadow.stamp.dtype)[index]


def loaded(storage: Storage, p: Plan, flat: list[np.ndarray], elem: ElemType, v: np.ndarray) -> Ends | None:
    """Ends of loaded lanes, in the plan's shape; None if all are points."""
    shadow = storage.shadows.get(elem.name)
    if shadow is None or type_of(elem.name) is None:
        return None
    lanes, offsets = inside_lanes(storage, p, flat, elem.itemsize)
    index = offsets // elem.itemsize
    lo, hi = shadow.lo[index], shadow.hi[index]
    live = (shadow.stamp[index] == storage.view(shadow.stamp.dtype)[index]) & (
        (lo < hi) | (lo == hi) & (lo != v[lanes])
    )
    if not live.any():
        return None
    low = v.astype(np.float64)
    high = low.copy()
    low[lanes[live]], high[lanes[live]] = lo[live], hi[live]
    return low.reshape(p.shape), high.reshape(p.shape)


def any_open(storage: Storage) -> bool:
    """Whether the storage holds an integer whose value is open."""
    return any(
        type_of(name) is not None
        and bool(((shadow.lo < shadow.hi) & (shadow.stamp == storage.view(shadow.stamp.dtype))).any())
        for name, shadow in storage.shadows.items()
    )
