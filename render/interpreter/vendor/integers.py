"""Library functions of integers, exact on the value lane. Source: CUDA Math API, integer intrinsics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from render.interpreter.builder.words import high_product

Value = Callable[..., np.ndarray]


def _unsigned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def _bits(x: np.ndarray) -> np.ndarray:
    """Bits of each integer along a last axis, lowest first."""
    raw = _unsigned(x)[..., None]
    found: np.ndarray = (raw >> np.arange(8 * x.dtype.itemsize, dtype=raw.dtype)) & raw.dtype.type(1)
    return found


def _clz(x: np.ndarray) -> np.ndarray:
    bits = _bits(x)[..., ::-1]
    found: np.ndarray = np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1]).astype(np.int32)
    return found


def _popc(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.bitwise_count(_unsigned(x)).astype(np.int32)
    return found


def _ffs(x: np.ndarray) -> np.ndarray:
    """One more than the place of the lowest set bit, 0 for 0."""
    bits = _bits(x)
    return np.where(bits.any(-1), bits.argmax(-1) + 1, 0).astype(np.int32)


def _brev(x: np.ndarray) -> np.ndarray:
    bits = _bits(x)[..., ::-1]
    weights = bits.dtype.type(1) << np.arange(bits.shape[-1], dtype=bits.dtype)
    found: np.ndarray = (bits * weights).sum(-1, dtype=bits.dtype).view(x.dtype)
    return found


def _byte_perm(x: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Four bytes of the eight of (y, x), chosen by the low three bits of each nibble of s."""
    pool = _unsigned(x).astype(np.uint64) | (_unsigned(y).astype(np.uint64) << np.uint64(32))
    out = np.zeros(np.broadcast_shapes(pool.shape, s.shape), np.uint64)
    for i in range(4):
        which = (_unsigned(s).astype(np.uint64) >> np.uint64(4 * i)) & np.uint64(7)
        out |= ((pool >> (which * np.uint64(8))) & np.uint64(0xFF)) << np.uint64(8 * i)
    return out.astype(np.uint32).view(np.int32)


def _mulhi(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    high = high_product(_unsigned(x), _unsigned(y))
    if x.dtype.kind == "i":
        # Two's complement: each negative factor added 2^bits times the other one.
        high = high - np.where(x < 0, _unsigned(y), 0).astype(high.dtype)
        high = high - np.where(y < 0, _unsigned(x), 0).astype(high.dtype)
    return high.view(x.dtype)


def _mul24(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Low 32 bits of the product of the low 24 bits, sign-extended if signed."""
    wide = np.int64 if x.dtype.kind == "i" else np.uint64
    a, b = ((v.astype(np.int32) << np.int32(8) >> np.int32(8)) if wide is np.int64 else v & np.uint32(0xFFFFFF)
            for v in (x, y))  # fmt: skip
    return (a.astype(wide) * b.astype(wide)).astype(x.dtype)


def _sad(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """|x - y| + z modulo 2^32."""
    return (np.abs(x.astype(np.int64) - y.astype(np.int64)) + z.astype(np.int64)).astype(np.uint32).view(x.dtype)


def _half_sum(extra: int) -> Value:
    """(x + y + extra) >> 1 without overflow."""
    return lambda x, y: ((x.astype(np.int64) + y.astype(np.int64) + extra) >> 1).astype(x.dtype)


VALUES: dict[str, Value] = {
    "clz": _clz, "popc": _popc, "ffs": _ffs, "brev": _brev, "byte_perm": _byte_perm, "mulhi": _mulhi, "mul24": _mul24,
    "sad": _sad, "hadd": _half_sum(0), "rhadd": _half_sum(1), "abs": np.abs,
}  # fmt: skip
