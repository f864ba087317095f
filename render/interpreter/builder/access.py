"""Loads, stores and atomics: every address goes through the memory registry before it is touched."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir

from render.interpreter import open_integers as opened
from render.interpreter.builder import lost
from render.interpreter.builder.base import Base
from render.interpreter.builder.integers import bool_handle, decided, truths
from render.interpreter.control import Diverge
from render.interpreter.handle import NO_TAINT, AccessPlace, Handle, taint_of
from render.interpreter.lockstep import mask_of, taking_part
from render.interpreter.memory.integers import LEFT_OPEN, type_of
from render.interpreter.memory.reading import load_quietly
from render.interpreter.memory.records import Hazard, Request
from render.interpreter.types import ElemType, carrier, elem_of
from render.interpreter.waiting import Loop, changed

UNSEEN = "another thread of the program stored what is loaded, and no barrier (tl.debug_barrier) lies between"
LATE = "another thread of the program loaded what is overwritten, and no barrier (tl.debug_barrier) lies between"
EITHER = "another thread of the program stored another value there, and no barrier (tl.debug_barrier) lies between"

BEFORE = "what it gives back is a sum of the programs before, which may be any"


def _atomic_kinds() -> dict[Any, str]:
    names = {
        "ADD": "add", "FADD": "add", "MAX": "max", "MIN": "min", "UMAX": "umax", "UMIN": "umin",
        "AND": "and", "OR": "or", "XOR": "xor", "XCHG": "xchg",
    }  # fmt: skip
    return {getattr(ir.ATOMIC_OP, k): v for k, v in names.items() if hasattr(ir.ATOMIC_OP, k)}


def _mask(mask: Handle) -> tuple[np.ndarray, np.ndarray | None]:
    """(mask of the value lane, the same with undecided lanes turned over; None if every lane is decided)."""
    sure = mask.full(mask.v)
    if mask.lo is None:
        return sure, None
    return sure, mask.full(np.where(mask.lo != mask.hi, ~mask.v, mask.v))


def _with_lanes_off(sure: np.ndarray | None, linear: np.ndarray) -> list[int]:
    """The programs of a chunk in which a lane is masked off."""
    if sure is None or sure.shape[0] == 1:
        return [int(i) for i in linear]
    rows = ~sure.reshape(sure.shape[0], -1).all(axis=1)
    return [int(i) for i in linear[rows]]


def _anything(
    value: Handle, elem: ElemType, lo: np.ndarray | None, hi: np.ndarray | None, lanes: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """The ends of what is stored, with every number of its type in these lanes; None for a type without such ends."""
    if elem.fmt is not None:
        least = most = np.nan
    elif type_of(elem.name) is not None and np.dtype(value.v.dtype).kind in "iu" and elem.itemsize < 8:
        bits = 8 * elem.itemsize
        signed = value.v.dtype.kind == "i"
        least, most = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
    else:
        return None
    low, high = (value.full(value.v if end is None else end).astype(np.float64) for end in (lo, hi))
    lanes = np.broadcast_to(lanes, np.broadcast_shapes(lanes.shape, low.shape))
    return np.where(lanes, least, low), np.where(lanes, most, high)


def _possible(sure: np.ndarray | None, turned: np.ndarray | None) -> np.ndarray | None:
    """Lanes that may take part, of what `_mask` gives."""
    return sure if sure is None or turned is None else sure | turned


def _hard(mask: np.ndarray | None, ptr: Handle) -> frozenset[int]:
    """The taints of an address that its candidates do not account for."""
    taint = lost.active(mask, ptr)
    return taint if ptr.open is None else taint - ptr.open.soft


class AccessOperations(Base):
    atomic_kinds = _atomic_kinds()

    def _places(self, ptr: Handle) -> tuple[np.ndarray, ...]:
        """All that an open address may be, told in a note; of one with more candidates than are told apart nothing,
        its taint says so."""
        if ptr.open is None or ptr.open.among is None:
            return ()
        among = tuple(ptr.full(a) for a in np.broadcast_arrays(*ptr.open.among))
        self._tell(ptr, among)
        return among

    def _tell(self, ptr: Handle, among: tuple[np.ndarray, ...]) -> None:
        every = np.stack(np.broadcast_arrays(*among))
        lanes = (every != every[0]).any(axis=0)
        if not lanes.any() or self.ctx.site() in self.ctx.open_sites:
            return
        self.ctx.open_sites.add(self.ctx.site())
        at = np.unravel_index(int(np.argmax(lanes)), lanes.shape)
        ctx, width = self.ctx, elem_of(ptr.dtype.scalar.element_ty).itemsize
        storage = ptr.origin or ctx.memory.find(int(every[0][at]))
        base = 0 if storage is None else storage.base + storage.start
        found = sorted({(int(a[at]) - base) // width for a in every})
        site, name = ctx.site(), "memory" if storage is None or storage.name is None else storage.name
        where = f"lane {tuple(int(i) for i in at[1:])} of program {tuple(int(i) for i in ctx.pids[at[0]])}"
        places = " or ".join(f"{name}[{k}]" for k in found)
        ctx.note(f"{os.path.basename(site.file)}:{site.line}: the bounds leave open the place of {int(lanes.sum())} "
                 f"element{'s' if lanes.sum() > 1 else ''}; {where} is at {places}, and each is judged")  # fmt: skip

    def get_cache_policy(self, *args: Any, **kwargs: Any) -> None:
        return None

    def create_load(self, ptr: Handle, *policy: Any) -> Handle:
        return self._load(ptr, None, None)

    def create_masked_load(self, ptr: Handle, mask: Handle, other: Handle | None, *policy: Any) -> Handle:
        return self._load(ptr, mask, other)

    def _load(self, ptr: Handle, mask: Handle | None, other: Handle | None) -> Handle:
        ctx, mask = self.ctx, taking_part(self, mask, ptr.shape)
        pointee = ptr.dtype.scalar.element_ty
        elem = elem_of(pointee)
        sure = possible = None
        if mask is not None:
            sure, possible = _mask(mask)
        if other is None and mask is not None and ctx.undefined is not None and elem.fmt is not None:
            other = Handle(np.full((1,) * ptr.v.ndim, ctx.undefined, carrier(pointee)), pointee, ptr.shape)
        other_v = None if other is None else other.full(other.v)
        other_iv = None if other is None or other.is_point else tuple(other.full(a) for a in other.pair)
        request = Request(ptr.full(ptr.v), elem, ptr.origin, ctx.linear, ctx.site(), sure, possible, self._places(ptr))
        unseen = NO_TAINT
        if ctx.num_warps > 1:
            seen = _possible(sure, possible)
            if ctx.unordered.meets(ctx.linear, ptr, seen):
                unseen = ctx.taint("RND305", "load", UNSEEN)
            ctx.unordered.loaded(ctx.linear, ptr, seen)
        got = ctx.memory.load(request, other_v, other_iv)
        ctx.activity.read(ptr.v, got.v)
        taint = (got.taint - got.why) | _hard(_possible(sure, possible), ptr) | taint_of(mask, other) | unseen
        v = got.v
        if pointee.is_int1():
            v = v.astype(np.bool_)
        elif v.dtype != carrier(pointee):
            v = v.astype(carrier(pointee))
        if got.masked_off and elem.fmt is not None:
            ctx.undefined_sites.setdefault(ctx.site(), set()).update(_with_lanes_off(sure, ctx.linear))
        if elem.fmt is None and got.lo is not None and got.hi is not None:
            between = got.lo.astype(v.dtype), got.hi.astype(v.dtype)
            why = ctx.taint("RND302", "load", LEFT_OPEN)
            if pointee.is_int1():
                out = bool_handle(v, between[0], between[1], ptr.shape, taint | got.why)
            else:
                among = [a.astype(v.dtype, copy=False) for a in got.among] or None
                out = opened.integer(v, pointee, ptr.shape, between, taint | got.why, why, among)
        else:
            lo, hi = (got.lo, got.hi) if ctx.interval else (None, None)
            out = Handle(v, pointee, ptr.shape, lo, hi, taint)
            if got.void is not None:
                lost.mark(out, got.void, got.why)
            if ctx.locks and elem.fmt is not None:
                out.place = AccessPlace(ptr, mask)
        self.emit("load", (ptr, mask, other), (out,))
        return out

    def create_store(self, ptr: Handle, value: Handle, *policy: Any) -> None:
        self._store(ptr, value, None)

    def create_masked_store(self, ptr: Handle, value: Handle, mask: Handle, *policy: Any) -> None:
        self._store(ptr, value, mask)

    def _store(self, ptr: Handle, value: Handle, mask: Handle | None) -> None:
        ctx, given, mask = self.ctx, value, taking_part(self, mask, ptr.shape)
        value = self._taken(decided(self, value))
        if value.grown is not None and value.grown[0].same(AccessPlace(ptr, mask)):
            # `x = load(p); store(p, x + y)` under a lock: programs may come in any order, as with an atomic add.
            self._atomic("add", ptr, value.grown[1], None, mask)
            return
        elem = elem_of(ptr.dtype.scalar.element_ty)
        sure = possible = None
        if mask is not None:
            sure, possible = _mask(mask)
        lo = hi = None
        if ctx.interval and not value.is_point and elem.fmt is not None:
            lo, hi = (value.full(a) for a in value.pair)
        seen = _possible(sure, possible)
        around = _hard(seen, ptr) | taint_of(mask) | ctx.control_taint
        taint = around | lost.active(seen, value)
        among = None
        if ctx.interval and value.open is not None and type_of(elem.name) is not None:
            ends = [value.full(a).astype(np.float64) for a in opened.ends(value)]
            if opened.holds(np.int64, *ends):
                lo, hi = ends
                taint = around | (lost.active(seen, value) - value.open.soft)
                among = opened.choices(value)
                among = None if among is None else tuple(value.full(a) for a in among)
        if (gone := lost.kept(ctx, seen, value)) is not None and (
            any_ := _anything(value, elem, lo, hi, gone.lanes)
        ) is not None:
            (lo, hi), among = any_, None
            taint = (taint - lost.only(value)) | gone.why | around
        where = ptr.full(ptr.v), elem, ptr.origin, ctx.linear, ctx.site(), sure, possible, self._places(ptr)
        request = Request(*where)
        if ctx.num_warps > 1:
            taint |= self._out_of_order(ptr, seen, request, (value.full(value.v), lo, hi))
        ctx.activity.changes += 1
        ctx.memory.store(request, value.full(value.v), lo, hi, taint, among)
        if ctx.part is not None:
            ctx.memory.note_stored(request)
        ctx.writers.note(ptr, ctx.linear)
        if ctx.num_warps > 1:
            ctx.unordered.stored(ctx.linear, ptr, seen)
        self.emit("store", (ptr, given, mask), ())

    def _out_of_order(
        self, ptr: Handle, mask: np.ndarray | None, request: Request, value: tuple[np.ndarray | None, ...]
    ) -> frozenset[int]:
        """The taints of a store that other threads of the program may see earlier or later than they should."""
        ctx = self.ctx
        if ctx.unordered.overwrites(ctx.linear, ptr, mask):
            ctx.unordered.late |= ctx.taint("RND305", "store", LATE)
        lanes = ctx.unordered.replaces(ctx.linear, ptr, mask)
        if lanes is None:
            return ctx.unordered.late
        old = load_quietly(ctx.memory, request.ptr, lanes, request.elem, request.origin, request.site)
        new = [value[0] if a is None else a for a in value]
        among = [old.v, old.v if old.lo is None else old.lo, old.v if old.hi is None else old.hi]
        same = [(a == b) | ((a != a) & (b != b)) for a, b in zip(among, new, strict=True)]
        differ = lanes & ~np.logical_and.reduce(same)
        return ctx.unordered.late | (ctx.taint("RND305", "store", EITHER) if differ.any() else NO_TAINT)

    def _taken(self, value: Handle) -> Handle:
        """An open integer as one of what it may be, where decisions go one way."""
        choices = self.ctx.memory.choices
        if choices is None or value.open is None:
            return value
        v = choices.of_lanes(self.ctx.site(), value.v, opened.ends(value))
        return Handle(v, value.dtype, value.shape, taint=opened.hard(value))

    # atomics
    def create_atomic_rmw(self, op: Any, ptr: Handle, value: Handle, mask: Handle, *order: Any) -> Handle:
        return self._atomic(self.atomic_kinds[op], ptr, value, None, mask)

    def create_atomic_cas(self, ptr: Handle, cmp: Handle, value: Handle, *order: Any) -> Handle:
        return self._atomic("cas", ptr, value, cmp, None)

    def create_atomic_load(self, ptr: Handle, mask: Handle, *order: Any) -> Handle:
        return self._atomic("load", ptr, None, None, mask)

    def create_atomic_poll(self, ptr: Handle, expected: Handle, timeout: Any, *order: Any) -> Handle:
        """Waits, element by element, until each has been what is expected; other programs run meanwhile."""
        if isinstance(timeout, Handle):
            self.unsupported("create_atomic_poll", "a clock decides how long it waits")
        if self.ctx.programs > 1:
            raise Hazard("several programs poll at once")
        loop, taint = Loop(self.ctx), NO_TAINT
        met = np.zeros((1,) * ptr.v.ndim, np.bool_)
        while True:
            found = self._atomic("load", ptr, None, None, None)
            met, taint = met | (found.v == expected.v), taint | found.taint
            if not loop(not met.all()):
                out = Handle(met, tl.int1, ptr.shape, taint=taint | taint_of(expected))
                self.emit("atomic_poll", (ptr, expected), (out,))
                return out

    def create_atomic_store(self, ptr: Handle, value: Handle, mask: Handle, *order: Any) -> None:
        self._atomic("store", ptr, value, None, mask)

    def _atomic(self, kind: str, ptr: Handle, value: Handle | None, cmp: Handle | None, mask: Handle | None) -> Handle:
        ctx = self.ctx
        ctx.unordered.exchanged()
        ctx.in_parts()
        if ctx.active is not None:
            raise Diverge(ctx.active)
        ctx.ordered, ctx.locks = True, ctx.locks or kind in ("cas", "xchg")
        pointee = ptr.dtype.scalar.element_ty
        elem = elem_of(pointee)
        if elem.fmt is not None and kind in ("and", "or", "xor"):
            self.unsupported(f"create_atomic_{kind}", "of floats, which have no bits here")
        batch = ctx.programs
        # An atomic happens once per program even where all programs name the same address and value.
        shape = (batch, *ptr.shape)

        def whole(a: np.ndarray | None) -> np.ndarray | None:
            return None if a is None else np.broadcast_to(a, shape)

        taint = taint_of(ptr, value, cmp, mask) | ctx.control_taint
        spreads = kind == "add" and value is not None and ptr.open is not None and ctx.interval
        among = self._places(ptr) if spreads else ()
        if among:
            taint = (taint - ptr.open.soft) | opened.hard(ptr) | taint_of(value, mask)  # type: ignore[union-attr]
        active = None
        if elem.fmt is not None and kind != "load":
            taint = taint | self._order_open(kind, whole(ptr.v), mask)
        if mask is not None:
            if mask.lo is not None:
                taint = taint | ctx.taint("RND303", f"atomic_{kind}", "the bounds leave open whether a lane takes part")
            active = whole(mask.v)
        lo = hi = None
        if value is not None and ctx.interval and elem.fmt is not None:
            lo, hi = (whole(a) for a in value.pair)
            if kind == "add":
                ctx.model("accumulation")
        among = tuple(np.broadcast_to(a, shape) for a in among)
        request = Request(np.broadcast_to(ptr.v, shape), elem, ptr.origin, ctx.linear, ctx.site(), active, None, among)
        new, expected = (None if h is None else whole(h.v) for h in (value, cmp))
        got = ctx.memory.atomic(kind, request, new, lo, hi, expected, taint)
        ctx.activity.read(ptr.v, got.v)
        if value is not None:
            ctx.writers.note(ptr, ctx.linear)
            ctx.activity.changes += changed(kind, got.v, value.v, None if cmp is None else cmp.v, active)
        v = got.v.astype(carrier(pointee), copy=False)
        if elem.fmt is None and got.lo is not None:
            taint = taint | ctx.taint("RND302", f"atomic_{kind}", LEFT_OPEN)
            return Handle(v, pointee, ptr.shape, taint=got.taint | taint)
        if elem.fmt is not None and ctx.interval and kind == "add":
            taint = taint | ctx.taint("RND302", "atomic_add", BEFORE)
        return Handle(v, pointee, ptr.shape, got.lo, got.hi, got.taint | taint)

    def _order_open(self, kind: str, at: np.ndarray | None, mask: Handle | None) -> frozenset[int]:
        """A taint where two programs update a float and one of them exchanges it: which comes last is open."""
        assert at is not None
        ctx = self.ctx
        if kind not in ("xchg", "cas", "store") and not ctx.exchanged:
            return NO_TAINT
        active = np.broadcast_to(True if mask is None else mask.full(mask.v), at.shape)
        program = np.broadcast_to(ctx.linear.reshape(-1, *(1,) * (at.ndim - 1)), at.shape)
        found = dict(zip(at[active].tolist(), program[active].tolist(), strict=True))
        contested = any(ctx.exchanged.get(a, p) != p for a, p in found.items())
        if kind in ("xchg", "cas", "store"):
            ctx.exchanged.update(found)
        if not contested:
            return NO_TAINT
        return ctx.taint("RND302", f"atomic_{kind}", "programs exchange one element in any order")

    # things without a value
    def create_barrier(self, *args: Any) -> None:
        self.ctx.unordered.barrier()

    def create_grid_dependency_wait(self) -> None:
        return None

    def create_grid_dependency_launch_dependents(self) -> None:
        return None

    def create_assume(self, cond: Handle) -> None:
        return None

    def create_assert(self, cond: Handle, message: str) -> None:
        held = truths(cond)[1] if cond.lo is not None else cond.v
        part = mask_of(self, cond.shape)
        if not (held if part is None else held | ~part.v).all():
            self.ctx.in_parts()
            site = self.ctx.site()
            self.ctx.note(f"device assertion failed at {site.file}:{site.line}: {message}")

    def create_print(self, prefix: str, hex_: bool, args: list[Handle], is_signed: list[bool]) -> None:
        self.ctx.in_parts()
        ids = self.ctx.pids
        for h in args or []:
            for i, pid in enumerate(ids):
                if self.ctx.active is not None and not self.ctx.active[i]:
                    continue
                row = h.v[min(i, h.v.shape[0] - 1)]
                self.ctx.memory.say(f"pid ({pid[0]}, {pid[1]}, {pid[2]}){prefix}{row}")
        if not args:
            self.ctx.memory.say(prefix)

    def create_histogram(self, x: Handle, bins: int, mask: Handle | None) -> Handle:
        batch = x.v.shape[0] if mask is None else max(x.v.shape[0], mask.v.shape[0])
        values = np.broadcast_to(x.v, (batch, *x.shape))
        active = np.ones(values.shape, bool) if mask is None else np.broadcast_to(mask.v, values.shape)
        taint = taint_of(x, mask)
        if mask is not None and mask.lo is not None:
            taint = taint | self.ctx.taint("RND303", "histogram", "the bounds leave open which lanes are counted")
        inside = active & (values >= 0) & (values < bins)
        if (active & ~inside).any():
            taint = taint | self.ctx.taint("RND302", "histogram", f"a value lies outside the {bins} bins")
        out = np.zeros((batch, bins), np.int32)
        rows = np.broadcast_to(np.arange(batch)[:, None], values.shape)
        np.add.at(out, (rows[inside], values[inside]), 1)
        return Handle(out, tl.int32, (bins,), taint=taint or NO_TAINT)
