"""Activations of whole runs in a scratch file, so that what a comparison holds in memory is what it looks at.

A tensor is written once, to a file without a name in Python's directory for temporary files (`TMPDIR`), and read as
memory that the system maps and takes back: `rest` gives back what was read since. To write is cheaper than to copy to
fresh memory. Where there is no such file, or no room in it, copies are made.

Of what goes to the file nothing stays on the heap, not even a tensor's header: between what comes and goes it would
keep the hole around it from being used again, 10 MB for each block of a decoder.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import torch

from render.interpreter.session import spare

ROOM = 128 << 20
"""Bytes of one run that stay in memory: to write them, and to fault in what is read, takes longer than most rules."""
PART = 64 << 20
"""Bytes of a file that are mapped together; more for a larger tensor."""
READ = 128 << 20
"""Bytes that may be read and written before what is mapped is given back."""
FREE = 768 << 20
"""Memory that may lie free in the holes between what is held, and after a comparison for the next one."""
LINE = 64
"""Where numbers of any type may start."""


@dataclass(eq=False)
class Spilled:
    """A tensor as it was: one that was copied, or where its bytes are and its form."""

    source: Any
    at: int = 0
    form: tuple[Any, ...] = ()
    made: torch.Tensor | None = None

    def tensor(self) -> torch.Tensor:
        """The same object each time."""
        if self.made is None:
            dtype, shape, stride = self.form
            count = max(1, torch.Size(shape).numel())
            self.made = torch.frombuffer(self.source, dtype=dtype, count=count, offset=self.at)
            self.made = self.made.as_strided(shape, stride)
        return self.made


class Spill:
    """Copies of what one run made; the file goes with the last of them."""

    def __init__(self) -> None:
        self.room, self.end = ROOM, 0
        self.file: Any = None
        self.part: mmap.mmap | None = None
        self.start = self.used = 0

    def hold(self, t: torch.Tensor) -> Spilled:
        """What `t.detach().clone()` gives."""
        t = t.detach()
        plain = type(t) is torch.Tensor and t.device.type == "cpu" and t.layout == torch.strided
        if not plain or not t.numel() or t.is_conj() or t.is_neg() or t.is_quantized or self._fits(t.nbytes):
            return Spilled(None, made=t.clone())
        order = sorted(range(t.dim()), key=lambda axis: -t.stride()[axis])
        dense = t if t.permute(order).is_contiguous() else t.clone()
        placed = self._put(dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy())
        return (
            Spilled(None, made=t.clone())
            if placed is None
            else Spilled(*placed, (t.dtype, dense.shape, dense.stride()))
        )

    def array(self, x: np.ndarray) -> np.ndarray:
        """What `x.copy()` gives."""
        placed = None if self._fits(x.nbytes) or not x.size else self._put(np.ravel(x).view(np.uint8))
        return x.copy() if placed is None else np.frombuffer(placed[0], x.dtype, x.size, placed[1]).reshape(x.shape)

    def _fits(self, size: int) -> bool:
        fits = self.room >= size
        self.room -= size if fits else 0
        return fits

    def _put(self, raw: np.ndarray) -> tuple[mmap.mmap, int] | None:
        """Where the bytes are now; None where there is no room."""
        try:
            part, at = self._place(raw.nbytes)
            left, where = raw.data, self.start + at
            while left:
                count = os.pwrite(self.file.fileno(), left, where)
                left, where = left[count:], where + count
        except OSError:
            self.room = 1 << 62
            return None
        rest(raw.nbytes)
        return part, at

    def _place(self, size: int) -> tuple[mmap.mmap, int]:
        """Where so many bytes go."""
        if self.part is None or self.used + size > len(self.part):
            length = -(-max(size, PART) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
            if self.file is None:
                self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            self.file.truncate(self.end + length)
            self.part = mmap.mmap(self.file.fileno(), length, offset=self.end)
            self.start, self.used = self.end, 0
            _MAPPED.add(self.part)
            self.end += length
        at, self.used = self.used, self.used + -(-size // LINE) * LINE
        return self.part, at


_MAPPED: WeakSet[mmap.mmap] = WeakSet()
_read = 0


def rest(size: int) -> None:
    """So many bytes were read or written and will not be for a while."""
    global _read
    _read += size
    if _read < READ:
        return
    _read = 0
    for part in _MAPPED if hasattr(mmap, "MADV_DONTNEED") else ():
        part.madvise(mmap.MADV_DONTNEED)
    spare(FREE)


__all__ = ["FREE", "Spill", "Spilled", "rest"]
