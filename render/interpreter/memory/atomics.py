"""Atomic operations: which kernel runs, what is logged, and what the program gets back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from interval_ops.formats import tables
from interval_ops.formats.model import Format
from render.interpreter.memory import integers, operands, places
from render.interpreter.memory.atomic_kernels import ADD, AND, CAS, MAX, MIN, OR, XCHG, XOR, atomic_float, atomic_int
from render.interpreter.memory.events import Access, digest, inside_lanes
from render.interpreter.memory.lanes import plan
from render.interpreter.memory.operands import Noted, Sums, Update
from render.interpreter.memory.reading import load, value_dtype
from render.interpreter.memory.records import NO_TAINT, Hazard, LoadResult, Request, Retry
from render.interpreter.memory.registry import Accumulator
from render.interpreter.memory.scatter import SAVE_BITS, SAVE_SHADOW, SAVE_WRITTEN
from render.interpreter.memory.scattered import parts
from render.interpreter.memory.taint_map import gather_taints, paint
from render.interpreter.memory.undo import Segment
from render.interpreter.memory.writing import bits_of, store

if TYPE_CHECKING:
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage
    from render.interpreter.memory.shadow import Shadow

_CODES = {"add": ADD, "max": MAX, "min": MIN, "umax": MAX, "umin": MIN, "and": AND, "or": OR, "xor": XOR, "xchg": XCHG,
          "cas": CAS}  # fmt: skip
FREE = frozenset(kind for kind, code in _CODES.items() if code in (ADD, MAX, MIN) and not kind.startswith("u"))
"""Kinds of float atomics whose outcome no order of programs changes but by rounding."""
COMMUTING = frozenset(kind for kind, code in _CODES.items() if code not in (XCHG, CAS))
"""Kinds of integer atomics whose outcome no order of programs changes."""
_NO_BOUNDS = np.zeros(1)
_NO_FLAGS = np.zeros(1, np.bool_)
Ends = tuple[np.ndarray, np.ndarray]


def atomic(
    memory: Memory, kind: str, request: Request, val: np.ndarray | None, lo: np.ndarray | None, hi: np.ndarray | None,
    cmp: np.ndarray | None, taint: frozenset[int],
) -> LoadResult:  # fmt: skip
    """See `Memory.atomic`."""
    if request.among:
        return _at_places(memory, kind, request, val, lo, hi, taint)
    ptr, mask, elem, pids, site = request.ptr, request.mask, request.elem, request.pids, request.site
    operands = [a.shape for a in (ptr, val, cmp, mask) if a is not None]
    shape = np.broadcast_shapes(*operands, (len(pids),) + (1,) * (ptr.ndim - 1))
    active = np.broadcast_to(np.True_ if mask is None else mask, shape)
    memory.note_programs(pids)
    running = pids[active.reshape(shape[0], -1).any(axis=1)] if mask is not None else pids
    if kind in ("load", "store"):
        memory.synchronise(running)
        if kind == "load":
            return load(memory, request, None, None)
        assert val is not None
        store(memory, request, val, lo, hi, taint)
        return LoadResult(np.zeros((1,) * len(shape), value_dtype(elem)))
    if kind not in _CODES:
        raise ValueError(f"unknown atomic operation {kind!r}; known: {', '.join(_CODES)}, load, store")
    assert val is not None
    exact = lo is None or lo.dtype != np.float64
    found = [(request.origin, active)] if request.origin is not None else parts(memory, ptr, active)
    out: LoadResult | None = None
    for storage, mine in found:
        met = NO_TAINT
        open_ = elem.fmt is None and (not exact or bool(storage.shadows and integers.any_open(storage)))
        if memory.interval and open_:
            met = frozenset((memory.taint("RND302", f"atomic_{kind}", site, integers.LEFT_OPEN),))
        adds = kind == "add" and bool(met)
        before = integers.offsets_of(memory, storage, ptr, mine, elem) if adds else None
        run = _float if elem.fmt is not None and kind in FREE else _bits
        bounds = (val, val) if lo is None or hi is None or exact else (lo, hi)
        access, flat, v, ordered, more = run(
            memory, kind, request.into(storage, mine), storage, val, bounds, cmp, shape
        )
        more |= gather_taints(memory, storage, access.plan, flat, elem.itemsize)
        if before is not None:
            more |= integers.added(memory, before, (ptr, mine, val, *bounds), site)
        else:
            more |= met
        if memory.interval and (taint or more or storage.taint_map is not None):
            paint(memory, storage, access.plan, flat, elem.itemsize, taint | more)
        more |= met
        got = LoadResult(v.reshape(shape), taint=more, ordered=ordered)
        out = (
            got
            if out is None
            else LoadResult(np.where(mine, got.v, out.v), taint=out.taint | more, ordered=out.ordered or ordered)
        )
    assert out is not None
    memory.synchronise(running)
    if elem.fmt is None or not memory.interval:
        return out
    low, high = (np.full((1,) * len(shape), end) for end in (-np.inf, np.inf))
    return LoadResult(out.v, low, high, out.taint, ordered=out.ordered)


def _at_places(
    memory: Memory, kind: str, request: Request, val: np.ndarray | None, lo: np.ndarray | None, hi: np.ndarray | None,
    taint: frozenset[int],
) -> LoadResult:  # fmt: skip
    """An addition whose lanes have several candidates: each of them gets all of it or nothing."""
    assert val is not None and kind == "add"
    low, high = (end.astype(np.float64) for end in ((val, val) if lo is None or hi is None else (lo, hi)))
    active, moving = request.active, places.open_lanes(request)
    either = np.where(moving, np.minimum(low, 0.0), low), np.where(moving, np.maximum(high, 0.0), high)
    outside = moving & (memory.registry.locate(request.ptr)[0] < 0)
    if (active & outside).any():
        taint |= {memory.taint("RND303", "atomic_add", request.site, places.OPEN)}
    at = replace(request, mask=active & ~outside, among=())
    got = atomic(memory, kind, at, val, *either, None, taint)
    for ptr in request.among:
        memory.placed.update(ptr[np.broadcast_to(active & moving, ptr.shape)].tolist())
    nothing = np.zeros_like(val)
    for ptr, mine in places.each(request, active, moving):
        rank, _ = memory.registry.locate(ptr)
        if (mine & (rank < 0)).any():
            taint |= {memory.taint("RND303", "atomic_add", request.site, places.OPEN)}
        part = replace(request, ptr=ptr, mask=mine & (rank >= 0), among=())
        atomic(memory, kind, part, nothing, np.minimum(low, 0.0), np.maximum(high, 0.0), None, taint)
    return replace(got, taint=got.taint | taint)


def _open(
    memory: Memory, request: Request, storage: Storage, values: list[Any], shape: tuple[int, ...]
) -> tuple[Access, list[np.ndarray], bool]:  # fmt: skip
    """The loops over every lane, tags in place; True if undo is covered by a snapshot."""
    size = request.elem.itemsize
    p, flat = plan([request.ptr, cast(np.ndarray, request.mask), *values], shape)
    memory.use(storage)
    memory.before_read(storage)
    if memory.track(storage):
        raise Retry(f"{storage.name or 'a tensor'} is both read and updated")
    copied = memory.prepare_tags(storage, size)
    if storage.grain != size:
        storage.tags, storage.reads, storage.grain = _coarser(storage, size), None, size
    return Access(storage, p, flat[0], size, request.pids, request.site, "atomic", 1, None), flat, copied


def _coarser(storage: Storage, size: int) -> np.ndarray:
    """Tags per `size` bytes: the latest of the finer ones (the storage was logged whole before)."""
    assert storage.tags is not None
    fine = size // storage.grain
    n = -(-len(storage.tags) // fine)
    padded = np.zeros(n * fine, np.int64)
    padded[: len(storage.tags)] = storage.tags
    found: np.ndarray = padded.reshape(n, fine).max(axis=1)
    return found


def _saved(memory: Memory, storage: Storage, shadow: Shadow | None, copied: bool) -> int:
    """Which parts undo has to save."""
    save = 0 if copied else SAVE_BITS
    if not copied and storage.written is not None:
        save |= SAVE_WRITTEN
    if not copied and shadow is not None and memory.needs_saving(shadow):
        save |= SAVE_SHADOW
    return save


def _finish(
    memory: Memory, access: Access, began: int, noted: int, first: int, last: int, save: int, shadow: Shadow | None,
    acc: tuple[np.ndarray, ...] | None,
) -> frozenset[int]:  # fmt: skip
    """Log and report what the kernel did; Hazard if it met one. Gives the taints."""
    storage, size = access.storage, access.size
    kept = shadow if save & SAVE_SHADOW else None
    arena = memory.log.arena
    memory.log.segment(Segment(storage, size, arena.columns, began, arena.used, kept, bool(save & SAVE_WRITTEN), acc))
    storage.stored, storage.stored_in = True, memory.tag_bounds[0]
    storage.read_in = max(storage.read_in, storage.stored_in)  # an atomic takes what others left there
    if last >= 0:
        storage.touched_by_kernel(first * size, (last + 1) * size)
    if noted < 0:
        raise Hazard(f"an atomic meets a plain access of {access.name} by another program of its chunk")
    codes = memory.events(access.plan.size)[:noted].copy()
    return digest(memory, access, codes)[0] if noted else NO_TAINT


def _accumulator(memory: Memory, storage: Storage, fmt: Format) -> tuple[Accumulator, bool]:
    """The storage's open sums, and whether they were there at the last mark (else undo drops them whole)."""
    acc = storage.acc
    if acc is None or acc.fmt != fmt:
        previous = acc
        acc = storage.acc = Accumulator.make(fmt, storage.nbytes * 8 // fmt.bits)
        acc.born = memory.tag_bounds[2]
        memory.log.push(lambda: setattr(storage, "acc", previous))
    return acc, acc.born < memory.tag_bounds[2]


def _float(
    memory: Memory, kind: str, request: Request, storage: Storage, val: np.ndarray, bounds: Ends, cmp: Any,
    shape: tuple[int, ...],
) -> tuple[Access, list[np.ndarray], np.ndarray, bool, frozenset[int]]:  # fmt: skip
    elem = request.elem
    fmt = elem.fmt
    assert fmt is not None
    if fmt.bits < 16:
        raise ValueError(f"no target has atomics on {fmt.name}")
    size = elem.itemsize
    access, flat, copied = _open(memory, request, storage, [val, *bounds], shape)
    p = access.plan
    shadow = memory.shadow_of(storage, fmt) if memory.interval else None
    save = _saved(memory, storage, shadow, copied)
    sums: tuple[np.ndarray, ...] = (_NO_BOUNDS,) * 6 + (_NO_FLAGS,)
    old_sums = np.empty((0, 6))
    if memory.interval:
        acc, existed = _accumulator(memory, storage, fmt)
        sums = (*acc.arrays, acc.stale)
        if existed and not copied:
            old_sums = np.empty((p.size, 6))
    arena = memory.log.arena
    undo = operands.undo(arena, save, p.size)
    v = np.empty(p.size, value_dtype(elem))
    numbers, table = (storage.view(v.dtype), None) if size > 2 else (None, tables.lut(fmt))
    nan = int(tables.encode(np.array([np.nan], np.float32), fmt)[0]) if size == 2 else 0
    noted, arena.used, first, last = atomic_float(
        operands.where(storage, p, flat, size), tuple(flat[2:]), memory.enter(request.pids, p.shape[0]),
        Update(_CODES[kind], fmt.gate, fmt.p, fmt.emin, fmt.bias, nan), operands.cells(storage, size, numbers, table),
        operands.bounded(storage, shadow, size), Sums._make((*sums, old_sums)), memory.since(), undo,
        Noted(v, memory.events(p.size)),
    )  # fmt: skip
    kept = tuple(old_sums[: arena.used - undo.used, q].copy() for q in range(6)) if len(old_sums) else None
    taint = _finish(memory, access, undo.used, noted, first, last, save, shadow, kept)
    return access, flat, v, True, taint


def _bits(
    memory: Memory, kind: str, request: Request, storage: Storage, val: np.ndarray, bounds: Ends, cmp: Any,
    shape: tuple[int, ...],
) -> tuple[Access, list[np.ndarray], np.ndarray, bool, frozenset[int]]:  # fmt: skip
    """Integers, and exchanges of any type (on bits; an exchanged float takes its bounds along)."""
    elem = request.elem
    size = elem.itemsize
    unsigned = np.dtype(f"u{size}")
    signed = elem.fmt is None and elem.storage.kind == "i" and kind not in ("umax", "umin")
    dtype = np.dtype(f"i{size}") if signed else unsigned
    new = bits_of(val, elem).view(dtype)
    expected = new if cmp is None else bits_of(cmp, elem).view(dtype)
    access, flat, copied = _open(memory, request, storage, [new, expected], shape)
    p = access.plan
    shadow = None
    if elem.fmt is not None and memory.interval:
        shadow = memory.shadow_of(storage, elem.fmt)
    save = _saved(memory, storage, shadow, copied)
    arena = memory.log.arena
    undo = operands.undo(arena, save, p.size)
    out = np.empty(p.size, dtype)
    noted, arena.used, first, last, ordered = atomic_int(
        operands.where(storage, p, flat, size), tuple(flat[2:]), memory.enter(request.pids, p.shape[0]), _CODES[kind],
        operands.cells(storage, size, storage.view(dtype)), operands.bounded(storage, shadow, size), memory.since(),
        undo, Noted(out, memory.events(p.size)),
    )  # fmt: skip
    taint = _finish(memory, access, undo.used, noted, first, last, save, shadow, None)
    if shadow is not None:
        _exchange_bounds(shadow, access, flat, bounds, out.view(unsigned), None if cmp is None else expected)
    old = out.view(unsigned)
    v = tables.decode(old, elem.fmt) if elem.fmt is not None else old.view(elem.storage)
    return access, flat, v, ordered, taint


def _exchange_bounds(
    shadow: Shadow, access: Access, flat: list[np.ndarray], bounds: Ends, old: np.ndarray, expected: np.ndarray | None,
) -> None:  # fmt: skip
    """Bounds of floats that an exchange (or a swap that succeeded) stored: the last lane to store wins."""
    storage, p, size = access.storage, access.plan, access.size
    lanes, offsets = inside_lanes(storage, p, flat, size)
    mem = storage.view(shadow.stamp.dtype)
    if expected is not None:
        swapped = np.broadcast_to(expected.view(old.dtype), p.shape).reshape(-1)[lanes] == old[lanes]
        lanes, offsets = lanes[swapped], offsets[swapped]
    index = offsets // size
    low, high = (np.broadcast_to(b, p.shape).reshape(-1)[lanes] for b in bounds)
    shadow.lo[index], shadow.hi[index] = low, high
    shadow.stamp[index] = mem[index]
