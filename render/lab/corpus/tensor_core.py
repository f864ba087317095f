"""What a tensor core returns for a matrix product: the published block-FMA model, element by element.

A block takes L products and the accumulator, aligns them to the largest exponent among them, truncates each to F
fraction bits, adds exactly and truncates the sum to the accumulator's fraction bits; blocks follow each other along K.
Exponents of products are sums of operand exponents (significands of products lie in [1, 4)), zeros do not take part.
Source: MMA-Sim, arXiv 2511.10909; Khattak and Mikaitis, arXiv 2512.07004. This is a model of hardware: nothing that
comes out of it has been measured. Trap: it describes one order of K; hardware may deal products to blocks otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

_ABSENT = -(1 << 20)


@dataclass(frozen=True)
class OperandFormat:
    """Fraction bits and smallest exponent of a multiplicand's format."""

    fraction: int
    emin: int


@dataclass(frozen=True)
class TensorCoreUnit:
    """L products per block, F aligned fraction bits, fraction bits kept of each block's result."""

    block: int
    aligned: int
    operand: OperandFormat
    kept: int = 23


TF32, FP16, E5M2 = OperandFormat(10, -126), OperandFormat(10, -14), OperandFormat(2, -14)
UNITS: dict[str, TensorCoreUnit] = {
    "sm_80-tf32": TensorCoreUnit(4, 24, TF32),
    "sm_90-tf32": TensorCoreUnit(8, 25, TF32),
    "sm_80-fp16": TensorCoreUnit(8, 24, FP16),
    "sm_90-fp16": TensorCoreUnit(16, 25, FP16),
    "sm_89-fp8": TensorCoreUnit(16, 13, E5M2, kept=13),
    "sm_90-fp8": TensorCoreUnit(32, 13, E5M2, kept=13),
}


def truncate_tf32(x: np.ndarray) -> np.ndarray:
    """float32 with the low 13 fraction bits dropped, as a unit reads raw registers."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def multiply(a: np.ndarray, b: np.ndarray, unit: TensorCoreUnit) -> np.ndarray:
    """float32 a @ b through `unit`, starting from a zero accumulator. The operands must be values of its format."""
    rows, back_rows = _distinct(np.ascontiguousarray(a, np.float32))
    cols, back_cols = _distinct(np.ascontiguousarray(b.T, np.float32))
    ma, ea = _split(rows, unit.operand)
    mb, eb = _split(np.ascontiguousarray(cols.T), unit.operand)
    shift = unit.aligned - 2 * unit.operand.fraction
    out = _run(ma, ea, mb, eb, unit.block, unit.aligned, shift, unit.kept)
    # Equal rows give equal results: the constant inputs of one case shrink to a single dot product.
    found: np.ndarray = out[np.ix_(back_rows, back_cols)].astype(np.float32)
    return found


def _distinct(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """(distinct rows in order of appearance, which of them each row is), by bits."""
    seen: dict[bytes, int] = {}
    which = [seen.setdefault(row.tobytes(), len(seen)) for row in x]
    return x[np.unique(which, return_index=True)[1]], which


def _split(x: np.ndarray, operand: OperandFormat) -> tuple[np.ndarray, np.ndarray]:
    """(m, e): x = m * 2**(e - fraction), e at least emin (subnormals stay unnormalised), marked absent for zeros."""
    e = np.maximum(np.frexp(x)[1] - 1, operand.emin)
    scaled = np.ldexp(x.astype(np.float64), operand.fraction - e)
    m = scaled.astype(np.int64)
    if (m != scaled).any():
        raise ValueError("an operand is not a value of the unit's format")
    return m, np.where(m == 0, _ABSENT, e).astype(np.int64)


@njit(cache=True, nogil=True)
def _run(ma, ea, mb, eb, block, aligned, shift, kept):  # type: ignore[no-untyped-def]
    rows, inner = ma.shape
    cols = mb.shape[1]
    out = np.zeros((rows, cols))
    drop = np.int64(-1) << (52 - kept)
    top = np.empty(cols, np.int64)
    total = np.empty(cols, np.int64)
    scale = np.empty(4096)
    for i in range(4096):
        scale[i] = 2.0 ** (i - 2048) if -1070 < i - 2048 < 1020 else 0.0
    for r in range(rows):
        acc = out[r]
        bits = acc.view(np.int64)
        for start in range(0, inner, block):
            stop = min(start + block, inner)
            for c in range(cols):
                e = ((bits[c] >> 52) & 0x7FF) - 1023
                top[c] = _ABSENT if acc[c] == 0.0 else max(e, -126)
            for k in range(start, stop):
                for c in range(cols):
                    top[c] = max(top[c], ea[r, k] + eb[k, c])
            for c in range(cols):
                e = ((bits[c] >> 52) & 0x7FF) - 1023
                magnitude = (bits[c] & 0xFFFFFFFFFFFFF) | 0x10000000000000
                magnitude = (magnitude >> (52 - aligned)) >> min(max(top[c] - e, 0), 63)
                total[c] = 0 if acc[c] == 0.0 else -magnitude if bits[c] < 0 else magnitude
            for k in range(start, stop):
                m, e = ma[r, k], ea[r, k]
                for c in range(cols):
                    p = m * mb[k, c]
                    cut = (abs(p) << shift) >> min(top[c] - e - eb[k, c], 63)
                    total[c] += cut if p >= 0 else -cut
            for c in range(cols):
                unit = top[c] - aligned
                acc[c] = 0.0 if total[c] == 0 else total[c] * scale[unit + 2048]
            for c in range(cols):
                bits[c] &= drop
                if abs(acc[c]) < 2.0**-126:
                    grain = 2.0 ** (126 + kept)
                    acc[c] = np.trunc(acc[c] * grain) / grain
    return out
