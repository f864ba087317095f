"""Bits of one type read as another, against torch and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
import triton.language as tl

from render.interpreter.builder.bits import bitcast

NARROW = {
    tl.float16: np.float16, tl.bfloat16: ml_dtypes.bfloat16,
    tl.float8e5: ml_dtypes.float8_e5m2, tl.float8e4nv: ml_dtypes.float8_e4m3fn,
}  # fmt: skip


@pytest.mark.parametrize("ty", NARROW, ids=str)
def test_every_pattern_of_a_narrow_float(ty) -> None:
    bits = ty.primitive_bitwidth
    codes = np.arange(2**bits, dtype=f"u{bits // 8}")
    whole = tl.dtype(f"uint{bits}")
    wanted = codes.view(NARROW[ty]).astype(np.float32)
    found = bitcast(codes, whole, ty)
    assert np.array_equal(found, wanted, equal_nan=True)
    kept = ~np.isnan(wanted)  # which NaN it was is no number's business
    assert np.array_equal(bitcast(wanted, ty, whole)[kept], codes[kept])


def test_wide_floats_and_truths() -> None:
    x = np.array([0.0, -0.0, 1.5, -np.inf], np.float32)
    assert np.array_equal(bitcast(x, tl.float32, tl.int32), torch.from_numpy(x).view(torch.int32).numpy())
    assert np.array_equal(bitcast(x.astype(np.float64), tl.float64, tl.int64), x.astype(np.float64).view(np.int64))
    assert bitcast(np.array([0, 1, -1], np.int8), tl.int8, tl.int1).tolist() == [False, True, True]
    assert bitcast(np.array([False, True]), tl.int1, tl.int8).tolist() == [0, 1]
