"""Stores: values, bounds, tags and taints into memory, lane by lane."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from interval_ops.formats import tables
from render.interpreter.memory import integers, operands, places, reading
from render.interpreter.memory.events import Access, digest, inside_lanes
from render.interpreter.memory.findings import distinct
from render.interpreter.memory.gather import OVERWRITE
from render.interpreter.memory.lanes import cut, plan
from render.interpreter.memory.reading import ALL_LANES, copies_of
from render.interpreter.memory.records import Hazard, LoadResult, Request, Retry
from render.interpreter.memory.scatter import SAVE_BITS, SAVE_SHADOW, SAVE_WRITTEN
from render.interpreter.memory.scattered import parts
from render.interpreter.memory.split import scattered
from render.interpreter.memory.taint_map import gather_taints, paint
from render.interpreter.memory.undo import Segment

if TYPE_CHECKING:
    from interval_ops.formats.model import Format
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage
    from render.interpreter.memory.shadow import Shadow
    from render.interpreter.types import ElemType


def store(
    memory: Memory, request: Request, v: np.ndarray, lo: np.ndarray | None, hi: np.ndarray | None,
    taint: frozenset[int], among: tuple[np.ndarray, ...] | None = None,
) -> None:  # fmt: skip
    """See `Memory.store`."""
    mask, elem = request.mask, request.elem
    doubtful = None
    if mask is not None and request.possible is not None:
        flags = np.not_equal(mask, request.possible)
        doubtful = flags if flags.any() else None
    moving = places.open_lanes(request) & request.active if request.among else None
    if doubtful is None and moving is None:
        _dispatch(memory, request, v, lo, hi, taint, None, among)
        return
    # The bits of an undecided lane follow the value lane; its bounds hold the old and the new value.
    active, given = request.active, (lo, hi)
    old = reading.load_quietly(memory, request.ptr, active, elem, request.origin, request.site)
    taint |= old.taint
    unsure = doubtful if moving is None else moving if doubtful is None else moving | doubtful
    assert unsure is not None
    if doubtful is not None:
        taint |= {memory.taint("RND303", "store", request.site, "the bounds leave open whether a lane is stored")}
    if moving is not None and old.void is not None and (old.void & moving).any():
        taint |= {memory.taint("RND303", "store", request.site, "the bounds leave open which elements are ever stored")}
    if memory.interval and (elem.fmt is not None or doubtful is None):
        (new_lo, new_hi), (old_lo, old_hi) = (v, v) if lo is None or hi is None else (lo, hi), old.pair
        lo = np.where(unsure, np.minimum(new_lo, old_lo), new_lo).astype(np.float64, copy=False)
        hi = np.where(unsure, np.maximum(new_hi, old_hi), new_hi).astype(np.float64, copy=False)
    else:
        lo = hi = None  # the taint says that the integer is unknown
    both = None if elem.fmt is not None or moving is None else _either_of(old, v, among, unsure)
    bits = v if doubtful is None or mask is None else np.where(doubtful & ~mask, old.v, v)
    _dispatch(memory, replace(request, mask=active, possible=None, among=()), bits, lo, hi, taint, unsure, both)
    if moving is not None:
        for ptr in request.among:
            where = np.broadcast_to(ptr, np.broadcast_shapes(ptr.shape, moving.shape))
            memory.placed.update(where[np.broadcast_to(moving, where.shape)].tolist())
    if moving is not None and memory.interval:
        value = (v, v) if given[0] is None or given[1] is None else (given[0], given[1])
        more = places.store(memory, request, v, value, among or ((v,) if elem.fmt is None else None))
        if taint | more:
            for ptr, mine in places.each(request, active, moving):
                _mark(memory, replace(request, ptr=ptr, mask=mine), taint | more)


def _either_of(
    old: LoadResult, v: np.ndarray, among: tuple[np.ndarray, ...] | None, unsure: np.ndarray
) -> tuple[np.ndarray, ...] | None:
    """What an integer may be that may have been stored."""
    if old.lo is not None and not old.among:
        return None
    return (*(np.where(unsure, a, v) for a in old.among or (old.v,)), *(among or (v,)))


def _mark(memory: Memory, request: Request, taint: frozenset[int]) -> None:
    """Give the elements that may have been stored this taint beside their own."""
    ptr, active = request.ptr, request.active
    for storage, mine in [(request.origin, active)] if request.origin is not None else parts(memory, ptr, active):
        p, flat = plan([ptr, mine])
        met = gather_taints(memory, storage, p, flat, request.elem.itemsize)
        paint(memory, storage, p, flat, request.elem.itemsize, taint | met)


def _dispatch(
    memory: Memory, request: Request, v: np.ndarray, lo: np.ndarray | None, hi: np.ndarray | None,
    taint: frozenset[int], doubtful: np.ndarray | None, among: tuple[np.ndarray, ...] | None,
) -> None:  # fmt: skip
    if request.origin is not None:
        _store_one(memory, request, request.origin, v, lo, hi, taint, doubtful, among)
        return
    for storage, mine in parts(memory, request.ptr, request.mask):
        _store_one(memory, request.into(storage, mine), storage, v, lo, hi, taint, doubtful, among)


def bits_of(v: np.ndarray, elem: ElemType) -> np.ndarray:
    """Stored bits of a value lane, as unsigned integers of the element's size."""
    unsigned = np.dtype(f"u{elem.itemsize}")
    if elem.fmt is not None:
        return tables.encode(v, elem.fmt).view(unsigned)
    return np.ascontiguousarray(v).astype(elem.storage, copy=False).reshape(v.shape).view(unsigned)


def _store_one(
    memory: Memory, request: Request, storage: Storage, v: np.ndarray, lo: np.ndarray | None, hi: np.ndarray | None,
    taint: frozenset[int], doubtful: np.ndarray | None, among: tuple[np.ndarray, ...] | None,
) -> None:  # fmt: skip
    """All lanes into one storage."""
    ptr, mask, elem, pids, site = request.ptr, request.mask, request.elem, request.pids, request.site
    v = cut(v)
    between = (lo, hi) if lo is not None and hi is not None and memory.interval else (v, v)
    numbers = v.view(np.int8) if v.dtype == np.bool_ else v  # compiled loops make no number of a truth value
    bounds = (numbers, numbers) if elem.fmt is None else between
    active = ALL_LANES if mask is None else mask
    operands = [ptr, active, bits_of(v, elem), bounds[0], bounds[1]]
    whole = None if doubtful is None else np.broadcast_shapes(*(a.shape for a in operands), doubtful.shape)
    p, flat = plan(operands, whole)
    memory.use(storage)
    memory.note_programs(pids)
    if memory.track(storage):
        raise Retry(f"{storage.name or 'a tensor'} is both read and written")
    shadow = _shadow_for(memory, storage, elem, exact=lo is None)
    copied = memory.prepare_tags(storage, elem.itemsize)
    flags = None if doubtful is None else np.broadcast_to(doubtful, p.shape).reshape(-1)
    copies = copies_of(p, ptr, mask, len(pids))
    access = Access(storage, p, flat[0], elem.itemsize, pids, site, "write", copies, flags)
    if storage.acc is not None:
        _drop_sums(memory, access, flat[1])
    codes = _scatter(memory, access, flat, shadow, copied)
    storage.stored = True
    if doubtful is not None or np.any(active):
        storage.stored_in = memory.tag_bounds[0]
    if elem.fmt is None and memory.interval and (between[0] is not v or elem.name in storage.shadows):
        integers.note(memory, storage, ptr, active, between, elem, among)
    if len(codes):
        more, by_kind = digest(memory, access, codes)
        taint |= more if OVERWRITE in by_kind or doubtful is not None else frozenset()
    if memory.interval and (taint or storage.taint_map is not None):
        paint(memory, storage, p, flat, elem.itemsize, taint)


def _shadow_for(memory: Memory, storage: Storage, elem: ElemType, exact: bool) -> Shadow | None:
    """The shadow that the store must keep up: none for exact values where there is none yet."""
    if elem.fmt is None or not memory.interval:
        return None
    if exact and elem.fmt.name not in storage.shadows:
        return None
    return memory.shadow_of(storage, elem.fmt)


def _scatter(memory: Memory, access: Access, flat: list[np.ndarray], shadow: Shadow | None, copied: bool) -> np.ndarray:
    """Run the kernel and log what it replaced; gives the event codes."""
    storage, p, size = access.storage, access.plan, access.size
    save = 0 if copied else SAVE_BITS
    if not copied and storage.written is not None:
        save |= SAVE_WRITTEN
    if not copied and shadow is not None and memory.needs_saving(shadow):
        save |= SAVE_SHADOW
    numbers = table = None
    if shadow is not None and size <= 2:
        table = tables.lut(cast("Format", shadow.fmt))
    elif shadow is not None:
        numbers = storage.view(tables.carrier(cast("Format", shadow.fmt)))
    arena = memory.log.arena
    events, undo = memory.events(p.size), operands.undo(arena, save, p.size)
    # Bounds that are not stored are not read: as what they are would be a loop of its own for each type of integers.
    values = flat[2], *((operands.NO_BOUNDS, operands.NO_BOUNDS) if shadow is None else flat[3:])
    noted, arena.used, first, last = scattered(
        operands.where(storage, p, flat, size), values, memory.enter(access.pids, p.shape[0]),
        operands.cells(storage, size, numbers, table), operands.bounded(storage, shadow, size), memory.since(), undo,
        events,
    )  # fmt: skip
    kept = shadow if save & SAVE_SHADOW else None
    saved = undo.used, arena.used, kept, bool(save & SAVE_WRITTEN), None
    memory.log.segment(Segment(storage, size, arena.columns, *saved))
    if last >= 0:
        storage.touched_by_kernel(first * size, (last + 1) * size)
    if noted < 0:
        raise Hazard(f"a program stores to {access.name} what another program of its chunk read or stored")
    return events[:noted]


def _drop_sums(memory: Memory, access: Access, mask: np.ndarray) -> None:
    """A plain store ends what atomics accumulated at its addresses."""
    acc = access.storage.acc
    assert acc is not None
    size = acc.fmt.bits // 8
    index = distinct(inside_lanes(access.storage, access.plan, [access.ptr, mask], size)[1] // size)
    # All of it is saved even where no sum is open: an atomic that follows finds the element saved already.
    old = [array[index] for array in acc.arrays]

    def put_back() -> None:
        for array, part in zip(acc.arrays, old, strict=True):
            array[index] = part

    memory.log.push(put_back)
    acc.count[index] = 0
    acc.stale[index] = False


def note_stored(memory: Memory, request: Request) -> None:
    """See `Memory.note_stored`: lanes that are on, of addresses inside a known storage."""
    mask = True if request.mask is None else request.mask
    at, on = np.broadcast_arrays(request.ptr, mask)
    at = at[on]
    rank, storages = memory.registry.locate(at)
    for k in np.unique(rank[rank >= 0]):
        storage = storages[k]
        if storage.stored_at is None:
            storage.stored_at = np.zeros(storage.nbytes, np.bool_)
        storage.stored_at[at[rank == k] - storage.base] = True
