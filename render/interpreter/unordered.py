"""What a program stored or loaded and has no barrier behind: its other threads may be earlier or later.

Triton puts no barrier between accesses of global memory (docs/lowering.md reads that in what it compiles); a
thread sees its own stores, another thread of the program sees them after `tl.debug_barrier()`. Which thread has which
lane is the compiler's to choose, but lanes of one address at one place of equal blocks are one thread's. So a load is
told that takes from another lane what a store since the last barrier left, a store to what another lane loaded
since (a warp that is late loads the new number), and one of another number where another lane stored since, of which
either may stay. (A load without lanes, which all threads do, is not asked, nor are
loads in Gluon, where a block in place is the rule.) What goes through shared memory has a
barrier inside (reductions, scans, dots, transposes, atomics) and counts as one, in favour of the kernel. In Gluon the
kernel chooses which thread has which lane, of each block anew: nothing counts but its own barriers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.compiled import compiled

if TYPE_CHECKING:
    from render.interpreter.handle import Handle
    from render.interpreter.memory.registry import Storage

MOST, LANES = 256, 1 << 19
"""Accesses to one tensor that are remembered, and lanes of them: they hold on to their addresses."""
STORES, LOADS = 16, 4
"""How many are remembered at least, however large they are."""
_BEYOND = (1 << 63) - 1
TABLE = 1 << 22
"""Bytes between the first and the last address of a row up to which each has a place in a table."""


@dataclass(eq=False)
class _Access:
    """`ptr`, in the lanes of `mask` (None: in all), by programs `linear`; rows are programs, or turns of the one."""

    linear: np.ndarray
    ptr: np.ndarray
    mask: np.ndarray | None
    origin: Storage | None

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last address of each row; a store that no load follows is not asked for them."""
        each = self.ptr.reshape(len(self.ptr), -1)
        return each.min(1), each.max(1)

    @cached_property
    def span(self) -> tuple[int, int]:
        return int(self.rows[0].min()), int(self.rows[1].max())

    @property
    def alone(self) -> bool:
        """Whether all rows are of one program."""
        return len(self.linear) == 1

    @property
    def lanes(self) -> tuple[np.ndarray, np.ndarray]:
        """Addresses and their mask in one shape: programs may share the one and differ in the other."""
        pointers, active = np.broadcast_arrays(self.ptr, np.True_ if self.mask is None else self.mask)
        return pointers, active

    @cached_property
    def block(self) -> tuple[int, ...]:
        """The shape; what has one lane is without."""
        shape = self.ptr.shape[1:]
        return shape if prod(shape) > 1 else ()

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal ones, and for few others."""
        return id(self.linear), self.ptr.shape, self.ptr.item(0), self.ptr.item(self.ptr.size - 1)

    def same(self, other: _Access) -> bool:
        """Whether the other is of the same lanes, with the same addresses."""
        if self.linear is not other.linear or (self.mask is None) != (other.mask is None):
            return False
        pairs = ((self.ptr, other.ptr), (self.mask, other.mask))
        return all(a is b or np.array_equal(a, b) for a, b in pairs if a is not None and b is not None)


class _Past:
    """The last accesses to one tensor, oldest first. What comes again counts once, as the newest: a loop that stores to
    one place leaves one."""

    __slots__ = ("_alike", "_high", "_low", "_spanned", "accesses", "least", "size")

    def __init__(self, least: int) -> None:
        self.accesses: deque[_Access] = deque()
        self._alike: dict[tuple[Any, ...], _Access] = {}
        self.least, self.size, self._spanned = least, 0, 0
        self._low, self._high = _BEYOND, -1

    def add(self, access: _Access) -> None:
        known = self._alike.get(access.key)
        if known is not None and known.same(access):
            access = known
            self._drop(self.accesses.index(known))
        self.accesses.append(access)
        self._alike[access.key] = access
        self.size += access.ptr.size
        while len(self.accesses) > self.least and (len(self.accesses) > MOST or self.size > LANES):
            self._drop(0)

    def _drop(self, place: int) -> None:
        access = self.accesses[place]
        del self.accesses[place]
        if self._alike.get(access.key) is access:
            del self._alike[access.key]
        self.size -= access.ptr.size
        self._spanned -= place < self._spanned

    def near(self, other: _Access) -> Iterator[_Access]:
        """Those of the same programs that lie where `other` does."""
        for k in range(self._spanned, len(self.accesses)):
            low, high = self.accesses[k].span
            self._low, self._high = min(self._low, low), max(self._high, high)
        self._spanned = len(self.accesses)
        low, high = other.span
        if low <= self._high and self._low <= high:
            for access in self.accesses:
                if access.linear is other.linear and access.span[0] <= high and low <= access.span[1]:
                    yield access


class Unordered:
    """The stores and loads of a pass since its last barrier."""

    def __init__(self) -> None:
        self._stores: dict[Storage | None, _Past] = {}
        self._loads: dict[Storage | None, _Past] = {}
        self.by_layout = False
        self.late: frozenset[int] = frozenset()
        """Taints of stores that a late warp may load: they hold for all that the pass stores from there on."""
        self.turns: tuple[np.ndarray, np.ndarray] | None = None
        """Of one program, whose turns of a loop run at once (as so many programs, the one that they are)."""

    def __len__(self) -> int:
        return len(self._stores)

    def anew(self) -> Unordered:
        """That of another pass, which may be the same programs once more."""
        other = Unordered()
        other.by_layout = self.by_layout
        return other

    def mark(self) -> tuple[Any, ...]:
        """A point of the pass to come back to (`undo_to`)."""
        return *({at: list(past.accesses) for at, past in d.items()} for d in (self._stores, self._loads)), self.late

    def undo_to(self, mark: tuple[Any, ...]) -> None:
        """What was stored and loaded since then never was."""
        stores, loads, self.late = mark
        self.barrier()
        for kept, past, least in ((stores, self._stores, STORES), (loads, self._loads, LOADS)):
            for access in (access for each in kept.values() for access in each):
                past.setdefault(access.origin, _Past(least)).add(access)

    def barrier(self) -> None:
        self._stores.clear()
        self._loads.clear()

    def exchanged(self) -> None:
        """Lanes went through shared memory."""
        if not self.by_layout:
            self.barrier()

    def _access(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> _Access:
        if self.turns is not None and linear is self.turns[0]:
            linear = self.turns[1]
        return _Access(linear, ptr.full(ptr.v), mask, ptr.origin)

    def stored(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> None:
        """Programs `linear` store at these addresses, in the lanes of `mask` (None: in all)."""
        if ptr.v.size:
            self._stores.setdefault(ptr.origin, _Past(STORES)).add(self._access(linear, ptr, mask))

    def loaded(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> None:
        if ptr.v.size and len(ptr.shape):
            self._loads.setdefault(ptr.origin, _Past(LOADS)).add(self._access(linear, ptr, mask))

    def overwrites(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> bool:
        """Whether a lane of this store has the address of another lane of a load since the last barrier."""
        if self.by_layout or ptr.origin not in self._loads or ptr.origin is None or not ptr.v.size:
            return False
        store = self._access(linear, ptr, mask)
        return any(strangers(store, load, True) is not None for load in self._loads[ptr.origin].near(store))

    def meets(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> bool:
        """Whether a lane of this load has the address of another lane of such a store.

        Pointers of two tensors never meet: a lane that lies outside its own is a finding of the memory (RND207), and
        whose bytes it would hit is the allocator's choice.
        """
        if not self._stores or not ptr.v.size:
            return False
        load = self._access(linear, ptr, mask)
        own = not self.by_layout and load.block != ()
        return any(strangers(store, load, own) is not None for store in self._before(load))

    def _before(self, access: _Access) -> Iterator[_Access]:
        """The stores that may have left what lies there."""
        if access.origin is None:
            pasts = list(self._stores.values())
        else:
            pasts = [self._stores[at] for at in (access.origin, None) if at in self._stores]
        for past in pasts:
            yield from past.near(access)

    def replaces(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> np.ndarray | None:
        """The lanes of this store that have the address of another lane of such a store."""
        if self.by_layout or not self._stores or not ptr.v.size:
            return None
        new, out = self._access(linear, ptr, mask), None
        for old in self._before(new):
            found = strangers(old, new, True)
            if (others := strangers(new, old, True)) is not None:
                (before, _), (at, here) = old.lanes, new.lanes
                found = here & np.isin(at, np.broadcast_to(before, others.shape)[others])
            if found is not None:
                out = found if out is None else out | found
        return out


def strangers(store: _Access, access: _Access, own: bool) -> np.ndarray | None:
    """The lanes of an access that have the address of another lane of the store, if any; `own`: lanes of one address at
    one place of equal blocks are one thread's."""
    own = own and store.block == access.block
    if own and (access.ptr is store.ptr or np.array_equal(access.ptr, store.ptr)):
        return None
    if apart(store, access):
        return None
    (stored, there), (at, here) = store.lanes, access.lanes
    hit = here & np.isin(at, stored[there])
    if not hit.any():
        return None
    met = np.unique(at[hit])
    rows = 1 if store.alone else max(len(stored), len(at))
    places, by_lane = zip(*(_numbered(*each, met, rows) for each in ((stored, there), (at, here))), strict=True)
    found = (places[1] >= 0) & np.isin(places[1], places[0])
    if own:
        found &= ~np.isin(by_lane[1], by_lane[0][places[0] >= 0])
    return found if found.any() else None


def apart(store: _Access, access: _Access) -> bool:
    """Whether no lane of a program has an address of both: told without sorting them, which is where most end."""
    (first, last), (low, high) = store.rows, access.rows
    if store.alone:
        order = np.argsort(first)
        before = np.searchsorted(first[order], high, "right")
        reach = np.concatenate(([-1], np.maximum.accumulate(last[order])))  # of the rows that begin before
        near = reach[before] >= low
    else:
        near = (first <= high) & (low <= last)
    if not near.any():
        return True
    start = min(store.span[0], access.span[0])
    extent = max(store.span[1], access.span[1]) - start if store.alone else int((last - first).max())
    if extent > TABLE:
        return False
    (stored, there), (at, here) = (_two(*a.lanes) for a in (store, access))
    base = np.full(1, start) if store.alone else first
    return not _share(stored, there, at, here, base, np.zeros(extent + 1, np.int32), store.alone)


def _two(ptr: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of lanes."""
    return np.ascontiguousarray(ptr).reshape(len(ptr), -1), np.ascontiguousarray(active).reshape(len(active), -1)


@compiled
def _share(
    stored: np.ndarray, there: np.ndarray, at: np.ndarray, here: np.ndarray, base: np.ndarray, table: np.ndarray,
    alone: bool,
) -> bool:  # fmt: skip
    """Whether an active lane of `at` has an address of `stored`: of the same row, or where they are `alone`, of any.

    `table` remembers, for each place from the row's `base` on, the last row that stored there.
    """
    rows = max(len(stored), len(at))
    if alone:
        for i in range(len(stored)):
            for j in range(stored.shape[1]):
                if there[i, j]:
                    table[stored[i, j] - base[0]] = 1
    for i in range(len(at) if alone else rows):
        k, n, b = min(i, len(stored) - 1), min(i, len(at) - 1), base[min(i, len(base) - 1)]
        mine = 1 if alone else i + 1
        if not alone:
            for j in range(stored.shape[1]):
                if there[k, j]:
                    table[stored[k, j] - b] = mine
        for j in range(at.shape[1]):
            place = at[n, j] - b
            if here[n, j] and 0 <= place < len(table) and table[place] == mine:
                return True
    return False


def _numbered(ptr: np.ndarray, active: np.ndarray, met: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each lane a number of its address among those that are `met`, by program (`rows` of them), -1 for others and
    masked ones; and a number that tells lanes apart as well."""
    whole = (max(rows, len(ptr)), *ptr.shape[1:])
    ptr, active = np.broadcast_to(ptr, whole), np.broadcast_to(active, whole)
    at = np.minimum(np.searchsorted(met, ptr), len(met) - 1)
    inside = active & (met[at] == ptr)
    if rows > 1:
        at = at + np.arange(rows).reshape(-1, *(1,) * (ptr.ndim - 1)) * len(met)
    size = int(np.prod(ptr.shape[1:]))
    return np.where(inside, at, -1), at * size + np.arange(size).reshape(ptr.shape[1:])
