"""Fused multiply-add of numbers, rounded once to whatever format follows."""

from __future__ import annotations

import numpy as np

from interval_ops.arithmetic.hull import fused, sum_error
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import _bits, _float


@compiled
def odd_sum(p: float, z: float) -> float:
    """p + z in float64, rounded to odd: rounding that once more, to at most 51 bits, equals rounding the exact sum.

    Source: Boldo and Melquiond 2008, Emulation of a FMA and correctly rounded sums. Infinities and NaN as by addition.
    """
    s = p + z
    e = sum_error(p, z, s)
    if not (abs(e) > 0.0 and abs(s) < np.inf) or _bits(s) & 1:
        return s
    return _float(_bits(s) + (1 if (e > 0.0) == (s > 0.0) else -1))


@compiled
def _single(x, y, z, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = odd_sum(np.float64(x[i]) * np.float64(y[i]), np.float64(z[i]))


@compiled
def _double(x, y, z, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = fused(x[i], y[i], z[i])


def fma_value(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z in float64, to be rounded to the operands' format: to odd for float32 operands, else to nearest.

    Products of float32 numbers are exact in float64; arrays broadcast.
    """
    x, y, z = (np.ascontiguousarray(a) for a in np.broadcast_arrays(x, y, z))
    out = np.empty(x.shape)
    kernel = _single if x.dtype == y.dtype == z.dtype == np.float32 else _double
    kernel(x.reshape(-1), y.reshape(-1), z.reshape(-1), out.reshape(-1))
    return out
