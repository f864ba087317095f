"""Keeps the C allocator from giving freed large blocks back to the system.

Every temporary of a few megabytes would otherwise be mapped and unmapped anew, and the page faults of fresh memory cost
several times what the arithmetic on it costs.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Iterator
from functools import cache

_OPTIONS = (-3, -1, -2)  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD of glibc's malloc.h
_LARGEST = 64 << 20
"""Whole tensors from here on are few: they are mapped, so that the holes they would leave do not add up."""
_GROW = (1 << 30, (1 << 31) - 1, 64 << 20)
_KEEP = (_LARGEST, *_GROW[1:])
_SPARSE = (8 << 20, *_GROW[1:])
RETAINED = 384 << 20
"""Free memory that stays with the process between classifications: memory that the system gives anew is cleared first,
and on a virtual machine may have to come from its host."""
_SOON = 128 << 10
_AHEAD = 256 << 20
_PAGE = 4096
_MADV_HUGEPAGE = 14  # sys/mman.h of Linux
_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_depth = 0


@contextlib.contextmanager
def large_blocks_kept(kept: int = RETAINED) -> Iterator[None]:
    """Inside, freed memory stays with the process; the outermost scope gives it back if more than `kept` is free.
    Scopes nest."""
    global _depth
    if _depth == 0:
        _configure(_GROW)
        _prefer_huge_pages()
        _configure(_KEEP)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _configure((_SOON, kept, _SOON))
            spare(kept)


@contextlib.contextmanager
def large_blocks_mapped() -> Iterator[None]:
    """Inside, blocks of 8 MB and more are mapped anew: of memory that is hardly touched, only the touched pages count.

    For a run of a few programs out of many; where every page is touched, this is what `large_blocks_kept` avoids.
    """
    if _depth == 0:
        yield
        return
    _configure(_SPARSE)
    try:
        yield
    finally:
        _configure(_KEEP)


def trim() -> None:
    """Gives back what is free now, also inside `large_blocks_kept`: for the end of a phase that needed much."""
    with contextlib.suppress(OSError, AttributeError):
        _library().malloc_trim(0)


def spare(kept: int = RETAINED) -> None:
    """As `trim`, where it is more than what stays: between steps that soon need as much again."""
    if (own := resident()) > kept and own - _used() > kept:
        trim()


@contextlib.contextmanager
def little_kept(large: bool) -> Iterator[None]:
    """Around a `large` step that works in other sizes than what comes before and after it: nearly all that is free is
    given back on both sides of it."""
    if large:
        spare(_LARGEST)
    try:
        yield
    finally:
        if large:
            spare(_LARGEST)


def resident() -> int:
    """Bytes of memory that no file backs and this process has touched; more than any limit where nobody says.

    The allocator counts what it holds piece by piece, which takes longer than a small launch.
    """
    try:
        with open("/proc/self/statm", "rb") as pages:
            _, touched, of_files, *_ = map(int, pages.read().split())
    except (OSError, ValueError):
        return 1 << 62
    return (touched - of_files) * mmap.PAGESIZE


@cache
def _library() -> ctypes.CDLL:
    """The C library; OSError where it is another one than glibc."""
    libc = ctypes.CDLL("libc.so.6")
    libc.malloc.restype, libc.malloc.argtypes = _POINTER, (_SIZE,)
    libc.free.argtypes = (_POINTER,)
    libc.madvise.argtypes = (_POINTER, _SIZE, _INT)
    return libc


class _Statistics(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    ))  # fmt: skip


def _used() -> int:
    """Bytes that somebody holds of the allocator's; 0 where it does not say. What it holds for reuse it may never have
    touched, so that this says nothing of what is resident."""
    try:
        libc = _library()
        libc.mallinfo2.restype = _Statistics
        found = libc.mallinfo2()
        return int(found.uordblks + found.hblkhd)
    except (OSError, AttributeError):
        return 0


def _configure(values: tuple[int, int, int]) -> None:
    with contextlib.suppress(OSError, AttributeError):  # another C library: its own behaviour stays
        libc = _library()
        for option, value in zip(_OPTIONS, values, strict=True):
            libc.mallopt(option, value)


def _prefer_huge_pages() -> None:
    """Asks for 2 MiB pages in what the heap will grow into: a block is advised and freed without being touched.

    numpy asks for them itself only for arrays of 4 MiB and more, so temporaries below would fault page by page.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = _library()
        block = libc.malloc(_AHEAD)
        if block:
            start = -(-block // _PAGE) * _PAGE
            libc.madvise(start, (block + _AHEAD - start) // _PAGE * _PAGE, _MADV_HUGEPAGE)
            libc.free(block)
