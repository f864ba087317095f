"""What host code does to memory between launches: allocate, overwrite, copy kernel results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from render.interpreter.memory.envelope import overlaps, read
from render.interpreter.memory.findings import MemoryFinding
from render.interpreter.memory.integers import INTEGERS
from render.interpreter.memory.records import NO_TAINT, Envelope
from render.interpreter.memory.registry import Storage, address
from render.interpreter.memory.strided import bits_view, byte_range, byte_view, element_view, element_views
from render.interpreter.memory.unwritten import forget_contents, unwritten_in
from render.ops.dtypes import FORMAT_OF

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.core import Memory

_NOTHING = np.empty(0)
EXACTLY = Envelope(_NOTHING, _NOTHING, np.ones(1, np.bool_), True, NO_TAINT)
"""Of elements without bounds and taints: their values hold."""


def mark_unwritten(memory: Memory, tensor: torch.Tensor) -> None:
    """See `Memory.mark_unwritten`."""
    memory.registry.prune()
    storage = memory.register(tensor)
    forget_contents(storage)


def host_write(memory: Memory, tensor: torch.Tensor) -> None:
    """See `Memory.host_write`."""
    storage = memory.find(address(tensor)) if tensor.numel() else None
    if storage is None:
        return
    mark_written(storage, tensor)
    if _covers(storage, tensor):
        storage.taint, storage.taint_map = NO_TAINT, None
    elif storage.taint_map is not None:
        byte_view(storage.taint_map, storage, tensor)[...] = 0
    for shadow in storage.shadows.values():
        shadow.among.clear()
        size = shadow.stamp.itemsize
        mem = storage.view(shadow.stamp.dtype)
        if tensor.is_contiguous():
            first, last = byte_range(storage, tensor)
            shadow.void(mem, slice(first // size, min(-(-last // size), len(mem))))
        elif size == tensor.element_size() and (address(tensor) - storage.base) % size == 0:
            ends = (element_view(end, storage, tensor) for end in (shadow.lo, shadow.hi))
            for end in ends:
                end[...] = np.nan
            element_view(shadow.stamp, storage, tensor)[...] = ~bits_view(storage, tensor)
        else:
            flags = np.zeros(len(mem) * size, np.bool_)
            # A tail shorter than one element of this shadow belongs to none of its elements.
            whole = np.zeros(storage.nbytes, np.bool_)
            byte_view(whole, storage, tensor)[...] = True
            flags[:] = whole[: len(flags)]
            shadow.void(mem, np.flatnonzero(flags.reshape(-1, size).any(axis=1)))


def mark_written(storage: Storage, tensor: torch.Tensor, written: np.ndarray | None = None) -> None:
    """Note the tensor's elements as written (or as `written` says)."""
    if storage.written is None:
        if written is None or written.all():
            return
        storage.written = np.full(storage.nbytes, 255, np.uint8)
        storage.filled = False
    if written is None and _covers(storage, tensor):
        storage.written = None
        return
    value = np.uint8(255) if written is None else np.where(written, np.uint8(255), np.uint8(0))[..., None]
    byte_view(storage.written, storage, tensor)[...] = value


def carry(
    memory: Memory, tensor: torch.Tensor, lo: np.ndarray | None, hi: np.ndarray | None, taint: frozenset[int],
    written: np.ndarray | None, void: frozenset[int] = NO_TAINT, fresh: bool = False,
) -> None:  # fmt: skip
    """See `Memory.carry`."""
    if tensor.numel() == 0:
        return
    memory.registry.prune()
    storage = memory.register(tensor)
    host_write(memory, tensor)
    mark_written(storage, tensor, written)
    storage.touched_by_kernel(*byte_range(storage, tensor))
    kind = FORMAT_OF.get(tensor.dtype) or INTEGERS.get(tensor.dtype)
    if lo is not None and hi is not None and kind is not None and _covers(storage, tensor):
        shape = tuple(tensor.shape)
        if not fresh:
            lo, hi = (np.array(np.broadcast_to(end, shape), np.float64, order="C") for end in (lo, hi))
        low, high = lo.reshape(-1), hi.reshape(-1)
        memory.shadow_of(storage, kind, (low, high, bits_view(storage, tensor).reshape(-1).copy()), of_host=True)
    elif lo is not None and hi is not None and kind is not None:
        shadow = memory.shadow_of(storage, kind, of_host=True)
        element_view(shadow.lo, storage, tensor)[...] = lo
        element_view(shadow.hi, storage, tensor)[...] = hi
        element_view(shadow.stamp, storage, tensor)[...] = bits_view(storage, tensor)
    if taint and _covers(storage, tensor):
        storage.taint = taint
    elif taint:
        if storage.taint_map is None:
            storage.taint_map = np.zeros(storage.nbytes, np.uint32)
        byte_view(storage.taint_map, storage, tensor)[...] = memory.taint_index(taint)
    if void and written is not None and not written.all():
        if storage.taint_map is None:
            storage.taint_map = np.zeros(storage.nbytes, np.uint32)
        byte_view(storage.taint_map, storage, tensor)[~written] = memory.taint_index(taint | void)


def stored_as(memory: Memory, tensor: torch.Tensor) -> torch.dtype | None:
    """See `Memory.stored_as`."""
    storage = memory.find(address(tensor)) if tensor.numel() else None
    if storage is None or len(storage.shadows) != 1:
        return None
    (name,) = storage.shadows
    return next((t for table in (FORMAT_OF, INTEGERS) for t, kind in table.items() if kind.name == name), None)


def bits_as(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """The bytes of a contiguous tensor as numbers of another type, in one dimension; None where they are no whole."""
    first, size = tensor.storage_offset() * tensor.element_size(), tensor.numel() * tensor.element_size()
    if first % dtype.itemsize or size % dtype.itemsize:
        return None
    empty = torch.empty(0, dtype=dtype)
    return empty.set_(tensor.untyped_storage(), first // dtype.itemsize, (size // dtype.itemsize,), (1,))


def may_copy(memory: Memory, target: torch.Tensor, source: torch.Tensor) -> bool:
    """See `Memory.may_copy`."""
    kind = FORMAT_OF.get(source.dtype) or INTEGERS.get(source.dtype)
    origin = memory.find(address(source)) if source.numel() else None
    if kind is None or origin is None or not overlaps(origin, source) or list(origin.shadows) != [kind.name]:
        return False
    storage = memory.register(target)
    both = not (origin.taint or storage.taint) and origin.taint_map is storage.taint_map is None
    return both and origin is not storage and origin.written is None and all(n == kind.name for n in storage.shadows)


def copied(memory: Memory, target: torch.Tensor, source: torch.Tensor) -> None:
    """See `Memory.copied`."""
    origin, storage = memory.register(source), memory.register(target)
    (given,) = origin.shadows.values()
    mark_written(storage, target)
    storage.touched_by_kernel(*byte_range(storage, target))
    shadow = memory.shadow_of(storage, given.fmt, of_host=True)
    shadow.among.clear()
    of = element_views((given.lo, given.hi, given.stamp), origin, source)
    for into, one in zip(element_views((shadow.lo, shadow.hi, shadow.stamp), storage, target), of, strict=True):
        into[...] = one


def computed_of_nothing(memory: Memory, tensor: torch.Tensor, lanes: int, op: str, site: Site) -> int:
    """See `Memory.computed_of_nothing`."""
    storage = memory.register(tensor)
    message = f"{op} computes with memory of {storage.name or 'a tensor'} that nothing has written"
    ident = memory.taint("RND208", op, site, message)
    where = np.arange(lanes, dtype=np.int64) + address(tensor)
    memory.report(
        MemoryFinding(
            "RND208", message, storage.name, (), (), site.file, site.line, lanes, "read", 0, 0, storage.extent, ident
        ), where, settled=True,
    )  # fmt: skip
    return ident


def _covers(storage: Storage, tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() and tensor.numel() * tensor.element_size() == storage.nbytes


def is_known(memory: Memory, tensor: torch.Tensor) -> bool:
    """See `Memory.is_known`."""
    storage = memory.find(address(tensor)) if tensor.numel() else None
    if storage is None:
        return False
    return (storage.kernel_range is not None and overlaps(storage, tensor)) or unwritten_in(storage, tensor)


def host_envelope(memory: Memory, tensor: torch.Tensor) -> Envelope | None:
    """See `Memory.host_envelope`. Without bounds or taints the ends are one empty array: the values themselves hold."""
    storage = memory.find(address(tensor)) if tensor.numel() else None
    if storage is None:
        return None
    partly = unwritten_in(storage, tensor)
    if not overlaps(storage, tensor) and not partly:
        return None
    if storage.shadows or storage.taint_map is not None or partly:
        return read(memory, storage, tensor)
    return replace(EXACTLY, taints=storage.taint) if storage.taint else EXACTLY
