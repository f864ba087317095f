"""What a program stored or loaded and has no barrier behind: its other threads may be earlier or later.

Triton puts no barrier between a store and a load of global memory (docs/lowering.md reads that in what it compiles); a
thread sees its own stores, another thread of the program sees them after `tl.debug_barrier()`. Which thread has which
lane is the compiler's to choose, but lanes of one address at one place of equal blocks are one thread's. So a load is
told that takes from another lane what a store since the last barrier left, and a store to what another lane loaded
since: a warp that is late loads the new number. (A load without lanes, which all threads do, is not asked, nor are
loads in Gluon, where a block in place is the rule.) What goes through shared memory has a
barrier inside (reductions, scans, dots, transposes, atomics) and counts as one, in favour of the kernel. In Gluon the
kernel chooses which thread has which lane, of each block anew: nothing counts but its own barriers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.handle import Handle
    from render.interpreter.memory.registry import Storage

LATEST = 16
"""Stores that are remembered."""
LATEST_LOADS = 4
"""Loads, which hold on to their addresses."""


@dataclass(eq=False)
class _Stored:
    linear: np.ndarray
    ptr: np.ndarray
    mask: np.ndarray | None
    origin: Storage | None

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first and the last address; a store that no load follows is not asked for it."""
        return int(self.ptr.min()), int(self.ptr.max())


class Unordered:
    """The stores and loads of a pass since its last barrier."""

    def __init__(self) -> None:
        self._stores: deque[_Stored] = deque(maxlen=LATEST)
        self._loads: deque[tuple[np.ndarray, Handle, np.ndarray | None]] = deque(maxlen=LATEST_LOADS)
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
        return tuple(self._stores), tuple(self._loads), self.late

    def undo_to(self, mark: tuple[Any, ...]) -> None:
        """What was stored and loaded since then never was."""
        stores, loads, self.late = mark
        self._stores, self._loads = deque(stores, LATEST), deque(loads, LATEST_LOADS)

    def barrier(self) -> None:
        self._stores.clear()
        self._loads.clear()

    def exchanged(self) -> None:
        """Lanes went through shared memory."""
        if not self.by_layout:
            self.barrier()

    def stored(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> None:
        """Programs `linear` store at these addresses, in the lanes of `mask` (None: in all)."""
        if not ptr.v.size:
            return
        where, mine = ptr.full(ptr.v), self._program(linear)
        if mine is linear:
            self._stores.append(_Stored(linear, where, mask, ptr.origin))
            return
        for turn in range(max(0, len(linear) - LATEST), len(linear)):
            self._stores.append(
                _Stored(mine, _row(where, turn), None if mask is None else _row(mask, turn), ptr.origin)
            )

    def _program(self, linear: np.ndarray) -> np.ndarray:
        return self.turns[1] if self.turns is not None and linear is self.turns[0] else linear

    def loaded(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> None:
        if len(ptr.shape):
            self._loads.append((self._program(linear), ptr, mask))

    def overwrites(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> bool:
        """Whether a lane of this store has the address of another lane of a load since the last barrier."""
        one = self._program(linear)
        mine = [(p, m) for at, p, m in self._loads if at is one and p.origin is ptr.origin is not None]
        if not mine or not ptr.v.size or self.by_layout:
            return False
        store = _Stored(one, ptr.full(ptr.v), mask, ptr.origin)
        low, high = store.span
        return any(
            int(p.v.min()) <= high and low <= int(p.v.max()) and _crossed(store, p.full(p.v), m, self.by_layout)
            for p, m in mine
        )

    def meets(self, linear: np.ndarray, ptr: Handle, mask: np.ndarray | None) -> bool:
        """Whether a lane of this load has the address of another lane of such a store.

        Pointers of two tensors never meet: a lane that lies outside its own is a finding of the memory (RND207), and
        whose bytes it would hit is the allocator's choice.
        """
        if not self._stores or not ptr.v.size:
            return False
        low, high, mine = int(ptr.v.min()), int(ptr.v.max()), self._program(linear)
        return any(
            s.linear is mine
            and s.span[0] <= high
            and low <= s.span[1]
            and (s.origin is None or ptr.origin is None or s.origin is ptr.origin)
            and _crossed(s, ptr.full(ptr.v), mask, self.by_layout)
            for s in self._stores
        )


def _row(a: np.ndarray, turn: int) -> np.ndarray:
    return a if len(a) == 1 else a[turn : turn + 1]


def _crossed(store: _Stored, ptr: np.ndarray, mask: np.ndarray | None, by_layout: bool) -> bool:
    if by_layout:
        (stored, there), (ptr, here) = _active(store.ptr, store.mask), _active(ptr, mask)
        return bool(np.isin(ptr[here], stored[there]).any())
    if ptr is store.ptr or (ptr.shape == store.ptr.shape and ptr.size > 1 and np.array_equal(ptr, store.ptr)):
        return False
    (stored, there), (ptr, here) = _active(store.ptr, store.mask), _active(ptr, mask)
    if ptr.shape[1:] != stored.shape[1:]:
        return bool(np.isin(ptr[here], stored[there]).any())
    rows = max(len(ptr), len(stored))
    whole = [np.broadcast_to(a, (rows, *ptr.shape[1:])) for a in (ptr, here, stored, there)]
    own = (whole[0] == whole[2]) & whole[3] & (ptr[0].size > 1)
    return any(
        bool(np.isin(ptr_[here_ & ~own_], stored[there_]).any())
        for ptr_, here_, stored, there_, own_ in zip(*whole, own, strict=True)
    )


def _active(ptr: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Addresses and their mask in one shape: programs may share the one and differ in the other."""
    pointers, active = np.broadcast_arrays(ptr, np.True_ if mask is None else mask)
    return pointers, active
