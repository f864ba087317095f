"""Conversions to fp8 as Triton lowered them before 3.9: its integer code, as read in the PTX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops.formats.model import FORMATS, FP8E5, Format
from render.lab.adversary import numbers
from render.lab.adversary.numbers import Array

Convert = Callable[[Array], Array]

CHANGED = (3, 9)
"""The first version that converts otherwise."""

_SOFTWARE = ("sm_70", "sm_75", "sm_80", "sm_86")


def variants(target: str, triton: tuple[int, int], src: Format, dst: Format) -> dict[str, Convert | None]:
    """What the target may do, by name; None stands for the conversion of today. Empty where nothing has changed."""
    if triton >= CHANGED or src.name not in ("fp32", "fp16", "bf16"):
        return {}
    found: dict[str, Convert | None] = {}
    if target in (*_SOFTWARE, "any") and dst == FP8E5:
        found["software"] = {"fp32": _from_fp32, "fp16": _from_fp16, "bf16": _from_bf16}[src.name]
    if target in ("sm_89", "any") and src.name == "fp32" and dst.name in ("fp8e5", "fp8e4nv"):
        found["twice"] = lambda x: _twice(x, dst)
    return {**found, "as later": None} if found and target == "any" else found


def _e5m2(bits: Array) -> Array:
    from ml_dtypes import float8_e5m2

    found: Array = (bits & 0xFF).astype(np.uint8).view(float8_e5m2).astype(np.float32)
    return found


def _from_fp16(x: Array) -> Array:
    """and 0xfffe; add 0x0080; the upper byte."""
    bits = np.ascontiguousarray(x.astype(np.float16)).view(np.uint16).astype(np.uint32)
    return _e5m2(((bits & 0xFFFE) + 0x80) >> 8)


def _from_fp32(x: Array) -> Array:
    """cvt.rz.f16.f32, then as from fp16."""
    return _from_fp16(numbers.to_format(x, FORMATS["fp16"], "rtz"))


def _from_bf16(x: Array) -> Array:
    """Magnitude clamped to [0x3800, 0x57e0], plus 0x10 minus 0x3800, shifted left by 3; upper byte, with the sign."""
    bits = np.ascontiguousarray(x.astype(np.float32)).view(np.uint32) >> 16
    magnitude = np.clip(bits & 0x7FFF, 0x3800, 0x57E0) + 0x10 - 0x3800
    return _e5m2((((magnitude << 3) >> 8) & 0xFF) | ((bits >> 8) & 0x80))


def _twice(x: Array, dst: Format) -> Array:
    """cvt.rz.f16.f32, then cvt.rn.satfinite."""
    return numbers.to_format(numbers.to_format(x, FORMATS["fp16"], "rtz"), dst, "rtne", "saturate")
