"""Stored integers that rounding leaves open: their ends beside the bits, as for floats, where there are any.

They are rare (a few lanes at the boundary of a rounding), so a storage gets a shadow for them only when one is stored,
and then every store of that type goes through here. Float64 holds the ends exactly (`open_integers.EXACT`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from render.interpreter.memory.events import inside_lanes, spread
from render.interpreter.memory.lanes import Plan, plan

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage
    from render.interpreter.memory.shadow import Shadow
    from render.interpreter.types import ElemType

Ends = tuple[np.ndarray, np.ndarray]
CANDIDATES = 32
"""As in `open_integers`, which is above this room's floor."""
FEW = 1 << 12
"""Of more open lanes only the ends are loaded."""
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


def put_choices(shadow: Shadow, sets: Mapping[int, tuple[int, ...] | None]) -> None:
    """Note what elements may be; None: not known."""
    for k, held in sets.items():
        if held is None:
            shadow.among.pop(k, None)
        else:
            shadow.among[k] = held


def choices_at(shadow: Shadow, k: int, live: bool, v: float) -> tuple[int, ...] | None:
    """All that an element may be; None where they are too many. `v`: its value, if it is not `live`."""
    lo, hi = (float(shadow.lo[k]), float(shadow.hi[k])) if live else (float(v), float(v))
    held = shadow.among.get(k, ())
    if held and live and (held[0], held[-1]) == (lo, hi):
        return held
    return tuple(range(int(lo), int(hi) + 1)) if hi - lo < CANDIDATES else None


def note(
    memory: Memory, storage: Storage, ptr: np.ndarray, active: np.ndarray, between: Ends, elem: ElemType,
    among: tuple[np.ndarray, ...] | None = None,
) -> None:  # fmt: skip
    """Attach ends to the integers that a store has just written; lanes of one address get the hull. `among`: all that
    they may be."""
    kind = type_of(elem.name)
    if kind is None:
        return
    shadow = memory.shadow_of(storage, kind)
    p, flat = plan([ptr, active, *between, *(among or ())])
    lanes, offsets = inside_lanes(storage, p, flat, elem.itemsize)
    if not len(lanes):
        return
    index, where = np.unique(offsets // elem.itemsize, return_inverse=True)
    lo, hi = np.full(len(index), np.inf), np.full(len(index), -np.inf)
    np.minimum.at(lo, where, spread(p, flat[2], 2)[lanes])
    np.maximum.at(hi, where, spread(p, flat[3], 3)[lanes])
    old = [array[index] for array in (shadow.lo, shadow.hi, shadow.stamp)]
    held = np.array(list(shadow.among), np.int64)
    before = {k: shadow.among.get(k) for k in held[np.isin(held, index)].tolist()}
    some = (lo < hi)[where]  # the others are one number each, and mostly all are others
    sets: dict[int, set[int]] = {k: set() for k in index[lo < hi].tolist()} if among else {}
    for row in range(4, len(flat)):
        chosen = spread(p, flat[row], row)[lanes][some]
        for k, x in zip(index[where[some]].tolist(), chosen.tolist(), strict=True):
            sets[k].add(x)
    now = {k: tuple(sorted(s)) for k, s in sets.items() if len(s) > 1}
    before.update((k, shadow.among.get(k)) for k in now if k not in before)

    def put_back() -> None:
        shadow.lo[index], shadow.hi[index], shadow.stamp[index] = old
        put_choices(shadow, before)

    memory.log.push(put_back)
    shadow.lo[index], shadow.hi[index] = lo, hi
    shadow.stamp[index] = storage.view(shadow.stamp.dtype)[index]
    put_choices(shadow, {**dict.fromkeys(before), **now})


def loaded(
    storage: Storage, p: Plan, flat: list[np.ndarray], elem: ElemType, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]] | None:
    """Ends of loaded lanes and all that they may be (empty: too much), in the plan's shape; None if all are points."""
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
    if live.sum() > FEW:
        return low.reshape(p.shape), high.reshape(p.shape), ()
    sets = [choices_at(shadow, k, True, 0.0) for k in index[live].tolist()]
    among = []
    for turn in range(0 if None in sets else max(len(s) for s in sets if s is not None)):
        among.append(one := v.copy())
        one[lanes[live]] = [s[min(turn, len(s) - 1)] for s in sets if s is not None]
    return low.reshape(p.shape), high.reshape(p.shape), tuple(a.reshape(p.shape) for a in among)


class Offsets(NamedTuple):
    """How far the ends of elements lie from their bits."""

    storage: Storage
    shadow: Shadow
    at: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


def offsets_of(memory: Memory, storage: Storage, ptr: np.ndarray, active: np.ndarray, elem: ElemType) -> Offsets | None:
    """Of the elements that an atomic addition is about to change."""
    kind = type_of(elem.name)
    if kind is None:
        return None
    shadow = memory.shadow_of(storage, kind)
    p, flat = plan([ptr, active])
    index = np.unique(inside_lanes(storage, p, flat, elem.itemsize)[1] // elem.itemsize)
    now = storage.view(elem.storage)[index].astype(np.float64)
    live = shadow.stamp[index] == storage.view(shadow.stamp.dtype)[index]
    return Offsets(storage, shadow, index, *(np.where(live, end[index] - now, 0.0) for end in (shadow.lo, shadow.hi)))


def added(memory: Memory, before: Offsets, lanes: tuple[np.ndarray, ...], site: Site) -> frozenset[int]:
    """After it: the elements keep their ends' distance and gain that of what was added (`lanes`: addresses, mask,
    value, ends). A taint where a sum may have left the type."""
    storage, shadow, index, low, high = before
    dtype = np.dtype(shadow.fmt.name)
    p, flat = plan([a if a.dtype != np.bool_ or n == 1 else a.astype(np.float64) for n, a in enumerate(lanes)])
    mine, where = inside_lanes(storage, p, flat, dtype.itemsize)
    at = np.searchsorted(index, where // dtype.itemsize)
    value, lo, hi = (spread(p, flat[row], row)[mine].astype(np.float64) for row in (2, 3, 4))
    np.add.at(low, at, lo - value)
    np.add.at(high, at, hi - value)
    now = storage.view(dtype)[index].astype(np.float64)
    old = [array[index] for array in (shadow.lo, shadow.hi, shadow.stamp)]
    sets = {k: shadow.among.get(k) for k in index.tolist()}

    def put_back() -> None:
        shadow.lo[index], shadow.hi[index], shadow.stamp[index] = old
        put_choices(shadow, sets)

    memory.log.push(put_back)
    put_choices(shadow, dict.fromkeys(sets))
    shadow.lo[index], shadow.hi[index] = now + low, now + high
    shadow.stamp[index] = storage.view(shadow.stamp.dtype)[index]
    info = np.iinfo(dtype)
    reach = max(-(2.0**52), float(info.min)), min(2.0**52, float(info.max))
    if ((now + low < reach[0]) | (now + high > reach[1])).any():
        return frozenset((memory.taint("RND302", "atomic_add", site, LEFT_OPEN),))
    return frozenset()


def any_open(storage: Storage) -> bool:
    """Whether the storage holds an integer whose value is open."""
    return any(
        type_of(name) is not None
        and bool(((shadow.lo < shadow.hi) & (shadow.stamp == storage.view(shadow.stamp.dtype))).any())
        for name, shadow in storage.shadows.items()
    )
