"""fp8 conversions of Triton 3.6 to 3.8: its integer code, transcribed from the PTX, on every half-precision input."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e5m2
from support import rng, trials

from interval_ops.formats.casting import cast_interval, round_value
from interval_ops.formats.model import BF16, FORMATS, FP8E4NV, FP8E5, FP16, FP32, Format
from interval_ops.profiles.profile import Profile, load_profile

EVERY = np.arange(1 << 16, dtype=np.uint32)


def e5m2(bits: np.ndarray) -> np.ndarray:
    return (bits & 0xFF).astype(np.uint8).view(float8_e5m2).astype(np.float64)


def from_fp16(bits: np.ndarray) -> np.ndarray:
    """and 0xfffe; add 0x0080; the upper byte."""
    return e5m2(((bits & 0xFFFE) + 0x80) >> 8)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """Magnitude clamped to [0x3800, 0x57e0], plus 0x10 minus 0x3800, shifted left by 3; upper byte, with the sign."""
    magnitude = np.clip(bits & 0x7FFF, 0x3800, 0x57E0) + 0x10 - 0x3800
    return e5m2((((magnitude << 3) >> 8) & 0xFF) | ((bits >> 8) & 0x80))


def from_fp32(x: np.ndarray) -> np.ndarray:
    """cvt.rz.f16.f32, then as from fp16."""
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
        too_far = np.abs(half.astype(np.float64)) > np.abs(x)
        half = np.where(too_far, np.nextafter(half, np.float16(0)), half).astype(np.float16)
    return from_fp16(half.view(np.uint16).astype(np.uint32))


def check(x: np.ndarray, got: np.ndarray, src: Format, dst: Format, profile: Profile) -> None:
    """The exact value and the converted one lie in the bounds of every finite input."""
    finite = np.isfinite(x)
    x, got = x[finite], got[finite]
    lo, hi = cast_interval(x, x, src, dst, profile)
    free = np.isnan(lo)
    for value in (x, got):
        assert ((lo <= value) & (value <= hi) | free).all()
    assert free.mean() < 0.5
    wide = np.stack([lo, hi])[:, ~free]
    low, high = cast_interval(x[:-1], np.maximum(x[:-1], x[1:]), src, dst, profile)
    assert (np.isnan(low) | ((low <= lo[:-1]) & (high >= hi[:-1]))).all() and (wide[0] <= wide[1]).all()


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "any"])
@pytest.mark.parametrize("version", [(3, 6), (3, 8)])
def test_every_half(name: str, version: tuple[int, int]) -> None:
    profile = load_profile(name).chosen(triton=version)
    halves = EVERY.astype(np.uint16).view(np.float16).astype(np.float64)
    brains = EVERY.astype(np.uint16).view(bfloat16).astype(np.float64)
    native = name in ("sm_89", "sm_90", "sm_100")
    with np.errstate(over="ignore"):
        direct = {FP16: halves.astype(np.float32).astype(float8_e5m2), BF16: brains.astype(float8_e5m2)}
    for fmt, x, integer in ((FP16, halves, from_fp16), (BF16, brains, from_bf16)):
        saturated = np.clip(np.where(np.isfinite(x), direct[fmt].astype(np.float64), 0.0), -57344.0, 57344.0)
        check(x, saturated if native else integer(EVERY), fmt, FP8E5, profile)


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "any"])
def test_fp32_by_way_of_fp16(name: str) -> None:
    generator, profile = rng(321), load_profile(name).chosen(triton=(3, 6))
    ties = np.float32(1.0) + np.float32(0.125) * np.arange(-8, 9, dtype=np.float32)
    x = np.concatenate([
        np.exp2(generator.uniform(-20, 18, trials(4000))) * generator.choice([-1.0, 1.0], trials(4000)),
        *(np.nextafter(ties, np.float32(end)) for end in (-9, 9)), ties, [61439.0, 61440.0, 65504.0, 65520.0, 1e30],
    ]).astype(np.float32)  # fmt: skip
    check(x.astype(np.float64), from_fp32(x), FP32, FP8E5, profile)


@pytest.mark.parametrize("name", ["sm_89", "any"])
@pytest.mark.parametrize("dst", [FP8E5, FP8E4NV], ids=lambda f: f.name)
def test_ada_rounds_twice(name: str, dst: Format) -> None:
    """cvt.rz.f16.f32, then cvt.rn.satfinite of fp16."""
    generator, profile = rng(322), load_profile(name).chosen(triton=(3, 8))
    x = np.exp2(generator.uniform(-20, 18, trials(4000))).astype(np.float32)
    x[::2] = (np.round(x[::2] * 16) / 16 + np.float32(2.0**-18) * generator.integers(-1, 2, len(x[::2]))).astype(
        np.float32
    )
    half = round_value(x, FP16, "rtz")
    check(x.astype(np.float64), round_value(half, dst, "rtne", "saturate").astype(np.float64), FP32, dst, profile)


def test_what_the_versions_change() -> None:
    """A tie, a value just above one, overflow and subnormals: 3.9 excludes what 3.6 does, and the other way round."""
    new, old = load_profile("sm_80"), load_profile("sm_80").chosen(triton=(3, 6))

    def bounds(x: float, src: str, profile: Profile, dst: Format = FP8E5) -> tuple[float, float]:
        lo, hi = cast_interval(np.array([x]), np.array([x]), FORMATS[src], dst, profile)
        return lo[0], hi[0]

    assert bounds(1.125, "fp16", new) == (1.0, 1.125) and bounds(1.125, "fp16", old) == (1.0, 1.25)
    assert bounds(61440.0, "fp16", new)[1] == 61440.0 and bounds(61440.0, "fp16", old)[1] == np.inf
    assert bounds(2.0**-15, "bf16", new)[0] == 2.0**-15 and bounds(2.0**-15, "bf16", old)[0] <= 0.0
    assert np.isnan(bounds(2.0**17, "bf16", old)).all()  # the integer code gives -0
    ada, above = load_profile("sm_89"), 1.0 + 2.0**-4 + 2.0**-20
    assert bounds(above, "fp32", ada, FP8E4NV) == (above, 1.125)
    assert bounds(above, "fp32", ada.chosen(triton=(3, 8)), FP8E4NV)[0] == 1.0
