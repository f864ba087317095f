"""Bounds of stored elements, valid while the stored bits are still those they were computed for.

A shadow holds (lo, hi, stamp) per element of one format; `born` is the tag of the access that created it. An element
counts as an exact point unless `stamp` equals the bits in memory, so whoever changes the bytes (host code, another
dtype's view) switches the old bounds off without telling us. Fresh shadows are all zeros: stamp 0 with bounds [0, 0] is
right for zero bits and void for any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from interval_ops.compiled import compiled, inlined
from render.interpreter.memory.operands import Bounded, Where


class ElementType(Protocol):
    """A number format, or an integer type."""

    @property
    def name(self) -> str: ...

    @property
    def bits(self) -> int: ...


@dataclass(slots=True)
class Shadow:
    fmt: ElementType
    lo: np.ndarray
    hi: np.ndarray
    stamp: np.ndarray
    born: int = 0
    among: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Of integers, by element: all that it may be, where that is known; of use while its least and greatest are the
    element's ends."""

    @classmethod
    def make(cls, fmt: ElementType, n: int) -> Shadow:
        return cls(fmt, np.zeros(n), np.zeros(n), np.zeros(n, np.dtype(f"u{fmt.bits // 8}")))

    def void(self, mem: np.ndarray, index: slice | np.ndarray) -> None:
        """Make the elements exact points again, whatever their bits are now or later."""
        self.lo[index] = np.nan
        self.hi[index] = np.nan
        self.stamp[index] = ~mem[index]


@inlined
def log2(n: int) -> int:
    """Exponent of a power of two: divisions by element sizes in a lane loop cost more than everything else."""
    e = 0
    while (1 << e) < n:
        e += 1
    return e


@compiled
def gather_bounds(
    where: Where, rows: tuple[int, int], other_lo: np.ndarray, other_hi: np.ndarray, mem: np.ndarray, bounded: Bounded,
    v: np.ndarray, lo: np.ndarray, hi: np.ndarray,
) -> bool:  # fmt: skip
    """Bounds of loaded lanes into `lo`, `hi` (flat), given their values `v`; True if any lane is not an exact point.

    Masked-off lanes take `other`'s bounds, walked by the strides of the two `rows`; lanes outside are left to the
    caller.
    """
    dims, st, ptr, mask, base, limit, size = where
    row_lo, row_hi = rows
    slo, shi, stamp, _ = bounded
    shift = log2(size)
    wide = False
    top = np.uint64(limit)
    n = 0
    for i in range(dims[0]):
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            a0 = i * st[row_lo, 0] + j * st[row_lo, 1]
            z0 = i * st[row_hi, 0] + j * st[row_hi, 1]
            for _ in range(dims[2]):
                if mask[m]:
                    off = np.uint64(ptr[p] - base)
                    x = np.float64(v[n])
                    lo[n] = x
                    hi[n] = x
                    if off < top:
                        k = off >> shift
                        if stamp[k] == mem[k]:
                            a, b = slo[k], shi[k]
                            lo[n] = a
                            hi[n] = b
                            if a != b or a != x:  # with causes muted a bound without width need not hold the value
                                wide = True
                else:
                    a, b = np.float64(other_lo[a0]), np.float64(other_hi[z0])
                    lo[n] = a
                    hi[n] = b
                    if a != b:
                        wide = True
                n += 1
                p += st[0, 2]
                m += st[1, 2]
                a0 += st[row_lo, 2]
                z0 += st[row_hi, 2]
    return wide


@compiled
def bounds_of(
    values: np.ndarray, bits: np.ndarray, bounded: Bounded, use_written: bool, written: np.ndarray, lo: np.ndarray,
    hi: np.ndarray, all_written: np.ndarray,
) -> None:  # fmt: skip
    """Bounds of elements into `lo`, `hi`, flat; NaN where `written` is not -1, and `all_written` is False there."""
    slo, shi, stamp, use_shadow = bounded
    for n in range(len(bits) if use_shadow else 0):  # without branches, so that it is vectorised
        x, live = np.float64(values[n]), stamp[n] == bits[n]
        a, z = slo[n], shi[n]
        lo[n] = a if live else x
        hi[n] = z if live else x
    for n in range(0 if use_shadow else len(bits)):
        lo[n] = hi[n] = np.float64(values[n])
    for n in range(len(bits) if use_written else 0):
        if written[n] != -1:
            lo[n] = hi[n] = np.nan
            all_written[n] = False


@compiled
def overlapping(where: Where, mem: np.ndarray, bounded: Bounded, events: np.ndarray) -> int:
    """Lanes whose bytes share memory with a live, non-point element of another format; their flat numbers.

    `mem` and `bounded` belong to that other format.
    """
    dims, st, ptr, mask, base, limit, size = where
    slo, shi, stamp, _ = bounded
    width = mem.itemsize
    top = np.uint64(limit)
    found = 0
    n = 0
    for i in range(dims[0]):
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            for _ in range(dims[2]):
                if mask[m]:
                    off = np.uint64(ptr[p] - base)
                    if off < top:
                        first = int(np.int64(off)) // width
                        last = (int(np.int64(off)) + size - 1) // width
                        for k in range(first, min(last + 1, len(mem))):
                            if stamp[k] == mem[k] and slo[k] != shi[k]:
                                events[found] = n
                                found += 1
                                break
                n += 1
                p += st[0, 2]
                m += st[1, 2]
    return found


def with_values(v: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bounds and the values between them, in new arrays; NaN where any of the three is."""
    out = np.empty((2, v.size))
    flat = [np.ascontiguousarray(np.broadcast_to(x, v.shape)).reshape(-1) for x in (v, lo, hi)]
    _join(flat[0], flat[1].astype(np.float64, copy=False), flat[2].astype(np.float64, copy=False), out[0], out[1])
    return out[0].reshape(v.shape), out[1].reshape(v.shape)


@compiled
def _join(v: np.ndarray, lo: np.ndarray, hi: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    for i in range(v.size):
        x, a, z = np.float64(v[i]), lo[i], hi[i]
        low[i] = x if x < a or x != x else a
        high[i] = x if x > z or x != x else z


def hull_of(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest of three arrays of one shape, in new ones; NaN where any is."""
    out, flat = np.empty((2, a.size)), [np.ascontiguousarray(x).reshape(-1) for x in (a, b, c)]
    _hull(flat[0], flat[1], flat[2], out[0], out[1])
    return out[0].reshape(a.shape), out[1].reshape(a.shape)


@compiled
def _hull(a: np.ndarray, b: np.ndarray, c: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    for i in range(a.size):
        x, y, z = np.float64(a[i]), np.float64(b[i]), np.float64(c[i])
        least, most = (x, y) if x < y else (y, x)
        nan = x + y + z if x != x or y != y or z != z else 0.0
        low[i] = nan if nan != 0.0 else z if z < least else least
        high[i] = nan if nan != 0.0 else z if z > most else most
