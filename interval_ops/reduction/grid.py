"""Numbers on a common grid: sums that no order of additions can round.

Terms that are all multiples of a power of two q have partial sums that are multiples of q, in any order and grouping.
A format with p significand bits holds every multiple of q up to 2^p q, so where the magnitudes sum to no more than that
(and q is no finer than the subnormals) every partial sum is exact. Integers, fp8 data, quantised weights are like that.
A matrix unit that aligns terms to the exponent e and cuts below 2^(e-F) cuts nothing off multiples of q >= 2^(e-F).
Source: Rump, Ogita and Oishi 2008, Accurate floating-point summation, part I, lemma 2.2 (a + b is a multiple of the
common unit, hence representable while it stays below 2^p units).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.compiled import compiled, inlined
from interval_ops.formats.rounding import _bits, _float

Array = np.ndarray[Any, Any]

_FRACTION = 0x000FFFFFFFFFFFFF
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF
_INFINITE = 0x7FF0000000000000


@inlined
def _pattern(x: float) -> int:
    """Bits of `last_bit`: patterns of non-negative numbers are ordered like the numbers, and integers vectorise."""
    bits = _bits(x) & _MAGNITUDE
    rest = _float(bits & (bits - 1))  # the last bit of the significand cleared
    found = _bits(_float(bits) - rest) if bits & _FRACTION else bits
    return found if bits > 0 else _INFINITE


@inlined
def last_bit(x: float) -> float:
    """The largest power of two that divides x; infinity for 0 (and for infinities)."""
    return _float(_pattern(x))


@compiled
def _each(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = last_bit(x[i])


@compiled
def row_grid(x, out):  # type: ignore[no-untyped-def]
    """Smallest `last_bit` per row of (slices, rows, columns), float32 or float64, into (slices, rows)."""
    for g in range(x.shape[0]):
        for i in range(x.shape[1]):
            least = _INFINITE
            for k in range(x.shape[2]):
                least = min(least, _pattern(np.float64(x[g, i, k])))
            out[g, i] = _float(least)


@compiled
def column_grid(x, out):  # type: ignore[no-untyped-def]
    """As `row_grid` per column, into (slices, columns)."""
    least = np.empty(x.shape[2], np.int64)
    for g in range(x.shape[0]):
        least[:] = _INFINITE
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                least[j] = min(least[j], _pattern(np.float64(x[g, k, j])))
        for j in range(x.shape[2]):
            out[g, j] = _float(least[j])


def last_bits(x: Array) -> Array:
    """`last_bit` of every element, float64."""
    dense = np.ascontiguousarray(x, np.float64)
    out = np.empty(dense.shape)
    _each(dense.reshape(-1), out.reshape(-1))
    return out
