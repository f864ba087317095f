"""Memory that nothing has written since its allocation, also where the writer is out of sight.

Kernels and torch operations are followed; numpy views, foreign libraries and custom operators are not. Fresh memory is
therefore filled with one fixed word: bytes that no longer show it were written by somebody. (Contents that happen to
equal the word still count as unwritten: one chance in 2**64 per word.)
"""

from __future__ import annotations

import numpy as np
import torch

from render.interpreter.memory.registry import Storage
from render.interpreter.memory.strided import byte_view

CANARY = 0xA5F193C75B2E6D88
"""An arbitrary word without structure, so that no plausible data equals it."""

FILL_LIMIT = 256 << 20
"""Larger allocations are not filled (it would make untouched pages resident); only writers in sight count there."""

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BYTES = np.array([CANARY], np.uint64).view(np.uint8)


def forget_contents(storage: Storage) -> None:
    """Mark all of the storage as never written."""
    if not storage.nbytes:
        return
    storage.written = np.zeros(storage.nbytes, np.uint8)
    storage.filled = _fill(storage)


def fill_fresh(tensor: torch.Tensor) -> None:
    """The word in the memory of a tensor that was just allocated without contents, where no session keeps account of
    it: every run of the same code finds the same there."""
    keep = tensor.untyped_storage()
    _fill(Storage(keep.data_ptr(), keep.nbytes(), keep))


def _fill(storage: Storage) -> bool:
    """Whether it is small enough to be filled."""
    if storage.nbytes > FILL_LIMIT:
        return False
    storage.view(np.dtype(np.uint64))[:] = np.uint64(CANARY)
    tail = storage.nbytes % 8
    storage.raw[storage.nbytes - tail :] = _BYTES[:tail]
    return True


def notice_writes(storage: Storage) -> None:
    """Take what changed out of sight as written: whole words where no byte was known to be, else single bytes."""
    written = storage.written
    if written is None or not storage.filled:
        return
    whole = storage.nbytes // 8 * 8
    flags, words = written[:whole].view(np.uint64), storage.view(np.dtype(np.uint64))
    flags[(flags == 0) & (words != np.uint64(CANARY))] = _ALL
    mixed = np.flatnonzero((flags != 0) & (flags != _ALL))
    if len(mixed):
        changed = storage.raw[:whole].reshape(-1, 8)[mixed] != _BYTES
        written[:whole].reshape(-1, 8)[mixed] |= np.where(changed, np.uint8(255), np.uint8(0))
    tail = storage.nbytes - whole
    written[whole:] |= np.where(storage.raw[whole:] != _BYTES[:tail], np.uint8(255), np.uint8(0))


def unwritten_in(storage: Storage, tensor: torch.Tensor) -> bool:
    """Whether nothing has written some element of the tensor."""
    if storage.written is None or tensor.is_complex() or byte_view(storage.written, storage, tensor).all():
        return False
    notice_writes(storage)
    return not byte_view(storage.written, storage, tensor).all()
