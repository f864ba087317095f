"""The bounds of a host tensor, whatever view of its storage it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from interval_ops import threads
from interval_ops.formats import tables
from interval_ops.formats.model import Format
from render.interpreter.memory.integers import INTEGERS
from render.interpreter.memory.operands import Bounded
from render.interpreter.memory.records import NO_TAINT, Envelope
from render.interpreter.memory.registry import Storage, address
from render.interpreter.memory.shadow import bounds_of
from render.interpreter.memory.strided import bits_view, byte_range, byte_view, element_view
from render.interpreter.memory.taint_map import union
from render.interpreter.memory.unwritten import notice_writes
from render.ops.dtypes import FORMAT_OF

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.core import Memory


def of_tensor(memory: Memory, tensor: torch.Tensor, take: bool = False) -> Envelope | None:
    """See `Memory.envelope`."""
    if tensor.numel() == 0 or tensor.is_complex() or tensor.device.type == "meta":
        return None
    storage = memory.find(address(tensor))
    if storage is None or not overlaps(storage, tensor):
        return None
    found = read(memory, storage, tensor, take)
    return replace(found, taints=found.taints | found.void) if found.void else found


def overlaps(storage: Storage, tensor: torch.Tensor) -> bool:
    """Whether kernels (or copies of their results) wrote any of the bytes that the tensor spans."""
    if storage.kernel_range is None:
        return False
    first, last = byte_range(storage, tensor)
    return first < storage.kernel_range[1] and storage.kernel_range[0] < last


def stored_by_kernels(memory: Memory, tensor: torch.Tensor) -> np.ndarray:
    """See `Memory.stored_by_kernels`."""
    storage = memory.find(address(tensor)) if tensor.numel() else None
    if storage is None or storage.stored_at is None:
        return np.zeros(tuple(tensor.shape), np.bool_)
    return byte_view(storage.stored_at, storage, tensor)[..., 0]


def read(memory: Memory, storage: Storage, tensor: torch.Tensor, take: bool = False) -> Envelope:
    """Bounds, written flags and taints of the tensor's elements; see `Memory.envelope` for `take`."""
    if tensor.is_complex():
        return _of_parts(memory, storage, tensor)
    bits = bits_view(storage, tensor)
    fmt = FORMAT_OF.get(tensor.dtype)
    written = np.ones(bits.shape, np.bool_)
    if storage.written is not None:
        notice_writes(storage)
    if fmt is not None:
        lo, hi = _floats(storage, tensor, bits, fmt, written, take)
    else:
        lo, hi = _integers(storage, bits, tensor)
        if storage.written is not None:
            written = element_view(storage.written_view(bits.itemsize), storage, tensor) == -1
    taints, void = storage.taint, NO_TAINT
    if storage.taint_map is not None:
        marks = byte_view(storage.taint_map, storage, tensor)
        if marks.any():
            taints |= union(memory, np.flatnonzero(np.bincount(marks[written].ravel())))
            void = union(memory, np.flatnonzero(np.bincount(marks[~written].ravel()))) - taints
    own = fmt or INTEGERS.get(tensor.dtype)
    foreign = _foreign(storage, tensor, None if own is None else own.name)
    if foreign is not None:
        lo, hi = (np.where(foreign, np.nan, a) for a in (lo, hi))
        message = "bits of a bounded number are read as another type"
        taints |= {memory.taint("RND302", "view", cast("Site", _HOST), message)}
    return Envelope(lo, hi, written, True, taints, void)


def _of_parts(memory: Memory, storage: Storage, tensor: torch.Tensor) -> Envelope:
    """Of complex numbers, whose parts have the bounds: an open one is unknown as a whole, and marked so."""
    found = read(memory, storage, torch.view_as_real(tensor.conj() if tensor.is_conj() else tensor))
    open_ = (found.lo != found.hi).any(axis=-1)
    ends = np.where(open_, np.nan, found.lo[..., 0])
    taints = found.taints
    if open_.any():
        message = "a complex number with bounded parts is taken as a whole"
        taints |= {memory.taint("RND302", "complex", cast("Site", _HOST), message)}
    written = np.asarray(found.written.all(axis=-1))
    return Envelope(ends, ends, written, True, taints, found.void)


def _floats(
    storage: Storage, tensor: torch.Tensor, bits: np.ndarray, fmt: Format, written: np.ndarray, take: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of float elements; clears `written` (and gives NaN) where a byte of an element was never written."""
    flat = np.ascontiguousarray(bits).reshape(-1)
    shadow = storage.shadows.get(fmt.name)
    sources = (None, None, None) if shadow is None else (shadow.lo, shadow.hi, shadow.stamp)
    state = None if storage.written is None else storage.written_view(bits.itemsize)

    def along(array: np.ndarray | None, dtype: Any) -> np.ndarray:
        if array is None:
            return np.empty(0, dtype)
        return np.ascontiguousarray(element_view(array, storage, tensor)).reshape(-1)

    slo, shi, stamp = (along(a, d) for a, d in zip(sources, (np.float64, np.float64, bits.dtype), strict=True))
    lo, hi = (slo, shi) if take and shadow is not None else (np.empty(flat.size), np.empty(flat.size))
    values, known = tables.decode(flat, fmt), Bounded(slo, shi, stamp, shadow is not None)
    arrays = values, flat, along(state, np.dtype(f"i{bits.itemsize}")), lo, hi, written.reshape(-1)

    def run(start: int, stop: int) -> None:
        v, b, state_, low, high, all_written = (a[start:stop] for a in arrays)
        mine = Bounded(known.lo[start:stop], known.hi[start:stop], known.stamp[start:stop], known.use)
        bounds_of(v, b, mine, state is not None, state_, low, high, all_written)

    threads.spread(run, flat.size)
    return lo.reshape(bits.shape), hi.reshape(bits.shape)


class _Host(NamedTuple):
    file: str = "<host>"
    line: int = 0


_HOST = _Host()


def _integers(storage: Storage, bits: np.ndarray, tensor: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    signed = bits.view(np.dtype(f"i{bits.itemsize}")) if tensor.dtype.is_signed else bits
    v = signed.astype(np.float64)
    kind = INTEGERS.get(tensor.dtype)
    shadow = None if kind is None else storage.shadows.get(kind.name)
    if shadow is None:
        return v, v
    lo, hi, stamp = (element_view(a, storage, tensor) for a in (shadow.lo, shadow.hi, shadow.stamp))
    live = (stamp == bits) & (lo <= hi)
    return np.where(live, lo, v), np.where(live, hi, v)


def _foreign(storage: Storage, tensor: torch.Tensor, own: str | None) -> np.ndarray | None:
    """Elements that share bytes with a bounded element of another format; None if there are none."""
    out = np.zeros(tuple(tensor.shape), np.bool_)
    for name, shadow in storage.shadows.items():
        if name == own:
            continue
        wide = (shadow.stamp == storage.view(shadow.stamp.dtype)) & (shadow.lo != shadow.hi)
        if wide.any():
            flags = np.zeros(storage.nbytes, np.bool_)
            flags[: wide.size * shadow.stamp.itemsize] = np.repeat(wide, shadow.stamp.itemsize)
            out |= byte_view(flags, storage, tensor).any(axis=-1)
    return out if out.any() else None
