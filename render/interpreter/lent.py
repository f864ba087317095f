"""Memory of tensors that host code holds as numpy arrays: what numpy writes there, torch does not see.

A copy of the bytes is kept for as long as the array lives, and compared before the next operation of torch, the next
launch and at the end; what torch and kernels write themselves is in the next copy. An array that views another keeps
that one alive, and with it the memory under watch.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from render.interpreter.hosted.overloads import host_site

if TYPE_CHECKING:
    from render.interpreter.host_bounds import HostBounds


class _Lent(NamedTuple):
    tensor: torch.Tensor
    array: weakref.ref[np.ndarray]
    seen: np.ndarray


def _bytes(tensor: torch.Tensor) -> np.ndarray:
    """A copy of the elements of any view, as bytes."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().copy()


class LentMemory:
    """The arrays that are out."""

    def __init__(self) -> None:
        self._out: list[_Lent] = []

    def __bool__(self) -> bool:
        return bool(self._out)

    def lend(self, tensor: torch.Tensor, array: np.ndarray) -> None:
        """`array` is the memory of `tensor`; one that may not be written is nobody's concern."""
        if isinstance(array, np.ndarray) and array.flags.writeable and tensor.numel() and not tensor.is_complex():
            self._out.append(_Lent(tensor.detach(), weakref.ref(array), _bytes(tensor)))

    def written(self) -> Iterator[torch.Tensor]:
        """The tensors whose bytes are others than they were."""
        for one in self._out:
            if not np.array_equal(_bytes(one.tensor), one.seen):
                yield one.tensor

    def refresh(self) -> None:
        """What is there now is known; arrays that nobody holds any more can write nothing."""
        self._out = [one._replace(seen=_bytes(one.tensor)) for one in self._out if one.array() is not None]


def noticed(tracker: HostBounds) -> None:
    """Taint what numpy wrote into the memory of tensors since the last look; into inputs alone it is given."""
    if not tracker.lent:
        return
    memory = tracker.memory
    with tracker.silent():
        for tensor in tracker.lent.written():
            known = memory.is_known(tensor)
            memory.host_write(tensor)
            if (known or tracker.numbers) and tensor.is_floating_point():
                message = "numpy wrote into the memory of a tensor with bounds"
                taint = memory.taint("RND302", "host array", host_site(), message)  # type: ignore[arg-type]
                memory.carry(tensor, None, None, frozenset({taint}))
        tracker.lent.refresh()
