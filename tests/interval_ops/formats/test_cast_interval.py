"""Enclosures of conversions: the exact and every rounded value stay inside, and nothing else where that is known."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from support import exact, random_values, rng, round_fraction, special_values, trials

from interval_ops.formats.casting import cast_interval, float_to_int_decided, holds, int_to_float_interval, round_value
from interval_ops.formats.model import BF16, E8M0, FORMATS, FP8E4B15, FP8E4NV, FP8E5, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import Profile, load_profile

IEEE = load_profile("ieee")
PROFILES = ("ieee", "any", "sm_80", "sm_90")
CASTS = [
    (src, dst)
    for src, dst in product((FP64, FP32, FP16, BF16, FP8E5, FP8E4NV, FP8E4B15), FORMATS.values())
    if dst not in (E8M0, src)
]
each_cast = pytest.mark.parametrize(("src", "dst"), CASTS, ids=lambda f: f.name)
each_profile = pytest.mark.parametrize("profile", PROFILES)
each_mode = pytest.mark.parametrize("mode", ("rtne", "rtz"))
Pair = tuple[np.ndarray, np.ndarray]


def overflowing(fmt: Format, mode: str) -> Profile:
    return replace(IEEE, cast_overflow={**IEEE.cast_overflow, fmt.name: mode})


def points(src: Format, dst: Format, seed: int) -> np.ndarray:
    """Finite numbers of `src` in its carrier: special for source and target, and random."""
    generator = rng(seed)
    values = np.concatenate(
        [special_values(src), special_values(dst, halfway=True), random_values(generator, dst, trials(1500))]
    )
    values = round_value(values[np.isfinite(values)], src, overflow="saturate")
    return values[np.isfinite(values)]


def intervals(x: np.ndarray, src: Format, seed: int) -> Pair:
    """Intervals around numbers of the source: thin, wide, one-sided, and between two of the numbers."""
    generator = rng(seed)
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        radius = np.abs(wide) * generator.choice([0, 2.0**-24, 2.0**-12, 0.1, 3.0], x.size) + src.half_subnormal
    other = generator.permutation(wide)
    with np.errstate(over="ignore", invalid="ignore"):
        low = np.where(generator.random(x.size) < 0.2, np.minimum(wide, other), wide - radius)
        high = np.where(low == np.minimum(wide, other), np.maximum(wide, other), wide + radius)
    return low, high


def inside(pair: Pair, x: np.ndarray) -> np.ndarray:
    """Membership; a top interval holds everything, NaN is only in a top interval."""
    return np.isnan(pair[0]) | ((pair[0] <= x) & (x <= pair[1]))


def clamped(x: np.ndarray, dst: Format) -> np.ndarray:
    return round_value(x, dst, overflow="saturate").astype(np.float64)


def legal(x: np.ndarray, src: Format, dst: Format, profile: Profile, mode: str) -> list[np.ndarray]:
    """Results that the target may compute from numbers `x`, converted directly or through another format."""
    overflow = profile.cast_overflow.get(dst.name, "inf" if dst.has_inf else "either")
    choices = {"either": ("saturate", "inf") if dst.has_inf else ("saturate", "nan")}.get(overflow, (overflow,))
    paths = [x]
    middle = profile.cast_double_rounding.get(f"{src.name}->{dst.name}")
    if middle:
        fmt = FORMATS[middle.removesuffix("rz")]
        paths.append(round_value(x, fmt, "rtz" if middle.endswith("rz") else "rtne"))
    if src == FP64 and dst.p < 11:
        paths.append(x.astype(np.float32))
    return [round_value(p, dst, mode, c).astype(np.float64) for p in paths for c in choices]


@each_cast
@each_profile
@each_mode
def test_points_hold_exact_and_rounded(src: Format, dst: Format, profile: str, mode: str) -> None:
    target, x = load_profile(profile), points(src, dst, 31)
    with np.errstate(over="ignore"):
        pair = cast_interval(x, x, src, dst, target, mode)
        assert pair[0].dtype == pair[1].dtype == np.float64
        assert (np.isnan(pair[0]) == np.isnan(pair[1])).all()
        assert inside(pair, x).all()
        for result in legal(x, src, dst, target, mode):
            assert inside(pair, result).all()


@each_cast
@each_mode
def test_intervals_hold_every_member(src: Format, dst: Format, mode: str) -> None:
    target = load_profile("any")
    low, high = intervals(points(src, dst, 32), src, 33)
    pair = cast_interval(low, high, src, dst, target, mode)
    generator = rng(34)
    for share in (0.0, 1.0, *generator.random(4)):
        with np.errstate(over="ignore", invalid="ignore"):
            member = np.fmin(np.fmax(low * (1 - share) + high * share, low), high)
            assert inside(pair, member).all()
            held = round_value(member, src)  # the target holds numbers of the source format only
            kept = (low <= held) & (held <= high)
            for result in legal(held, src, dst, target, mode):
                assert inside(pair, result)[kept].all()


@pytest.mark.parametrize("dst", (FP16, BF16, FP8E5, FP32), ids=lambda f: f.name)
@each_mode
def test_known_rounding_is_tight(dst: Format, mode: str) -> None:
    """With one rounding mode the enclosure is the hull of both ends and both ends rounded, computed with rationals."""
    src = FP64 if dst == FP32 else FP32
    target = overflowing(dst, "inf")
    low, high = intervals(points(src, dst, 35)[:: max(1, 2000 // trials(300))], src, 36)
    finite = (np.abs(low) < dst.overflow_threshold) & (np.abs(high) < dst.overflow_threshold)
    low, high = low[finite], high[finite]
    pair = cast_interval(low, high, src, dst, target, mode)
    for a, b, c, d in zip(low, high, *pair, strict=True):
        near_a, near_b = round_fraction(exact(a), dst, mode), round_fraction(exact(b), dst, mode)
        if mode == "rtz":
            near_a, near_b = (max(min(n, exact(dst.max)), -exact(dst.max)) for n in (near_a, near_b))
        assert (exact(c), exact(d)) == (min(exact(a), near_a), max(exact(b), near_b))


def test_isotone() -> None:
    """A wider interval gives a wider result."""
    low, high = intervals(points(FP32, FP16, 37), FP32, 38)
    inner = cast_interval(low, high, FP32, FP16, IEEE)
    outer = cast_interval(np.minimum(low, low * 0.9), np.maximum(high, high * 1.1), FP32, FP16, IEEE)
    assert (outer[0] <= inner[0]).all()
    assert (inner[1] <= outer[1]).all()


def one(low: float, high: float, dst: Format, profile: Profile = IEEE, mode: str = "rtne") -> tuple[float, float]:
    pair = cast_interval(np.array([low]), np.array([high]), FP32, dst, profile, mode)
    return float(pair[0][0]), float(pair[1][0])


@pytest.mark.parametrize("x", (1e-6, 2e-7, 3.1e-8, 1.39036730e-6))
def test_subnormal_results_need_an_absolute_term(x: float) -> None:
    """The relative rule v (1 +- eps) excludes what an fp16 conversion of a small number returns."""
    point = np.array([x], np.float32)
    half = np.float64(point.astype(np.float16)[0])
    assert not point[0] * (1 - 2.0**-10) <= half <= point[0] * (1 + 2.0**-10)
    low, high = cast_interval(point, point, FP32, FP16, IEEE)
    assert low[0] == min(half, np.float64(point[0]))
    assert high[0] == max(half, np.float64(point[0]))


def test_published_interval_of_a_subnormal_misses_the_result() -> None:
    """[1.389009507e-6, 1.391725069e-6] was published for this cast; the result is 1.37090683e-6."""
    low, high = one(float(np.float32(1.39036730e-6)), float(np.float32(1.39036730e-6)), FP16)
    assert low == pytest.approx(1.37090683e-6, rel=1e-8)
    assert low < 1.389009507e-6
    assert high < 1.391725069e-6


def test_overflow_modes() -> None:
    def over(mode: str, low: float = 1e6, high: float = 2e6, dst: Format = FP8E5) -> tuple[float, float]:
        return one(low, high, dst, overflowing(dst, mode))

    top = pytest.approx((math.nan, math.nan), nan_ok=True)
    assert over("inf") == (1e6, math.inf)
    assert over("saturate") == (57344.0, 2e6)
    assert over("either") == (57344.0, math.inf)
    assert over("nan") == top
    assert over("inf", -2e6, 1.0) == (-math.inf, 1.0)
    assert over("either", -2e6, -1e6) == (-math.inf, -57344.0)
    assert over("inf", dst=FP8E4NV) == top
    assert over("either", dst=FP8E4NV) == top
    assert over("nan", 1.0, 464.0, FP8E4NV) == (1.0, 464.0)
    assert over("nan", 1.0, np.nextafter(464.0, 465.0), FP8E4NV) == top
    assert over("nan", -500.0, 1.0, FP8E4NV) == top
    assert over("saturate", 1.0, math.inf, FP8E4NV) == (1.0, math.inf)
    assert over("saturate", math.inf, math.inf, FP8E4NV) == (448.0, math.inf)


def test_overflow_threshold_of_fp16() -> None:
    below, above = float(np.nextafter(np.float32(65520), np.float32(0))), 65520.0
    assert one(below, below, FP16) == (65504.0, below)
    assert one(above, above, FP16) == (above, math.inf)
    assert one(above, above, FP16, mode="rtz") == (65504.0, above)
    assert one(1e9, math.inf, FP16, mode="rtz") == (65504.0, math.inf)


def test_target_without_entry_encloses_every_overflow() -> None:
    bare = replace(IEEE, cast_overflow={})
    assert one(1e6, 1e6, FP16, bare) == (1e6, math.inf)
    assert math.isnan(one(1e6, 1e6, FP8E4NV, bare)[0])


@pytest.mark.parametrize("dst", [f for f in FORMATS.values() if f != FP64], ids=lambda f: f.name)
@each_mode
def test_nan_is_top(dst: Format, mode: str) -> None:
    for low, high in ((math.nan, math.nan), (math.nan, 1.0), (1.0, math.nan)):
        a, b = np.array([low]), np.array([high])
        assert np.isnan(cast_interval(a, b, FP64, dst, IEEE, mode)).all()
    point = np.array([np.nan], np.float32)
    assert np.isnan(cast_interval(point, point, FP32 if dst != FP32 else FP64, dst, IEEE, mode)).all()


def test_double_rounding_crosses_a_tie() -> None:
    """17 + 2**-10 is just above an e4m3 tie: directly 18, through truncated fp16 the tie itself, hence 16."""
    target = replace(IEEE, cast_double_rounding={"fp32->fp8e4nv": "fp16rz"}, cast_overflow={"fp8e4nv": "saturate"})
    x = np.array([17 + 2.0**-10], np.float32)
    assert x.astype(ml_dtypes.float8_e4m3fn).astype(float)[0] == 18
    low, high = cast_interval(x, x, FP32, FP8E4NV, target)
    assert (low[0], high[0]) == (16, 18)
    direct = cast_interval(x, x, FP32, FP8E4NV, overflowing(FP8E4NV, "saturate"))
    assert (direct[0][0], direct[1][0]) == (x[0], 18)


def triton_fp8e4b15(half: np.ndarray) -> np.ndarray:
    """Triton's instructions on fp16 bits: clamp to 0x3F00, double, add 0x80, keep the high byte; then its decoding."""
    bits = half.view(np.uint16).astype(np.int64)
    code = (np.minimum(bits & 0x7FFF, 0x3F00) * 2 + 0x80) >> 8
    return np.copysign((code << 7).astype(np.uint16).view(np.float16).astype(np.float64), half)


def test_fp8e4b15_holds_what_triton_computes() -> None:
    halves = np.arange(65536).astype(np.uint16).view(np.float16)
    halves = halves[~np.isnan(halves)]
    x = halves.astype(np.float32)
    for profile in PROFILES:
        assert inside(cast_interval(x, x, FP16, FP8E4B15, load_profile(profile)), triton_fp8e4b15(halves)).all()
    singles = points(FP32, FP8E4B15, 41)
    through = round_value(singles, FP16, "rtz").astype(np.float16)
    for profile in ("any", "sm_80", "sm_90"):
        pair = cast_interval(singles, singles, FP32, FP8E4B15, load_profile(profile))
        assert inside(pair, triton_fp8e4b15(through)).all()


@each_cast
def test_exactly_held_values_stay_points(src: Format, dst: Format) -> None:
    x = points(src, dst, 42)
    x = x[x.astype(np.float64) == clamped(x, dst)]
    low, high = cast_interval(x, x, src, dst, load_profile("sm_80"))
    np.testing.assert_array_equal(low, x)
    np.testing.assert_array_equal(high, x)


@each_cast
def test_exact_and_muted_casts_return_the_ends(src: Format, dst: Format) -> None:
    x = points(src, dst, 43)
    low, high = intervals(x, src, 44)
    profile = IEEE if holds(dst, src) else IEEE.mute("cast")
    np.testing.assert_array_equal(cast_interval(low, high, src, dst, profile), (low, high))
    a, b = cast_interval(x, x, src, dst, profile)
    assert a is b
    assert a.dtype == np.float64


@pytest.mark.parametrize("pair", ((FP16, BF16), (BF16, FP16), (BF16, FP8E5), (FP64, FP8E4NV), (FP64, FP16)))
def test_shapes_and_strides(pair: tuple[Format, Format]) -> None:
    x = rng(45).normal(size=(3, 4, 5)).astype(np.float32)
    for view in (x, x.transpose(2, 0, 1), x[:, ::2], np.broadcast_to(x[:1], x.shape), x[0, 0, 0], x[:0]):
        low, high = cast_interval(view, view, *pair, IEEE)
        assert low.shape == high.shape == np.shape(view)
        flat = np.ascontiguousarray(view)
        np.testing.assert_array_equal(low, cast_interval(flat, flat, *pair, IEEE)[0].reshape(low.shape))


def test_scales_are_bracketed_by_powers_of_two() -> None:
    x = np.abs(points(FP32, E8M0, 46))
    low, high = cast_interval(x, x, FP32, E8M0, IEEE)
    known = (x > 0) & ~np.isnan(low)
    rounded = x.astype(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert inside((low, high), rounded)[x > 0].all()
    assert inside((low, high), x).all()
    np.testing.assert_array_equal(np.isnan(low), (x <= 0) | (x > 2.0**127))
    assert (high[known] <= np.maximum(2.0 * x[known].astype(np.float64), 2.0**-127)).all()


@pytest.mark.parametrize("dtype", (np.int8, np.int32, np.uint32, np.int64, np.uint64))
@pytest.mark.parametrize("fmt", (FP16, BF16, FP32, FP64), ids=lambda f: f.name)
def test_integer_intervals(dtype: type, fmt: Format) -> None:
    info = np.iinfo(dtype)
    generator = rng(47)
    x = generator.integers(info.min, info.max, trials(500), dtype=dtype, endpoint=True)
    shifted = x >> generator.integers(0, info.bits - 1, x.size).astype(dtype)
    x = np.concatenate([shifted, np.array([info.max, info.min], dtype)])
    pair = int_to_float_interval(x, fmt, IEEE)
    if pair is None:
        assert all(round_fraction(exact(int(v)), fmt) == int(v) for v in x)
        return
    for value, low, high in zip(x, *pair, strict=True):
        true, near = exact(int(value)), round_fraction(exact(int(value)), fmt)
        if abs(near) > exact(fmt.max):
            assert (high if value > 0 else -low) == math.inf
            assert low <= true <= high
        else:
            assert exact(low) <= min(true, near)
            assert exact(high) >= max(true, near)
            assert exact(high) - exact(low) <= abs(true) * exact(2 * fmt.u)


def test_small_integers_are_points() -> None:
    assert int_to_float_interval(np.array([-2048, 2048]), FP16, IEEE) is None
    assert int_to_float_interval(np.array([1 << 30, 3 << 40]), FP32, IEEE) is None
    assert int_to_float_interval(np.array([True, False]), FP8E5, IEEE) is None
    low, high = int_to_float_interval(np.array([2**24 + 1]), FP32, IEEE) or (np.zeros(1), np.zeros(1))
    assert (low[0], high[0]) == (2.0**24, 2.0**24 + 1)
    low, high = int_to_float_interval(np.array([2**24 + 1]), FP32, IEEE.mute("cast")) or (np.zeros(1), np.zeros(1))
    assert (low[0], high[0]) == (2.0**24 + 1, 2.0**24 + 1)


def test_truncation_is_decided_where_all_members_agree() -> None:
    low = np.array([2.1, 1.9, -0.5, np.nan, 2.5, np.inf, 300.0, -0.5])
    high = np.array([2.9, 2.1, 0.5, np.nan, np.inf, np.inf, 300.5, 255.9])
    assert float_to_int_decided(low, high).tolist() == [True, False, True, False, False, False, True, False]
    assert float_to_int_decided(low, high, np.uint8).tolist() == [True, False, True] + [False] * 5
    assert float_to_int_decided(low, high, np.int64).tolist() == [True, False, True] + [False] * 3 + [True, False]


def test_float_to_bool_is_decided_away_from_zero() -> None:
    low, high = np.array([0.1, -1.0, 0.0, 0.0, np.nan]), np.array([0.2, -0.1, 0.0, 1.0, np.nan])
    assert float_to_int_decided(low, high, np.bool_).tolist() == [True, True, True, False, False]
