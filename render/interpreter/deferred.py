"""Host operations on inputs whose bounds nobody has asked for yet.

What the host computes before a launch matters only where a kernel reads it. So an operation with a rule, none of whose
operands a kernel made, is kept as it is: a reference loop whose results no kernel reads costs its dispatch and no
bounds. Bounds are computed, oldest first, when a launch takes a tensor, when anybody asks for them, and before an
operand is overwritten. Whoever writes memory behind torch's back (a numpy view) changes operands unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

LIMIT = 256 << 20
"""Bytes of operands and results that are kept at most; then the bounds are computed as if asked for."""
SWEEP = 256


@dataclass(frozen=True)
class Made:
    """A result, number `place` of the operation, as long as its storage lives."""

    place: int
    start: int
    storage: StorageWeakRef
    dtype: torch.dtype
    geometry: tuple[Any, ...]
    nbytes: int

    @classmethod
    def of(cls, place: int, t: torch.Tensor) -> Made:
        storage, geometry = t.untyped_storage(), (t.storage_offset(), t.size(), t.stride())
        return cls(place, storage.data_ptr(), StorageWeakRef(storage), t.dtype, geometry, storage.nbytes())

    def tensor(self) -> torch.Tensor | None:
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        return None if storage is None else torch.empty(0, dtype=self.dtype).set_(storage, *self.geometry)


@dataclass(eq=False)
class Pending:
    """One operation that ran: `evaluate` attaches the bounds of its results. Keeps its operands alive."""

    serial: int
    reads: tuple[int, ...]
    made: list[Made]
    evaluate: Callable[[], None]
    size: int

    @property
    def dead(self) -> bool:
        return all(m.storage.expired() for m in self.made)


def start_of(t: torch.Tensor) -> int:
    return int(t.untyped_storage().data_ptr())


class Deferred:
    """Pending operations by the storages that they read and made."""

    def __init__(self) -> None:
        self._all: dict[int, Pending] = {}
        self._made: dict[int, Pending] = {}
        self._readers: dict[int, dict[int, Pending]] = {}
        self._serial = self._size = 0
        self._next_sweep = SWEEP
        self._settling = False

    def __bool__(self) -> bool:
        return bool(self._all)

    def made(self, t: torch.Tensor) -> bool:
        """Whether the bounds of this tensor's storage are still to be computed."""
        at = start_of(t)
        found = self._made.get(at)
        if found is None:
            return False
        if any(m.start == at and not m.storage.expired() for m in found.made):
            return True
        del self._made[at]  # of a storage that is gone, whose place this one has
        return False

    def reads(self, t: torch.Tensor) -> bool:
        """Whether bounds that are still to be computed need this tensor's storage as it is."""
        return start_of(t) in self._readers

    def add(self, reads: Iterable[torch.Tensor], made: list[Made], evaluate: Callable[[], None]) -> None:
        self._serial += 1
        reads = list(reads)
        starts = tuple({start_of(t) for t in reads})
        size = sum(t.numel() * t.element_size() for t in reads) + sum(m.nbytes for m in made)
        found = Pending(self._serial, starts, made, evaluate, size)
        self._all[found.serial] = found
        for m in made:
            self._made[m.start] = found
        for at in starts:
            self._readers.setdefault(at, {})[found.serial] = found
        self._size += size
        if self._size > LIMIT or len(self._all) > self._next_sweep:
            self._sweep()

    def settle(self, t: torch.Tensor) -> None:
        """Compute what is pending of this storage, made or read."""
        if self._settling:  # attaching bounds registers memory: what it reads is older, and done
            return
        at = start_of(t)
        todo = list(self._readers.get(at, {}).values())
        if self.made(t):
            todo.append(self._made[at])
        if todo:
            self._settle([p for p in todo if not p.dead])

    def _settle(self, todo: list[Pending]) -> None:
        every: dict[int, Pending] = {}
        while todo:
            one = todo.pop()
            if one.serial not in every:
                every[one.serial] = one
                todo += [p for at in one.reads if (p := self._made.get(at)) is not None and p.serial < one.serial]
        self._settling = True
        try:
            for one in sorted(every.values(), key=lambda p: p.serial):
                self._drop(one)
                one.evaluate()
        finally:
            self._settling = False

    def _drop(self, one: Pending) -> None:
        del self._all[one.serial]
        for m in one.made:
            if self._made.get(m.start) is one:
                del self._made[m.start]
        for at in one.reads:
            readers = self._readers.get(at)
            if readers is not None and readers.pop(one.serial, None) is not None and not readers:
                del self._readers[at]
        self._size -= one.size

    def _sweep(self) -> None:
        """Forget what nobody can ask for any more, the newest first: it keeps older results alive."""
        for serial in sorted(self._all, reverse=True):
            if self._all[serial].dead:
                self._drop(self._all[serial])
        if self._size > LIMIT:
            self._settle(list(self._all.values()))
        self._next_sweep = 2 * len(self._all) + SWEEP
