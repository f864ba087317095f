"""Bit patterns of every format and the numbers they stand for: decode and encode, both exact.

A number travels in a carrier: float32 for every format but fp64, which needs float64. Formats of at most 16 bits are
read from a lookup table that is computed from the format's parameters; wider ones are a change of view. Nothing here
rounds: `encode` expects numbers that the format holds (round first, see `casting.round_value`).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from interval_ops.compiled import compiled
from interval_ops.formats.model import BF16, FORMATS, Format
from interval_ops.formats.rounding import _bits, _float

STORAGE: dict[str, np.dtype] = {name: np.dtype(f"uint{max(8, fmt.bits)}") for name, fmt in FORMATS.items()}
"""Unsigned integer dtype of one stored element; e2m1 stands alone in the low four bits of a byte."""

_NAN_BITS = {
    "fp16": 0x7E00,
    "bf16": 0x7FC0,
    "fp8e5": 0x7F,
    "fp8e4nv": 0x7F,
    "fp8e4b8": 0x80,
    "fp8e5b16": 0x80,
    "e8m0": 0xFF,
}


def carrier(fmt: Format) -> np.dtype:
    """The dtype in which numbers of `fmt` are computed with: float64 for fp64, float32 for all others."""
    return np.dtype(np.float64 if fmt.name == "fp64" else np.float32)


@cache
def lut(fmt: Format) -> np.ndarray:
    """Value of each of the 2**bits patterns of a format of at most 16 bits (float32, read-only).

    value = (-1)**s * 2**(E - bias) * (1 + m / 2**(p-1)), and (-1)**s * 2**emin * m / 2**(p-1) where E = 0.
    Source: the documents named in `formats`. A common mistake: 0x7F of fp8e4b15 is called 1.75 in a comment of Triton,
    but the instructions that Triton emits (shift into fp16) read it as 1.875.
    """
    if fmt.bits > 16:
        raise ValueError(f"{fmt.name} has no table: {fmt.bits} bits")
    code = np.arange(2**fmt.bits)
    values = np.ldexp(1.0, code - fmt.bias) if fmt.name == "e8m0" else _decode_fields(code, fmt)
    if fmt.has_nan:
        values[_is_nan(code, fmt)] = np.nan
    if fmt.has_inf:
        top = _exponent_field(fmt) << (fmt.p - 1)
        values[top], values[top | 1 << (fmt.bits - 1)] = np.inf, -np.inf
    table = values.astype(np.float32)
    table.flags.writeable = False
    return table


def _exponent_field(fmt: Format) -> int:
    """The exponent field with all bits set."""
    return 2 ** (fmt.bits - fmt.p) - 1


def _decode_fields(code: np.ndarray, fmt: Format) -> np.ndarray:
    mantissa_bits = fmt.p - 1
    mantissa = code & (2**mantissa_bits - 1)
    exponent = (code >> mantissa_bits) & _exponent_field(fmt)
    significand = np.where(exponent > 0, mantissa + 2**mantissa_bits, mantissa)
    magnitude = np.ldexp(significand.astype(np.float64), np.maximum(exponent - fmt.bias, fmt.emin) - mantissa_bits)
    return np.where(code >> (fmt.bits - 1) == 1, -magnitude, magnitude)


def _is_nan(code: np.ndarray, fmt: Format) -> np.ndarray:
    if not fmt.has_neg_zero:
        return code == _NAN_BITS[fmt.name]
    magnitude = code & (2 ** (fmt.bits - 1) - 1)
    if fmt.has_inf:
        return magnitude > _exponent_field(fmt) << (fmt.p - 1)
    return magnitude == 2 ** (fmt.bits - 1) - 1


def decode(bits: np.ndarray, fmt: Format) -> np.ndarray:
    """The numbers that the patterns `bits` (dtype `STORAGE[fmt.name]`) stand for, in the carrier; same shape.

    NaN payloads survive in bf16 and wider formats. Wide formats return a view where the memory allows it.
    """
    bits = np.asarray(bits, STORAGE[fmt.name])
    if fmt.bits >= 32:
        return bits.view(carrier(fmt))
    if fmt.name == "fp16":
        out = np.empty(bits.size, np.float32)
        _unpack_fp16(np.ascontiguousarray(bits).reshape(-1), out)
        return out.reshape(bits.shape)
    if fmt.name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if fmt.name == "e2m1":
        bits = bits & np.uint8(0x0F)
    return lut(fmt)[bits]


def encode(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Bit patterns (dtype `STORAGE[fmt.name]`) of numbers that `fmt` holds exactly; same shape.

    32 and 64 bit formats keep NaN payloads; narrower ones write one quiet NaN. -0 becomes 0 where the format has no -0.
    Infinities and NaN become NaN, or the largest magnitude, in a format without them.
    """
    values = np.asarray(values)
    if fmt.bits >= 32:
        return np.ascontiguousarray(values, carrier(fmt)).view(STORAGE[fmt.name]).reshape(values.shape)
    wide = np.ascontiguousarray(values, np.float32 if values.dtype != np.float64 else np.float64)
    out = np.empty(wide.size, STORAGE[fmt.name])
    if fmt == BF16:
        _pack_bf16(wide.astype(np.float32, copy=False).reshape(-1).view(np.uint32), out)
    elif fmt.name == "e8m0":
        _pack_scale(wide.reshape(-1), out)
    else:
        _pack(wide.reshape(-1), out, *_packing(fmt))
    return out.reshape(values.shape)


def _packing(fmt: Format) -> tuple[int, int, int, float, int, int, int]:
    """(mantissa bits, bias, emin, 1/min_subnormal, sign bit, code of inf, code of NaN), the last two without sign."""
    nan = _NAN_BITS.get(fmt.name, encode_max(fmt))
    infinity = _exponent_field(fmt) << (fmt.p - 1) if fmt.has_inf else nan
    return fmt.p - 1, fmt.bias, fmt.emin, 1.0 / fmt.min_subnormal, 1 << (fmt.bits - 1), infinity, nan


def encode_max(fmt: Format) -> int:
    """Bit pattern of the largest finite value."""
    return int(np.flatnonzero(lut(fmt) == np.float32(fmt.max))[0])


@compiled
def _pack(x, out, mantissa_bits, bias, emin, per_subnormal, sign, infinity, nan):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        v = float(x[i])
        bits = _bits(v)
        exponent = ((bits >> 52) & 0x7FF) - 1023
        if math.isnan(v):
            code = nan
        elif exponent == 1024:
            code = infinity
        elif exponent < emin:
            code = int(abs(v) * per_subnormal)
        else:
            code = ((exponent + bias) << mantissa_bits) | ((bits >> (52 - mantissa_bits)) & ((1 << mantissa_bits) - 1))
        if bits < 0 and not math.isnan(v) and not (nan == sign and (code == 0 or code == nan)):
            code |= sign
        out[i] = code


@compiled
def _unpack_fp16(bits, out):  # type: ignore[no-untyped-def]
    """Exponent and mantissa moved to their place in float64, then scaled by the difference of the biases."""
    for i in range(bits.size):
        code = np.int64(bits[i])
        magnitude = _float((code & 0x7FFF) << 42) * 2.0**1008
        magnitude = math.inf if magnitude == 65536.0 else magnitude
        magnitude = math.nan if 65536.0 < magnitude < math.inf else magnitude
        out[i] = -magnitude if code & 0x8000 else magnitude


@compiled
def _pack_bf16(bits, out):  # type: ignore[no-untyped-def]
    for i in range(bits.size):
        out[i] = 0x7FC0 if (bits[i] & 0x7FFFFFFF) > 0x7F800000 else bits[i] >> 16


@compiled
def _pack_scale(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        v = float(x[i])
        finite = v > 0.0 and v < 3.5e38
        out[i] = ((_bits(v) >> 52) & 0x7FF) - 1023 + 127 if finite else 0xFF
