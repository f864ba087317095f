"""Conversions of values against numpy, ml_dtypes, torch and exact rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from support import exact, random_values, rng, round_fraction, special_values, trials

from interval_ops.formats import tables
from interval_ops.formats.casting import float_to_int_value, holds, int_to_float_value, round_value
from interval_ops.formats.model import BF16, E2M1, E8M0, FORMATS, FP8E4B15, FP8E5, FP16, FP32, FP64, TF32, Format

ML_TYPES = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
}
TORCH_TYPES = {
    "fp8e5": (torch.float8_e5m2, "inf"),
    "fp8e4nv": (torch.float8_e4m3fn, "saturate"),
    "fp8e4b8": (torch.float8_e4m3fnuz, "nan"),
    "fp8e5b16": (torch.float8_e5m2fnuz, "nan"),
}
SOURCES = (FP16, BF16)
FP8 = tuple(FORMATS[name] for name in TORCH_TYPES)
by_name = pytest.mark.parametrize("name", tuple(ML_TYPES))
each_source = pytest.mark.parametrize("src", SOURCES, ids=lambda f: f.name)


def every(fmt: Format) -> np.ndarray:
    """All numbers of fp16 or bf16, decoded by numpy or ml_dtypes."""
    return quiet(np.arange(65536).astype(np.uint16).view(ML_TYPES[fmt.name]).astype(np.float32))


def quiet(x: np.ndarray) -> np.ndarray:
    """Every NaN replaced by the quiet one, which numpy converts without a warning."""
    return np.where(np.isnan(x), np.float32(np.nan), x)


def numbers_equal(a: np.ndarray, b: np.ndarray) -> None:
    """Equal as numbers, NaN to NaN, and with the same sign of zero."""
    np.testing.assert_array_equal(a, b)
    zero = a == 0
    np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


def ml_cast(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(ML_TYPES[name]).astype(np.float32)


def native_overflow(name: str) -> str:
    return "inf" if FORMATS[name].has_inf else "nan"


@each_source
@by_name
def test_all_halves_equal_ml_dtypes(src: Format, name: str) -> None:
    x = every(src)
    for carried in (x, x.astype(np.float64)):
        out = round_value(carried, FORMATS[name], overflow=native_overflow(name))
        assert out.dtype == np.float32
        numbers_equal(out, ml_cast(x, name))


@each_source
@pytest.mark.parametrize("name", TORCH_TYPES)
def test_all_halves_equal_torch(src: Format, name: str) -> None:
    """torch: e5m2 overflows to inf, e4m3fn saturates, the fnuz formats give NaN."""
    dtype, overflow = TORCH_TYPES[name]
    expected = torch.from_numpy(every(src)).to(dtype).float().numpy()
    numbers_equal(round_value(every(src), FORMATS[name], overflow=overflow), expected)


@each_source
@by_name
def test_all_halves_saturate(src: Format, name: str) -> None:
    """Clamping to +-max before an ordinary conversion is what satfinite does, infinities included."""
    x, fmt = every(src), FORMATS[name]
    numbers_equal(round_value(x, fmt, overflow="saturate"), ml_cast(np.clip(x, -fmt.max, fmt.max), name))


def truncated_by_search(x: np.ndarray, fmt: Format, overflow: str) -> np.ndarray:
    """Largest magnitude of the format below |x|, found in the list of all its numbers."""
    grid = np.arange(2**fmt.bits).astype(tables.STORAGE[fmt.name]).view(ML_TYPES[fmt.name])
    grid = quiet(grid.astype(np.float32)).astype(np.float64)
    grid = np.unique(np.abs(grid[np.isfinite(grid)]))
    a = np.abs(x.astype(np.float64))
    found = grid[np.searchsorted(grid, np.where(np.isnan(a), 0, a), side="right") - 1]
    beyond = {"inf": np.inf if fmt.has_inf else np.nan, "nan": np.nan, "saturate": fmt.max}[overflow]
    out = np.copysign(np.where(np.isinf(a), beyond, np.where(np.isnan(a), np.nan, found)), x)
    return out if fmt.has_neg_zero else out + 0.0


@each_source
@by_name
@pytest.mark.parametrize("overflow", ("inf", "nan", "saturate"))
def test_all_halves_truncated(src: Format, name: str, overflow: str) -> None:
    fmt = FORMATS[name]
    numbers_equal(round_value(every(src), fmt, "rtz", overflow), truncated_by_search(every(src), fmt, overflow))


@each_source
def test_all_halves_to_four_bits(src: Format) -> None:
    x = every(src)
    number = x[~np.isnan(x)]
    with np.errstate(over="ignore"):
        expected = number.astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
    for overflow in ("inf", "nan", "saturate"):
        numbers_equal(round_value(number, E2M1, overflow=overflow), expected)
    assert np.abs(round_value(x[np.isnan(x)], E2M1)).tolist() == [6.0] * int(np.isnan(x).sum())


@each_source
def test_all_halves_to_scales(src: Format) -> None:
    """ml_dtypes (and torch) take 1.01 * 2**-127 up to 2**-126, a step of their bit trick; the nearest is 2**-127."""
    x = every(src)
    expected = x.astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    expected[(x > 2.0**-127) & (x < 1.5 * 2.0**-127)] = 2.0**-127
    numbers_equal(round_value(x, E8M0, overflow="nan"), expected)


@each_source
def test_all_halves_to_fp8e4b15(src: Format) -> None:
    """fp8e4b15 below its clamp is e4m3fn scaled by 2**-8, whose 448 is 1.75."""
    x = every(src)
    scaled = np.clip(x.astype(np.float64) * 256, -448, 448).astype(np.float32)
    expected = ml_cast(scaled, "fp8e4nv") / 256
    numbers_equal(round_value(x, FP8E4B15)[~np.isnan(x)], expected[~np.isnan(x)])
    assert np.abs(round_value(np.array([np.nan]), FP8E4B15))[0] == 1.75


def fp32_inputs(seed: int) -> np.ndarray:
    random = rng(seed).integers(0, 2**32, trials(200_000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = [special_values(f, halfway=True) for f in FORMATS.values() if f != FP64]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([random, np.concatenate(special).astype(np.float32)])


@by_name
def test_fp32_equals_numpy_and_ml_dtypes(name: str) -> None:
    x = fp32_inputs(11)
    numbers_equal(round_value(x, FORMATS[name], overflow=native_overflow(name)), ml_cast(x, name))


def fp64_inputs(fmt: Format, seed: int, n: int) -> np.ndarray:
    return np.concatenate([special_values(fmt, halfway=True), random_values(rng(seed), fmt, trials(n))])


@pytest.mark.parametrize("fmt", (FP16, FP32), ids=lambda f: f.name)
def test_fp64_equals_numpy(fmt: Format) -> None:
    x = fp64_inputs(fmt, 12, 50_000)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16 if fmt == FP16 else np.float32).astype(np.float32)
    numbers_equal(round_value(x, fmt), expected)


@pytest.mark.parametrize("fmt", [f for f in FORMATS.values() if f not in (FP64, E8M0)], ids=lambda f: f.name)
@pytest.mark.parametrize("mode", ("rtne", "rtz"))
def test_fp64_equals_exact_rationals(fmt: Format, mode: str) -> None:
    x = fp64_inputs(fmt, 13, 1000)
    x = x[np.isfinite(x)]
    out = round_value(x, fmt, mode, "saturate")
    for value, rounded in zip(x, out, strict=True):
        expected = round_fraction(exact(value), fmt, mode)
        clamped = max(min(expected, exact(fmt.max)), -exact(fmt.max))
        assert exact(rounded) == clamped, float(value).hex()
    assert (round_value(x, fmt, "rtz") == round_value(x, fmt, "rtz", "saturate")).all()  # finite: never past max


def test_identity_and_payload_formats() -> None:
    x = fp32_inputs(14)
    numbers_equal(round_value(x, FP32), x)
    assert round_value(x, FP64).dtype == np.float64
    assert round_value(np.float32(1.0) + np.zeros((2, 3), np.float32).T, TF32).shape == (3, 2)
    assert round_value(np.array(1.1), BF16).shape == ()


def test_unknown_mode_is_named() -> None:
    with pytest.raises(ValueError, match="rtp"):
        round_value(np.ones(1), FP16, "rtp")  # type: ignore[arg-type]


@pytest.mark.parametrize("fmt", (*FP8, FP8E4B15), ids=lambda f: f.name)
def test_every_fp8_survives_widening(fmt: Format) -> None:
    values = tables.lut(fmt)
    for wide in (FP16, BF16, FP32, FP64):
        assert holds(wide, fmt)
        numbers_equal(round_value(values, wide).astype(np.float32), values)
        back = tables.decode(tables.encode(round_value(values, wide), wide), wide)
        np.testing.assert_array_equal(back.astype(np.float32), values)


def test_holds_is_containment_of_numbers() -> None:
    """Against the sets of numbers themselves, for all pairs of narrow formats."""
    narrow = [f for f in FORMATS.values() if f.bits <= 16 and f not in (E8M0, FP8E4B15)]
    sets = {f.name: {str(v) for v in (tables.lut(f).astype(np.float64) + 0.0)} for f in narrow}
    for a in narrow:
        for b in narrow:
            assert holds(a, b) == (sets[b.name] <= sets[a.name]), (a.name, b.name)


INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def integers(dtype: type, seed: int) -> np.ndarray:
    info = np.iinfo(dtype)
    powers = [s * 2**k + d for k in range(65) for d in (-1, 0, 1) for s in (1, -1)]
    powers += [2**k + 2**j + d for k in range(8, 64) for j in range(k - 12, k) if j > 0 for d in (-1, 0, 1)]
    special = np.array([v for v in powers if info.min <= v <= info.max], dtype)
    random = rng(seed).integers(info.min, info.max, trials(300), dtype=dtype, endpoint=True)
    shift = rng(seed + 1).integers(0, info.bits - 1, random.size).astype(dtype)
    return np.concatenate([special, random, random >> shift])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("fmt", (FP16, BF16, FP32, FP64, FP8E5), ids=lambda f: f.name)
def test_integers_round_once(dtype: type, fmt: Format) -> None:
    x = integers(dtype, 21)
    for value, rounded in zip(x, int_to_float_value(x, fmt), strict=True):
        expected = round_fraction(Fraction(int(value)), fmt)
        if abs(expected) > exact(fmt.max):
            assert math.isinf(rounded)
        else:
            assert exact(rounded) == expected, int(value)


def test_bool_becomes_zero_or_one() -> None:
    assert int_to_float_value(np.array([True, False]), BF16).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_float_to_int_truncates_and_saturates(dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.concatenate([fp64_inputs(FP32, 22, 1000), [2.7, -2.7, float(info.max), float(info.min), 2.0**63, 2.0**64]])
    for values in (x, x[np.abs(x) < 100]):
        for value, out in zip(values, float_to_int_value(values, dtype), strict=True):
            if math.isnan(value):
                expected = 0
            elif math.isinf(value):
                expected = info.max if value > 0 else info.min
            else:
                expected = min(max(math.trunc(exact(value)), info.min), info.max)
            assert int(out) == expected, value


def test_float_to_bool_is_unequal_to_zero() -> None:
    out = float_to_int_value(np.array([0.0, -0.0, 0.3, np.nan, np.inf]), np.bool_)
    assert out.tolist() == [False, False, True, True, True]
