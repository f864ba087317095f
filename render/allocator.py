"""Keeps the C allocator from giving freed large blocks back to the system.

Every temporary of a few megabytes would otherwise be mapped and unmapped anew, and the page faults of fresh memory cost
several times what the arithmetic on it costs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_OPTIONS = (-3, -1, -2)  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD of glibc's malloc.h
_KEEP = (1 << 30, (1 << 31) - 1, 64 << 20)
_DEFAULT = (128 << 10, 128 << 10, 128 << 10)
_depth = 0


@contextlib.contextmanager
def large_blocks_kept() -> Iterator[None]:
    """Inside, freed memory stays with the process; the outermost scope gives it back. Scopes nest."""
    global _depth
    if _depth == 0:
        _configure(_KEEP)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _configure(_DEFAULT, trim=True)


def _configure(values: tuple[int, int, int], trim: bool = False) -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # another C library: its own behaviour stays
        libc = ctypes.CDLL("libc.so.6")
        for option, value in zip(_OPTIONS, values, strict=True):
            libc.mallopt(option, value)
        if trim:
            libc.malloc_trim(0)
