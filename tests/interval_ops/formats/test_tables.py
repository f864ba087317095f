"""Bit patterns against ml_dtypes, torch and the definition of each format."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
import torch
from support import exact, rng, special_values, trials

from interval_ops.formats import tables
from interval_ops.formats.model import E2M1, E8M0, FORMATS, FP8E4B15, FP8E4NV, FP8E5, FP16, FP32, FP64, Format

ML_TYPES = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
TORCH_TYPES = {
    "fp8e5": torch.float8_e5m2,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
    "e8m0": torch.float8_e8m0fnu,
}
NARROW = [f for f in FORMATS.values() if f.bits <= 16]


def patterns(fmt: Format) -> np.ndarray:
    return np.arange(2**fmt.bits).astype(tables.STORAGE[fmt.name])


def numbers_equal(a: np.ndarray, b: np.ndarray) -> None:
    """Equal as numbers, NaN to NaN, and with the same sign of zero."""
    np.testing.assert_array_equal(a, b)
    number = ~np.isnan(a)
    np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]))


@pytest.mark.parametrize("name", ML_TYPES)
def test_decode_equals_ml_dtypes(name: str) -> None:
    fmt = FORMATS[name]
    numbers_equal(tables.decode(patterns(fmt), fmt), patterns(fmt).view(ML_TYPES[name]).astype(np.float32))


@pytest.mark.parametrize("name", TORCH_TYPES)
def test_decode_equals_torch(name: str) -> None:
    fmt = FORMATS[name]
    expected = torch.from_numpy(patterns(fmt)).view(TORCH_TYPES[name]).float().numpy()
    numbers_equal(tables.decode(patterns(fmt), fmt), expected)


@pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
def test_table_is_decode(fmt: Format) -> None:
    numbers_equal(tables.lut(fmt), tables.decode(patterns(fmt), fmt))


def test_fp8e4b15_reads_as_its_bits_shifted_into_fp16() -> None:
    """Triton's own conversion: the seven low bits move to bits 7..13 of fp16, the sign to bit 15."""
    code = patterns(FP8E4B15).astype(np.uint16)
    shifted = ((code & 0x80) << 8) | ((code & 0x7F) << 7)
    numbers_equal(tables.decode(patterns(FP8E4B15), FP8E4B15), shifted.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
def test_encode_inverts_decode(fmt: Format) -> None:
    values = tables.decode(patterns(fmt), fmt)
    number = ~np.isnan(values)
    for carrier in (np.float32, np.float64):
        with np.errstate(invalid="ignore"):  # signalling NaN
            carried = values.astype(carrier)
        bits = tables.encode(carried, fmt)
        assert bits.dtype == tables.STORAGE[fmt.name]
        np.testing.assert_array_equal(bits[number], patterns(fmt)[number])
        assert np.isnan(tables.decode(bits[~number], fmt)).all()


@pytest.mark.parametrize("fmt", (FP32, FP64, FORMATS["tf32"]), ids=lambda f: f.name)
def test_wide_formats_are_views(fmt: Format) -> None:
    bits = rng(1).integers(0, 2**fmt.bits, trials(1000), dtype=np.uint64).astype(tables.STORAGE[fmt.name])
    np.testing.assert_array_equal(tables.encode(tables.decode(bits, fmt), fmt), bits)


@pytest.mark.parametrize("fmt", list(FORMATS.values()), ids=lambda f: f.name)
def test_special_values_survive(fmt: Format) -> None:
    values = special_values(fmt, dense=True)
    if not fmt.has_neg_zero:
        values = values[(values != 0) | ~np.signbit(values)]
    if fmt == E8M0:
        values = values[~(values <= 0) & np.isin(np.frexp(values)[0], (0.5, np.nan))]
    numbers_equal(tables.decode(tables.encode(values, fmt), fmt).astype(np.float64), values)


@pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
def test_parameters_describe_the_table(fmt: Format) -> None:
    """Largest finite value, smallest normal and subnormal, and the spacing that p implies."""
    values = tables.lut(fmt)
    finite = np.unique(np.abs(values[np.isfinite(values)]).astype(np.float64))
    if fmt != FP8E4B15:  # its largest pattern is above what a cast produces
        assert finite[-1] == fmt.max
    assert np.isinf(values).any() == fmt.has_inf
    assert np.isnan(values).any() == fmt.has_nan
    if fmt == E8M0:
        return
    assert finite[finite > 0][0] == fmt.min_subnormal
    for low, high in pairwise(finite):
        exponent = max(int(np.frexp(low)[1]) - 1, fmt.emin) if low else fmt.emin
        assert exact(high) - exact(low) == Fraction(2) ** (exponent - fmt.p + 1)


def test_what_a_format_lacks() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    assert np.isnan(tables.decode(tables.encode(odd, FP8E4NV), FP8E4NV)[:3]).all()
    assert tables.decode(tables.encode(odd, E2M1), E2M1).tolist()[:3] == [6.0, 6.0, -6.0]
    assert tables.decode(tables.encode(odd, FORMATS["fp8e4b8"]), FORMATS["fp8e4b8"])[3] == 0.0
    assert tables.encode(odd, FORMATS["fp8e4b8"])[3] == 0


def test_shapes_and_strides() -> None:
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for fmt in (FP8E5, FP16, FORMATS["bf16"], FP32):
        for view in (values, values.T, values[:, ::2], values[:1, :1][0, 0]):
            bits = tables.encode(view, fmt)
            assert bits.shape == np.shape(view)
            assert tables.decode(bits, fmt).shape == np.shape(view)


def test_wide_format_has_no_table() -> None:
    with pytest.raises(ValueError, match="fp32"):
        tables.lut(FP32)
