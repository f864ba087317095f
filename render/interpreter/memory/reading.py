"""Loads: values, bounds and taints of memory, lane by lane."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from interval_ops.formats import tables
from render.interpreter.memory import integers, operands, places, sums
from render.interpreter.memory.events import Access, digest, inside_lanes
from render.interpreter.memory.gather import KIND_BITS, NEVER, OUTSIDE, check_reads
from render.interpreter.memory.lanes import Plan, plan
from render.interpreter.memory.records import NO_TAINT, Hazard, LoadResult, Request
from render.interpreter.memory.scattered import parts
from render.interpreter.memory.shadow import overlapping
from render.interpreter.memory.split import gathered, gathered_bounds
from render.interpreter.memory.taint_map import gather_taints

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage
    from render.interpreter.types import ElemType

ALL_LANES = np.ones(1, np.bool_)
_NO_LANES = np.empty(0, np.int64)
_ZEROS: dict[np.dtype, np.ndarray] = {}


def value_dtype(elem: ElemType) -> np.dtype:
    """dtype of the value lane: the number carrier, or the storage dtype of integers and pointers."""
    return tables.carrier(elem.fmt) if elem.fmt is not None else elem.storage


def load(memory: Memory, request: Request, other: Any, other_iv: Any) -> LoadResult:
    """See `Memory.load`."""
    doubtful = None
    if request.mask is not None and request.possible is not None:
        doubtful = np.not_equal(request.mask, request.possible)
        doubtful = doubtful if doubtful.any() else None
    if request.among:
        got = _at_places(memory, replace(request, mask=request.active), other, other_iv, doubtful)
    elif doubtful is None:
        return _load(memory, request, other, other_iv, None)
    else:
        got = _load(memory, replace(request, mask=request.active), other, other_iv, doubtful)
    return got if doubtful is None else _either(memory, request, got, doubtful, other, other_iv)


def _at_places(memory: Memory, request: Request, other: Any, other_iv: Any, doubtful: np.ndarray | None) -> LoadResult:
    """The value lane's element, within the hull of those of all candidates."""
    unsure = places.open_lanes(request)
    unsure = unsure if doubtful is None else unsure | doubtful
    at = lambda ptr: replace(request, ptr=np.broadcast_to(ptr, request.ptr.shape), among=())  # noqa: E731
    got = _load(memory, at(request.ptr), other, other_iv, unsure)
    found = [_load(memory, at(ptr), other, other_iv, unsure) for ptr in request.among]
    taint = got.taint.union(*(g.taint for g in found))
    if not memory.interval:
        return replace(got, taint=taint)
    ends, among = places.hull(found)
    if ends is None and not np.array_equal(found[0].v, got.v):  # without rounding the value lane may be elsewhere
        ends = found[0].v.astype(np.float64), found[0].v.astype(np.float64)
    lo, hi = ends or (None, None)
    return replace(got, lo=lo, hi=hi, taint=taint, void=None, why=NO_TAINT, among=among)


def _either(
    memory: Memory, request: Request, got: LoadResult, doubtful: np.ndarray, other: Any, other_iv: Any
) -> LoadResult:
    """Undecided lanes: the value lane follows the mask, the bounds hold the loaded and the other value."""
    elem, site, dtype = request.elem, request.site, value_dtype(request.elem)
    message = "the bounds leave open whether a lane is loaded"
    taint = got.taint | {memory.taint("RND303", "load", site, message)}
    default = np.zeros((1,) * got.v.ndim, dtype) if other is None else np.asarray(other).astype(dtype, copy=False)
    v = np.where(doubtful & ~cast(np.ndarray, request.mask), default, got.v)
    if elem.fmt is None or not memory.interval:
        if got.lo is not None:
            taint |= {memory.taint("RND302", "load", site, integers.LEFT_OPEN)}
        return replace(got, v=v, lo=None, hi=None, taint=taint)
    other_lo, other_hi = (default, default) if other_iv is None else other_iv
    lo, hi = got.pair
    low = np.where(doubtful, np.minimum(lo, other_lo), lo).astype(np.float64, copy=False)
    high = np.where(doubtful, np.maximum(hi, other_hi), hi).astype(np.float64, copy=False)
    return replace(got, v=v, lo=low, hi=high, taint=taint)


def _load(memory: Memory, request: Request, other: Any, other_iv: Any, doubtful: np.ndarray | None) -> LoadResult:
    """Decided lanes, in the storage `origin` or wherever each address lies."""
    if request.origin is not None:
        return _load_one(memory, request, request.origin, other, other_iv, doubtful)
    found = parts(memory, request.ptr, request.mask)
    if len(found) == 1:
        return _load_one(memory, request, found[0][0], other, other_iv, doubtful)
    out: LoadResult | None = None
    for storage, mine in found:
        got = _load_one(memory, request.into(storage, mine), storage, other, other_iv, doubtful)
        out = got if out is None else _merge(out, got, mine)
    assert out is not None
    return replace(out, masked_off=other is None and request.mask is not None and not np.all(request.mask))


def _merge(out: LoadResult, got: LoadResult, mine: np.ndarray) -> LoadResult:
    v, taint = np.where(mine, got.v, out.v), out.taint | got.taint
    if out.lo is None and got.lo is None:
        return LoadResult(v, taint=taint)
    lo, hi = (np.where(mine, n, o).astype(np.float64, copy=False) for n, o in zip(got.pair, out.pair, strict=True))
    return LoadResult(v, lo, hi, taint)


def _load_one(
    memory: Memory, request: Request, storage: Storage, other: Any, other_iv: Any, doubtful: np.ndarray | None
) -> LoadResult:
    """All lanes in one storage: check and gather, then what the launch wrote, then bounds."""
    ptr, mask, elem, pids, site = request.ptr, request.mask, request.elem, request.pids, request.site
    dtype = value_dtype(elem)
    default = _zero(dtype) if other is None else np.asarray(other).astype(dtype, copy=False)
    operands = [ptr, ALL_LANES if mask is None else mask, default, *(other_iv or ())]
    whole = None if doubtful is None else np.broadcast_shapes(*(a.shape for a in operands), doubtful.shape)
    p, flat = plan(operands, whole)
    memory.use(storage)
    memory.note_programs(pids)
    memory.before_read(storage)
    launch, _, storage.loaded_at = memory.tag_bounds
    storage.read_in = launch
    size = elem.itemsize
    v = np.empty(p.size, dtype)
    noted, masked_off = _gather(memory, storage, p, flat, elem, v)
    taint, void = NO_TAINT, _NO_LANES
    never: tuple[np.ndarray | None, frozenset[int]] = None, NO_TAINT
    if noted or storage.written is not None or storage.stored or storage.tracked:
        flags = None if doubtful is None else np.broadcast_to(doubtful, p.shape).reshape(-1)
        copies = copies_of(p, ptr, mask, len(pids))
        access = Access(storage, p, flat[0], size, pids, site, "read", copies, flags)
        codes = np.concatenate([memory.events(p.size)[:noted], _check(memory, access, flat[1])])
        taint, by_kind = digest(memory, access, codes)
        void = np.concatenate([by_kind.get(k, _NO_LANES) for k in (OUTSIDE, NEVER)])
        v[void] = 0
        never = _never_written(memory, taint, by_kind, p)
    if memory.interval and never[0] is not None and storage.taint_map is not None:
        seen = plan([ptr, (ALL_LANES if mask is None else mask) & ~never[0]], p.shape)
        taint |= gather_taints(memory, storage, *seen, size)
        why = gather_taints(memory, storage, p, flat, size) - taint
        taint, never = taint | why, (never[0], never[1] | why)
    elif memory.interval:
        taint |= gather_taints(memory, storage, p, flat, size)
    undefined = bool(masked_off) and other is None
    if elem.fmt is None or not memory.interval:
        taint |= _foreign(memory, storage, p, flat, elem, site)[0]
        between = integers.loaded(storage, p, flat, elem, v) if memory.interval and storage.shadows else None
        low, high, among = between or (None, None, ())
        return LoadResult(v.reshape(p.shape), low, high, taint, undefined, False, *never, among)
    lo, hi, more = _bounds(memory, storage, p, flat, elem, v, void, site)
    return LoadResult(v.reshape(p.shape), lo, hi, taint | more, undefined, False, *never)


def _never_written(
    memory: Memory, taint: frozenset[int], by_kind: dict[int, np.ndarray], p: Plan
) -> tuple[np.ndarray | None, frozenset[int]]:
    """The lanes that nothing has written, and the taints that concern no other lane."""
    if NEVER not in by_kind:
        return None, NO_TAINT
    lanes = np.zeros(p.size, np.bool_)
    lanes[by_kind[NEVER]] = True
    return lanes.reshape(p.shape), frozenset(i for i in taint if memory.taints.all[i].code == "RND208")


def load_quietly(
    memory: Memory, ptr: np.ndarray, mask: np.ndarray, elem: ElemType, origin: Storage | None, site: Site
) -> LoadResult:
    """What lies at the active lanes now: no findings, no order of programs (lanes outside or never written: 0, top)."""
    out: LoadResult | None = None
    whole = np.broadcast_shapes(ptr.shape, mask.shape)
    for storage, mine in [(origin, mask)] if origin is not None else parts(memory, ptr, mask):
        p, flat = plan([ptr, mine, _zero(value_dtype(elem))], whole)
        v = np.empty(p.size, value_dtype(elem))
        noted, _ = _gather(memory, storage, p, flat, elem, v)
        void = memory.events(p.size)[:noted] >> KIND_BITS
        if storage.written is not None:
            inside = np.zeros(p.size, np.bool_)
            lanes, where = inside_lanes(storage, p, flat, elem.itemsize)
            inside[lanes] = storage.written_view(elem.itemsize)[where // elem.itemsize] != -1
            void = np.concatenate([void, np.flatnonzero(inside)])
        v[void] = 0
        taint = gather_taints(memory, storage, p, flat, elem.itemsize)
        got = LoadResult(v.reshape(p.shape), taint=taint)
        if elem.fmt is not None and memory.interval:
            lo, hi, more = _bounds(memory, storage, p, flat, elem, v, void, site)
            got = replace(got, lo=lo, hi=hi, taint=taint | more)
        elif memory.interval and (open_ := integers.loaded(storage, p, flat, elem, v)) is not None:
            got = replace(got, lo=open_[0], hi=open_[1], among=open_[2])
        if len(void):
            flags = np.zeros(p.size, np.bool_)
            flags[void] = True
            got = replace(got, void=flags.reshape(p.shape))
        out = got if out is None else _merge(out, got, mine)
    assert out is not None
    return out


def _zero(dtype: np.dtype) -> np.ndarray:
    got = _ZEROS.get(dtype)
    if got is None:
        got = _ZEROS[dtype] = np.zeros(1, dtype)
    return got


def copies_of(p: Plan, ptr: np.ndarray, mask: np.ndarray | None, programs: int) -> int:
    """Identical lanes of the access that one lane of the plan stands for."""
    shape = ptr.shape if mask is None or mask.shape == ptr.shape else np.broadcast_shapes(ptr.shape, mask.shape)
    logical = prod(shape) * (programs if shape[0] == 1 else 1)
    return max(1, logical // max(1, p.size))


def _gather(
    memory: Memory, storage: Storage, p: Plan, flat: list[np.ndarray], elem: ElemType, v: np.ndarray
) -> tuple[int, int]:
    """Values into `v`; (events noted in `memory.events`, lanes masked off)."""
    size = elem.itemsize
    where = operands.where(storage, p, flat, size)
    events = memory.events(p.size)
    if elem.fmt is not None and size <= 2:
        mem = storage.view(tables.STORAGE[elem.fmt.name])
        return gathered(where, flat[2], mem, tables.lut(elem.fmt), v, events)
    # Bits move: one loop for each size. A truth value is no byte there.
    bits = v.dtype if v.dtype == np.bool_ else np.dtype(f"u{v.itemsize}")
    return gathered(where, flat[2].view(bits), storage.view(bits), None, v.view(bits), events)


def _check(memory: Memory, access: Access, mask: np.ndarray) -> np.ndarray:
    """Events of memory that is not wholly written, or that this launch writes; records the readers."""
    storage, p, size = access.storage, access.plan, access.size
    if storage.tracked and storage.reads is None:
        storage.grain = storage.grain or size
        storage.reads = np.zeros(-(-storage.nbytes // storage.grain), np.int64)
    events = np.empty(2 * p.size, np.int64)
    noted = check_reads(
        operands.where(storage, p, [access.ptr, mask], size), memory.enter(access.pids, p.shape[0]),
        operands.cells(storage, size), storage.tags is not None, memory.since(), events,
    )  # fmt: skip
    if noted < 0:
        raise Hazard(f"a program reads what another program of its chunk wrote to {access.name}")
    return events[:noted]


def _foreign(
    memory: Memory, storage: Storage, p: Plan, flat: list[np.ndarray], elem: ElemType, site: Site
) -> tuple[frozenset[int], np.ndarray]:
    """Taint and lanes whose bytes belong to a bounded element of another format (a bitcast pointer)."""
    name = elem.fmt.name if elem.fmt is not None else elem.name
    lanes = [_NO_LANES]
    for other, shadow in storage.shadows.items():
        if other == name:
            continue
        size = elem.itemsize
        events = memory.events(p.size)
        where = operands.where(storage, p, flat, size)
        found = overlapping(where, storage.view(shadow.stamp.dtype), operands.bounded(storage, shadow, size), events)
        lanes.append(events[:found].copy())
    met = np.concatenate(lanes)
    if not len(met):
        return NO_TAINT, met
    message = f"bits of a bounded number in {storage.name or 'memory'} are read as {elem.name}"
    return frozenset((memory.taint("RND302", "load", site, message),)), met


def _bounds(
    memory: Memory, storage: Storage, p: Plan, flat: list[np.ndarray], elem: ElemType, v: np.ndarray,
    void: np.ndarray, site: Site,
) -> tuple[np.ndarray | None, np.ndarray | None, frozenset[int]]:  # fmt: skip
    """Bounds of the loaded lanes (None: all are exact points); top for lanes in `void` and for reinterpreted bits."""
    assert elem.fmt is not None
    if storage.acc is not None and p.size:
        sums.settle_for(memory, storage, flat[0])
    taint, foreign = _foreign(memory, storage, p, flat, elem, site) if storage.shadows else (NO_TAINT, _NO_LANES)
    shadow = storage.shadows.get(elem.fmt.name)
    bounded = len(flat) > 3
    if shadow is None and not bounded and not len(void) and not len(foreign):
        return None, None, taint
    lo, hi = np.empty(p.size), np.empty(p.size)
    if shadow is None and not bounded:
        lo[:] = hi[:] = v
    else:
        size = elem.itemsize
        rows = (3, 4) if bounded else (2, 2)
        where = operands.where(storage, p, flat, size)
        if shadow is None:
            where = where._replace(limit=0)  # every lane keeps its value
        known = operands.bounded(storage, shadow, size)
        mem = storage.view(known.stamp.dtype)
        wide = gathered_bounds(where, rows, (flat[rows[0]], flat[rows[1]]), mem, known, (v, lo, hi))
        if not (wide or len(void) or len(foreign)):
            return None, None, taint
    lo[void] = hi[void] = np.nan
    lo[foreign] = hi[foreign] = np.nan
    return lo.reshape(p.shape), hi.reshape(p.shape), taint
