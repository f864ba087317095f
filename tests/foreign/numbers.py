"""Formats and roundings, written again: numbers are float64 (or extended) values, bits are numpy's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Kind(NamedTuple):
    """Significand bits with the hidden one, smallest normal exponent, largest number, and whether it has infinities."""

    bits: int
    least: int
    most: float
    infinite: bool = True


KINDS = {
    "fp64": Kind(53, -1022, float(np.finfo(np.float64).max)), "fp32": Kind(24, -126, float(np.finfo(np.float32).max)),
    "fp16": Kind(11, -14, 65504.0), "bf16": Kind(8, -126, 255 * 2.0**120), "fp8e5": Kind(3, -14, 57344.0),
    "fp8e4nv": Kind(4, -6, 448.0, False), "tf32": Kind(11, -126, 2047 * 2.0**117), "e8m13": Kind(14, -126, 2.0**128),
}  # fmt: skip
_NATIVE: dict[str, Any] = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}


def exponent(x: Array, least: int) -> Array:
    """floor(log2 |x|), at least that of the smallest normal number."""
    found: Array = np.maximum(np.frexp(np.where(x == 0, 2.0**-1070, x))[1] - 1, least)
    return found


def rounded(x: Array, kind: str, how: str = "nearest", saturate: bool = False) -> Array:
    """x at the precision of a format: to nearest even, or cut ("zero"); past its largest number infinity, NaN where it
    has none, or that number."""
    k = KINDS[kind]
    with np.errstate(all="ignore"):
        step = np.ldexp(np.ones_like(x), exponent(x, k.least) - k.bits + 1)
        q = x / step
        y = (np.rint(q) if how == "nearest" else np.trunc(q)) * step
        over = np.abs(y) > k.most
        top = k.most if saturate or how == "zero" else np.inf if k.infinite else np.nan
        past = np.copysign(k.most if saturate else x, x)  # satfinite takes infinities to the largest number, too
        found: Array = np.where(np.isfinite(x), np.where(over, np.copysign(top, x), y), np.where(np.isnan(x), x, past))
    return found


def _bytes(kind: str) -> Array:
    """All 256 numbers of an fp8 format, by their bits."""
    k, out = KINDS[kind], np.empty(256)
    for code in range(256):
        e, m = code >> k.bits - 1 & (127 >> k.bits - 1), code & (1 << k.bits - 1) - 1
        x = np.ldexp(m + ((1 << k.bits - 1) if e else 0), max(e, 1) - 1 + k.least - k.bits + 1)
        if abs(x) > k.most:
            x = np.inf if k.infinite and m == 0 else np.nan
        out[code] = -x if code >> 7 else x
    return out


_BYTES = {kind: _bytes(kind) for kind in ("fp8e5", "fp8e4nv")}


def read(bits: Array, kind: str) -> Array:
    """Numbers of stored bits: native arrays, float32 for bf16, float64 for fp8."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    found: Array = _BYTES[kind][bits] if kind in _BYTES else bits
    return found


def stored(x: Array, kind: str, how: str = "nearest", saturate: bool = False) -> Array:
    """The bits of x, rounded to the format."""
    if kind in ("fp64", "fp32") and how == "nearest":
        return x.astype(_NATIVE[kind])
    y = rounded(np.asarray(x, np.float64 if x.dtype != np.longdouble else np.longdouble), kind, how, saturate)
    if kind in _NATIVE:
        return y.astype(_NATIVE[kind])
    if kind == "bf16":
        return (y.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    table = _BYTES[kind]
    at = {float(v): i for i, v in enumerate(table) if i < 128 and v == v}
    flat = [(at[abs(float(v))] if v == v else 127) | (128 if np.signbit(v) else 0) for v in y.reshape(-1)]
    return np.array(flat, np.uint8).reshape(y.shape)


def near(exact: Array, error: float, low: float, high: float, rng: np.random.Generator, kind: str = "fp32") -> Array:
    """Numbers of the format anywhere within the error of `exact`, from `low` to `high` of it (-1 to 1)."""
    native = _NATIVE[kind]
    with np.errstate(all="ignore"):
        if error <= 2.0 ** -KINDS[kind].bits:
            return exact.astype(native)  # correctly rounded
        reach = np.abs(exact) * error * (1 - 2.0**-20)
        out = (exact + rng.uniform(low, high, exact.shape) * reach).astype(native)
        for _ in range(2):  # rounding may have left the range: back towards the exact value
            out = np.where(np.abs(out - exact) <= reach, out, np.nextafter(out, exact.astype(native)))
        special = ~np.isfinite(exact) | (exact == 0) | (np.abs(out - exact) > reach)
        return np.where(special, exact.astype(native), out)
