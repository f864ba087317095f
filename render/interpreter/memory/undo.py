"""Undo log of a chunk: what each write replaced, so that a chunk can be run again from where it began.

The log is a list of entries in order. A `Segment` names the part of the arena's columns that one access filled (element
numbers, old bits, tags, bounds); anything else is a function that takes one change back. Undoing walks backwards, so an
array that was created in the chunk is dropped after the entries that refer to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from render.interpreter.memory.operands import Undo, bounded
from render.interpreter.memory.registry import PROGRAM, SHARED, Accumulator, Storage
from render.interpreter.memory.scatter import ENTRY_BITS, SAVE_SHADOW, SAVE_WRITTEN, restore
from render.interpreter.memory.shadow import Shadow
from render.interpreter.memory.unwritten import CANARY

_CANARY = np.uint64(CANARY)
_EMPTY_I = np.empty(1, np.int64)
AT_FIRST = 1 << 12
"""Elements that the arena has room for at first."""
KEEP_ELEMENTS = 1 << 23
"""Arena capacity that is kept from one chunk to the next; a larger one is released."""


Columns = tuple[np.ndarray, ...]


class Segment(NamedTuple):
    storage: Storage
    size: int
    columns: Columns
    first: int
    last: int
    shadow: Shadow | None
    with_written: bool
    acc: tuple[np.ndarray, ...] | None


class Arena:
    """Columns of saved elements. What fills them goes on in larger ones, for whoever saved keeps those that it filled:
    growing copies nothing, and a column that no entry has anything in is never touched."""

    COLUMNS = ("index", "bits", "tag", "written", "lo", "hi")
    FLOATS = ("lo", "hi")

    def __init__(self) -> None:
        self._begin(AT_FIRST)

    def _begin(self, capacity: int) -> None:
        block = np.empty((len(self.COLUMNS), capacity), np.int64)  # one block: the allocator touches the end of each
        self.columns: Columns = tuple(
            column.view(np.float64) if name in self.FLOATS else column
            for name, column in zip(self.COLUMNS, block, strict=True)
        )
        self.used = 0

    @property
    def capacity(self) -> int:
        return len(self.columns[0])

    def reserve(self, lanes: int) -> None:
        if self.used + lanes > self.capacity:
            self._begin(max(2 * self.capacity, lanes))

    def go_back(self, columns: Columns, used: int) -> None:
        self.columns, self.used = columns, used

    def reset(self) -> None:
        self.used = 0
        if self.capacity > KEEP_ELEMENTS:
            self._begin(AT_FIRST)


class UndoLog:
    """Entries since the chunk began; `epoch` is the tag from which on an element's old state is already in the log."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.entries: list[Segment | Callable[[], None]] = []

    def mark(self) -> int:
        return len(self.entries)

    def push(self, take_back: Callable[[], None]) -> None:
        self.entries.append(take_back)

    def segment(self, entry: Segment) -> None:
        if entry.last > entry.first:
            self.entries.append(entry)

    def clear(self) -> None:
        self.entries.clear()
        self.arena.reset()

    def undo_to(self, mark: int) -> None:
        while len(self.entries) > mark:
            entry = self.entries.pop()
            if isinstance(entry, Segment):
                self._restore(entry)
                self.arena.go_back(entry.columns, entry.first)
            else:
                entry()

    def retag(self, mark: int, program: int) -> bool:
        """What was stored since then is this program's; False, where several turns wrote one element."""
        for s in self.entries[mark:]:
            if not isinstance(s, Segment) or s.storage.tags is None:
                continue
            at = s.columns[0][s.first : s.last] >> ENTRY_BITS
            tags = s.storage.tags[at]
            if s.storage.mixed or (tags & SHARED).any():
                return False
            s.storage.tags[at] = (tags & ~PROGRAM) | program
        return True

    def _restore(self, s: Segment) -> None:
        columns = [c[s.first : s.last] for c in s.columns]
        index = columns[0]
        storage = s.storage
        assert storage.tags is not None
        save = 0
        mem = storage.view(np.dtype(f"u{s.size}"))
        out_written = _EMPTY_I
        if s.with_written:
            save |= SAVE_WRITTEN
            out_written = storage.written_view(s.size)
        if s.shadow is not None:
            save |= SAVE_SHADOW
        undo = Undo._make((save, *columns, 0))
        restore(undo, mem, storage.tags, out_written, bounded(storage, s.shadow, s.size), _CANARY)
        if s.acc is not None and storage.acc is not None:
            for array, old in zip(storage.acc.arrays, s.acc, strict=True):
                array[index >> ENTRY_BITS] = old


def snapshot(storage: Storage) -> Callable[[], None]:
    """A function that puts everything about `storage` back as it is now (rare: elements of mixed sizes)."""
    raw, written, tags = storage.raw.copy(), _copy(storage.written), _copy(storage.tags)
    grain = storage.grain
    shadows = [(k, s, s.lo.copy(), s.hi.copy(), s.stamp.copy()) for k, s in storage.shadows.items()]
    acc = storage.acc
    sums = None if acc is None else Accumulator(acc.fmt, tuple(a.copy() for a in acc.arrays), acc.count > 0, acc.born)

    def put_back() -> None:
        storage.raw[:] = raw
        storage.written, storage.tags, storage.grain = written, tags, grain
        storage.shadows = {name: shadow for name, shadow, *_ in shadows}
        for _, shadow, lo, hi, stamp in shadows:
            # In place: earlier entries of the log hold this very object.
            shadow.lo[:], shadow.hi[:], shadow.stamp[:] = lo, hi, stamp
        storage.acc = sums
        if storage.reads is not None and storage.tags is not None and len(storage.reads) != len(storage.tags):
            storage.reads = np.zeros(len(storage.tags), np.int64)

    return put_back


def _copy(a: np.ndarray | None) -> np.ndarray | None:
    return None if a is None else a.copy()
