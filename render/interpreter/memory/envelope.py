"""The bounds of a host tensor, whatever view of its storage it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from interval_ops import tables
from render.interpreter.memory.records import Envelope
from render.interpreter.memory.registry import Storage, address
from render.interpreter.memory.strided import FORMAT_OF, bits_view, byte_range, byte_view, element_view
from render.interpreter.memory.taint_map import union
from render.interpreter.memory.unwritten import notice_writes

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.core import Memory


def of_tensor(memory: Memory, tensor: torch.Tensor) -> Envelope | None:
    """See `Memory.envelope`."""
    if tensor.numel() == 0 or tensor.is_complex() or tensor.device.type == "meta":
        return None
    storage = memory.find(address(tensor))
    if storage is None or not overlaps(storage, tensor):
        return None
    return read(memory, storage, tensor)


def overlaps(storage: Storage, tensor: torch.Tensor) -> bool:
    """Whether kernels (or copies of their results) wrote any of the bytes that the tensor spans."""
    if storage.kernel_range is None:
        return False
    first, last = byte_range(storage, tensor)
    return first < storage.kernel_range[1] and storage.kernel_range[0] < last


def read(memory: Memory, storage: Storage, tensor: torch.Tensor) -> Envelope:
    """Bounds, written flags and taints of the tensor's elements."""
    bits = bits_view(storage, tensor)
    fmt = FORMAT_OF.get(tensor.dtype)
    if fmt is None:
        lo = hi = _integers(bits, tensor)
    else:
        value = tables.decode(bits, fmt).astype(np.float64)
        lo, hi = value, value
        shadow = storage.shadows.get(fmt.name)
        if shadow is not None:
            live = element_view(shadow.stamp, storage, tensor) == bits
            lo = np.where(live, element_view(shadow.lo, storage, tensor), value)
            hi = np.where(live, element_view(shadow.hi, storage, tensor), value)
    written = np.ones(bits.shape, np.bool_)
    if storage.written is not None:
        notice_writes(storage)
        written = (byte_view(storage.written, storage, tensor) != 0).all(axis=-1)
        lo, hi = (np.where(written, a, np.nan) for a in (lo, hi)) if fmt is not None else (lo, hi)
    taints = storage.taint
    if storage.taint_map is not None:
        taints |= union(memory, np.unique(byte_view(storage.taint_map, storage, tensor)))
    foreign = _foreign(storage, tensor, None if fmt is None else fmt.name)
    if foreign is not None:
        lo, hi = (np.where(foreign, np.nan, a) for a in (lo, hi))
        message = "bits of a bounded float are read as another type"
        taints |= {memory.taint("RND302", "view", cast("Site", _HOST), message)}
    return Envelope(lo, hi, written, True, taints)


class _Host(NamedTuple):
    file: str = "<host>"
    line: int = 0


_HOST = _Host()


def _integers(bits: np.ndarray, tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype.is_signed:
        bits = bits.view(np.dtype(f"i{bits.itemsize}"))
    return bits.astype(np.float64)


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
