"""Pages of libraries that a process has touched and does not need to keep mapped."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

_MADV_DONTNEED = 4  # sys/mman.h of Linux
_LEAST = 1 << 20


def forget_code() -> None:
    """Unmaps the pages of executable code until they are run again (from the system's cache of the file).

    Importing torch, Triton and LLVM touches some 150 MB of code that the server never runs again and its children run
    little of. Only mappings that nothing can have written to (`r-xp` of a file): relocated data must stay.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError):  # not Linux: nothing to do
        libc = ctypes.CDLL("libc.so.6")
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in _code():
            libc.madvise(start, end - start, _MADV_DONTNEED)


def _code() -> Iterator[tuple[int, int]]:
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, permissions, _, _, inode, *_ = line.split()
            start, end = (int(x, 16) for x in span.split("-"))
            if permissions == "r-xp" and inode != "0" and end - start >= _LEAST:
                yield start, end
