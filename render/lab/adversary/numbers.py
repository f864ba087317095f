"""Concrete arithmetic in the number formats: every function returns one legal value per lane, in the carrier.

Exact values are float64 numbers, or pairs of them, brought to odd before the last rounding where float64 is inexact:
rounding an odd 53-bit number to at most 51 bits equals rounding the exact one (Boldo and Melquiond 2008).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from interval_ops.formats.model import FP32, FP64, Format

Array = np.ndarray


def carrier(fmt: Format) -> np.dtype:
    return np.dtype(np.float64 if fmt.bits == 64 else np.float32)


def to_format(x: Array, fmt: Format, mode: str = "rtne", overflow: str = "inf") -> Array:
    """float64 numbers rounded once; modes rtne, rtz, away (to nearest, ties away from zero).

    `overflow`: what magnitudes past the largest finite value become (inf, nan, saturate); a format without inf has NaN
    in its place, one without NaN its largest value. Infinite operands overflow too; rtz keeps finite numbers finite.
    """
    x = np.asarray(x, np.float64)
    if fmt.bits == 64:
        return x
    if mode == "rtne" and fmt.name in ("fp32", "fp16") and overflow == "inf":
        return x.astype(np.float32) if fmt == FP32 else x.astype(np.float16).astype(np.float32)
    _, e = np.frexp(x)
    last = np.maximum(e - 1, fmt.emin) - fmt.p + 1
    scaled = np.ldexp(x, -last)
    if mode == "rtne":
        r = np.rint(scaled)
    elif mode == "rtz":
        r = np.trunc(scaled)
    else:
        whole = np.trunc(scaled)
        r = whole + np.where(np.abs(scaled - whole) >= 0.5, np.copysign(1.0, scaled), 0.0)
    out = np.ldexp(r, last)
    if mode == "rtz":
        out = np.where(np.isfinite(x), np.clip(out, -fmt.max, fmt.max), out)
    out = np.where(np.abs(out) > fmt.max, np.copysign(_beyond(fmt, overflow), x), out)
    out = np.where(np.isfinite(x) | ~np.isinf(x), out, np.copysign(_beyond(fmt, overflow), x))
    if not fmt.has_nan:
        out = np.where(np.isnan(out), fmt.max, out)
    found: Array = out.astype(np.float32)
    return found


def _beyond(fmt: Format, overflow: str) -> float:
    if overflow == "saturate":
        return fmt.max
    if overflow == "inf" and fmt.has_inf:
        return np.inf
    return np.nan if fmt.has_nan else fmt.max


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y = s + e exactly (Knuth), where nothing overflows."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """x * y = p + e exactly (Dekker, Veltkamp), where nothing over- or underflows."""
    p = x * y
    (xh, xl), (yh, yl) = _split(x), _split(y)
    return p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl


def _split(x: Array) -> tuple[Array, Array]:
    c = 134217729.0 * x
    high = c - (c - x)
    return high, x - high


def odd_sum(x: Array, y: Array) -> Array:
    """x + y rounded to odd: the last bit of an inexact sum is set."""
    s, e = two_sum(x, y)
    inexact = (e != 0) & np.isfinite(e) & np.isfinite(s)
    if not inexact.any():
        return s
    even = (np.ascontiguousarray(s).view(np.int64) & 1) == 0
    away = np.nextafter(s, np.where(e > 0, np.inf, -np.inf))
    return np.where(inexact & even, away, s)


def add(x: Array, y: Array, fmt: Format, overflow: str = "inf") -> Array:
    if fmt in (FP32, FP64):
        found: Array = np.add(x, y, dtype=carrier(fmt))
        return found
    return to_format(odd_sum(_wide(x), _wide(y)), fmt, "rtne", overflow)


def mul(x: Array, y: Array, fmt: Format, overflow: str = "inf") -> Array:
    if fmt in (FP32, FP64):
        found: Array = np.multiply(x, y, dtype=carrier(fmt))
        return found
    return to_format(_wide(x) * _wide(y), fmt, "rtne", overflow)


def fma(x: Array, y: Array, z: Array, fmt: Format, overflow: str = "inf") -> Array:
    """x * y + z with one rounding."""
    x, y, z = (_wide(a) for a in (x, y, z))
    if fmt == FP64:
        return _fma64(x, y, z)
    return to_format(odd_sum(x * y, z), fmt, "rtne", overflow)


def _fma64(x: Array, y: Array, z: Array) -> Array:
    """Boldo and Melquiond: the three exact parts, the two low ones added to odd."""
    shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
    high, low = two_product(x, y)
    th, tl = two_sum(z, low)
    vh, vl = two_sum(high, th)
    out = np.broadcast_to(vh + odd_sum(tl, vl), shape)
    largest = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.maximum(np.abs(z), np.abs(high)))
    hard = (x != 0) & (y != 0) & ~((largest < 2.0**990) & (np.abs(high) > 2.0**-960))
    hard |= ~np.isfinite(out)
    if not hard.any():
        return out
    out = np.where(np.isfinite(x) & np.isfinite(y) & np.isfinite(z), out, _unbounded(x, y, z))
    at = np.argwhere(hard & np.isfinite(x) & np.isfinite(y) & np.isfinite(z))
    a, b, c = (np.broadcast_to(v, shape) for v in (x, y, z))
    for i in map(tuple, at):
        out[i] = _nearest64(Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i])))
    return out


def _unbounded(x: Array, y: Array, z: Array) -> Array:
    """x * y + z where one of them is infinite or NaN: a finite product does not overflow before it is added."""
    product = np.where(np.isfinite(x) & np.isfinite(y), 0.0, x * y)
    found: Array = product + z
    return found


def _nearest64(x: Fraction) -> float:
    try:
        return float(x)  # a quotient of integers is rounded correctly
    except OverflowError:
        return np.inf if x > 0 else -np.inf


def _wide(x: Array) -> Array:
    return np.asarray(x, np.float64)


def subnormal(x: Array, fmt: Format = FP32) -> Array:
    found: Array = (np.abs(x) < fmt.min_normal) & (x != 0)
    return found


def truncate_fraction(x: Array, bits: int) -> Array:
    """float32 numbers with all but `bits` of their 23 fraction bits cleared (as raw bits are read)."""
    mask = np.uint32((0xFFFFFFFF << (23 - bits)) & 0xFFFFFFFF)
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & mask).view(np.float32)


def nearest_fraction(x: Array, bits: int) -> Array:
    """float32 numbers to the nearest with `bits` fraction bits, ties away from zero."""
    step = 2.0 ** (np.frexp(np.abs(np.asarray(x, np.float64)))[1] - 1 - bits)
    wide = np.asarray(x, np.float64)
    near = np.copysign(np.floor(np.abs(wide) / step + 0.5) * step, wide)
    return np.where(np.isfinite(wide), near, wide).astype(np.float32)
