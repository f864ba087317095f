"""What matrix units make of their operands before they multiply: single precision cut or rounded to TF32, small numbers
as zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops.bounds import Array

Reader = Callable[[Array], Array]
"""What a unit makes of its operands: monotone, keeps zero and the sign; larger magnitudes are the model's `growth`."""
Readers = tuple[Reader, ...]
"""A unit reads all its operands by one of them; none: as they are."""


def truncate_tf32(x: Array) -> Array:
    """x cut to 10 fraction bits towards zero, as the tensor core reads fp32; below 2**-126 multiples of 2**-136."""
    if x.dtype == np.float32:
        return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    cut = (x.view(np.uint64) & np.uint64(0xFFFFFC0000000000)).view(np.float64)
    small = np.abs(x) < 2.0**-126
    return np.where(small, np.trunc(x * 2.0**136) * 2.0**-136, cut) if small.any() else cut


def round_tf32(x: Array) -> Array:
    """x to 10 fraction bits, ties away from zero (PTX cvt.rna.tf32.f32); below 2**-126 to multiples of 2**-136."""
    if x.dtype == np.float32:
        bits = x.view(np.uint32)
        return np.where(np.isfinite(x), (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits).view(np.float32)
    bits = x.view(np.uint64)
    half, kept = np.uint64(1 << 41), np.uint64(0xFFFFFC0000000000)
    near = np.where(np.isfinite(x), (bits + half) & kept, bits).view(np.float64)
    small = np.abs(x) < 2.0**-126
    return np.where(small, np.trunc(x * 2.0**136 + np.copysign(0.5, x)) * 2.0**-136, near) if small.any() else near


def flush_small(x: Array, least: float) -> Array:
    """x with magnitudes below `least` replaced by zero."""
    small = np.abs(x) < least
    return np.where(small, x.dtype.type(0), x) if small.any() else x
