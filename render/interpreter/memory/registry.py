"""Storages that kernels may address, found by byte address.

Everything is keyed by the storage, so views, slices and aliases of one tensor share bytes, shadow and tags.
"""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from render.interpreter.memory.shadow import Shadow

PRUNE_BYTES = 256 << 20
"""Registered bytes beyond which storages that nobody else holds are let go at the start of a launch."""

ATOMIC = 1 << 31
SHARED = 1 << 30
STORED = 1 << 29
RECENT = 1 << 28
SEVERAL = 1 << 27
PROGRAM = SEVERAL - 1
"""Layout of a tag: serial of the access << 32 | ATOMIC | SHARED | STORED | RECENT | SEVERAL | program.

SHARED: several programs wrote it (equal bits, or atomics); SEVERAL: several of this chunk. STORED: a plain store of
this launch lies below the atomics; RECENT: one of this chunk, or an exchange of this chunk.
"""


@dataclass(slots=True)
class Accumulator:
    """Sums of float atomic adds per element since the last plain store: see `interval_ops.reduction.atomics.close_sum`.

    `arrays`: lower and upper base, lower and upper sum, magnitude, count. `stale` marks elements whose shadow is older
    than their sum, `born` is the tag from which on the accumulator exists.
    """

    fmt: Any
    arrays: tuple[np.ndarray, ...]
    stale: np.ndarray
    born: int = 0

    @classmethod
    def make(cls, fmt: Any, n: int) -> Accumulator:
        return cls(fmt, tuple(np.zeros(n) for _ in range(6)), np.zeros(n, np.bool_))

    @property
    def count(self) -> np.ndarray:
        return self.arrays[5]


class Storage:
    """Raw bytes of one torch storage and what is known about each of its elements.

    - `shadows`: bounds by format name, created by the first store of an interval.
    - `written`: one byte per byte, 255 once something wrote it; None where all of it counts as written.
    - `filled`: unwritten bytes show the word of `unwritten.CANARY`; `noticed`: they were looked at in this launch.
    - `tags`: last writer in this launch per `grain` bytes; `reads` likewise, the last reader, once `tracked`.
    - `taint_map`: one number per byte, an index into `Memory.taint_sets`; `taint` holds for all bytes.
    - `stored_in`, `read_in`: the last launch that stored to it, and that loaded from it (-1: none; a number between two
      launches for the host).
    - `stored_at`: the first bytes of elements that programs stored, where a part of them runs.
    - `kernel_range`: bytes [first, last) that kernels (or host copies of their results) wrote.
    """

    __slots__ = (
        "__weakref__",
        "acc",
        "base",
        "extent",
        "filled",
        "grain",
        "keep",
        "kernel_range",
        "loaded_at",
        "mixed",
        "name",
        "nbytes",
        "noticed",
        "raw",
        "read_in",
        "reads",
        "shadows",
        "start",
        "stored",
        "stored_at",
        "stored_in",
        "tags",
        "taint",
        "taint_map",
        "tracked",
        "views",
        "written",
    )  # fmt: skip

    def __init__(self, base: int, nbytes: int, keep: Any) -> None:
        self.base = base
        self.nbytes = nbytes
        self.keep = keep
        self.name: str | None = None
        self.start = 0
        self.extent = nbytes
        self.raw = _bytes_at(base, nbytes)
        self.views: dict[str, np.ndarray] = {}
        self.shadows: dict[str, Shadow] = {}
        self.written: np.ndarray | None = None
        self.taint_map: np.ndarray | None = None
        self.taint: frozenset[int] = frozenset()
        self.kernel_range: tuple[int, int] | None = None
        self.stored_at: np.ndarray | None = None
        self.filled = False
        self.noticed = False
        self.tags: np.ndarray | None = None
        self.reads: np.ndarray | None = None
        self.grain = 0
        self.tracked = False
        self.loaded_at = self.read_in = self.stored_in = -1
        self.stored = False
        self.mixed = False
        self.acc: Accumulator | None = None

    def view(self, dtype: np.dtype) -> np.ndarray:
        """The bytes as whole elements of `dtype` (a tail shorter than one element is left out)."""
        key = dtype.str
        got = self.views.get(key)
        if got is None:
            size = dtype.itemsize
            got = self.views[key] = self.raw[: self.nbytes // size * size].view(dtype)
        return got

    def written_view(self, size: int) -> np.ndarray:
        """`written` per element of `size` bytes: -1 where every byte was written."""
        assert self.written is not None
        return self.written[: self.nbytes // size * size].view(f"i{size}")

    @property
    def bounded(self) -> int:
        """How many elements have room for bounds."""
        return sum(len(shadow.lo) for shadow in self.shadows.values())

    def touched_by_kernel(self, first: int, last: int) -> None:
        old = self.kernel_range
        self.kernel_range = (first, last) if old is None else (min(old[0], first), max(old[1], last))

    def forget_launch(self) -> None:
        """Drop what only orders the programs of one launch."""
        self.tags = self.reads = self.acc = None
        self.grain = 0
        self.tracked = self.stored = self.mixed = self.noticed = False

    def __repr__(self) -> str:
        return f"Storage({self.name!r}, base={self.base:#x}, nbytes={self.nbytes})"


def _bytes_at(base: int, nbytes: int) -> np.ndarray:
    if not base or not nbytes:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))


class Registry:
    """Storages in address order."""

    def __init__(self) -> None:
        self._by_base: dict[int, Storage] = {}
        self._bases: list[int] = []
        self._total = 0
        self.room = PRUNE_BYTES
        """Registered bytes that `prune` leaves alone; less for a scope whose storages nobody asks for afterwards."""
        self._enough = 0
        self.complete = True
        """Whether every storage is still here that ever was."""

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Any:
        return iter(self._by_base.values())

    def register(self, tensor: torch.Tensor, name: str | None = None) -> Storage:
        """The storage of `tensor`; `name` is what reports call it from now on, with this tensor's extent."""
        keep = tensor.untyped_storage()
        base, nbytes = keep.data_ptr(), keep.nbytes()
        storage = self._by_base.get(base)
        if storage is None or storage.nbytes != nbytes:
            inside = self.find(base) if nbytes else None
            if inside is not None and base + nbytes <= inside.base + inside.nbytes:
                storage = inside
            else:
                storage = self._insert(base, nbytes, keep)
        if name is not None:
            self.call(storage, tensor, name)
        return storage

    @staticmethod
    def call(storage: Storage, tensor: torch.Tensor, name: str) -> None:
        """What reports call it from now on, with this tensor's extent."""
        storage.name = name
        storage.start = address(tensor) - storage.base
        storage.extent = span(tensor)

    def find(self, address: int) -> Storage | None:
        i = bisect.bisect_right(self._bases, address) - 1
        if i < 0:
            return None
        storage = self._by_base[self._bases[i]]
        return storage if address < storage.base + storage.nbytes else None

    def locate(self, addresses: np.ndarray) -> tuple[np.ndarray, list[Storage]]:
        """For each address the rank of the storage that holds it (-1: none), and the storages by rank."""
        storages = [self._by_base[b] for b in self._bases]
        if not storages:
            return np.full(addresses.shape, -1), storages
        bases = np.array(self._bases, np.int64)
        ends = bases + np.array([s.nbytes for s in storages], np.int64)
        rank = np.searchsorted(bases, addresses, side="right") - 1
        outside = (rank < 0) | (addresses >= ends[np.maximum(rank, 0)])
        return np.where(outside, -1, rank), storages

    def prune(self) -> None:
        """Let go of storages that nobody but this registry holds, once they add up to much memory."""
        if self._total < max(self._enough, self.room) and len(self) < 4096:
            return
        for storage in [s for s in self if s.keep is not None and _owners(s.keep) <= 1]:
            self._remove(storage)
            self.complete = False
        self._enough = self._total + self.room

    def _insert(self, base: int, nbytes: int, keep: Any) -> Storage:
        storage = Storage(base, nbytes, keep)
        if not nbytes:
            return storage
        first = max(bisect.bisect_right(self._bases, base) - 1, 0)
        near = [self._by_base[b] for b in self._bases[first : bisect.bisect_left(self._bases, base + nbytes)]]
        for other in [s for s in near if base < s.base + s.nbytes]:
            _adopt(storage, other)
            self._remove(other)
        self._by_base[base] = storage
        self._total += nbytes
        bisect.insort(self._bases, base)
        return storage

    def _remove(self, storage: Storage) -> None:
        del self._by_base[storage.base]
        self._total -= storage.nbytes
        self._bases.remove(storage.base)


def address(tensor: torch.Tensor) -> int:
    """Byte address of the first element; `Tensor.data_ptr` may be watched, this is not the user taking an address."""
    return tensor.untyped_storage().data_ptr() + int(tensor.storage_offset()) * tensor.element_size()


def span(tensor: torch.Tensor) -> int:
    """Bytes from the first to behind the last element."""
    if tensor.is_contiguous():
        return tensor.numel() * tensor.element_size()
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * st for n, st in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _owners(keep: Any) -> int:
    return int(torch._C._storage_Use_Count(keep._cdata))


def _adopt(new: Storage, old: Storage) -> None:
    """Take over the bounds of a storage that `new` covers (the same memory wrapped again, larger)."""
    new.name, new.kernel_range = old.name, None
    shift = old.base - new.base
    new.start, new.extent = old.start + shift, old.extent
    if old.kernel_range is not None:
        new.kernel_range = (old.kernel_range[0] + shift, old.kernel_range[1] + shift)
    for name, shadow in old.shadows.items():
        size = shadow.stamp.itemsize
        if shift % size or shift < 0:
            continue
        grown = new.shadows.setdefault(name, Shadow.make(shadow.fmt, new.nbytes // size))
        part = slice(shift // size, shift // size + len(shadow.stamp))
        n = len(grown.stamp[part])
        grown.lo[part], grown.hi[part], grown.stamp[part] = shadow.lo[:n], shadow.hi[:n], shadow.stamp[:n]
