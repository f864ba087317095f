from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from block_fma import UNITS as TENSOR_CORES
from block_fma import cut, exponent, in_order, run
from support import exact, rng, round_fraction, trials

from interval_ops.dot.rule import PendingDot
from interval_ops.dot.scaled import SCALED_FORMATS, scaled_kind, scaled_operands, scaled_pair, scaled_values, unpack
from interval_ops.formats.model import BF16, E2M1, FP8E4NV, FP8E5, Format
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")

TYPES = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}
EIGHT = {"e4m3": FP8E4NV, "e5m2": FP8E5}
TYPICAL = np.arange(119, 135, dtype=np.uint8)


def numbers(codes: np.ndarray, fmt: str) -> np.ndarray:
    """float64 numbers behind the codes, by ml_dtypes."""
    return codes.view(TYPES[fmt]).astype(np.float64)


def scales(bits: np.ndarray) -> np.ndarray:
    return bits.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)


def codes(generator, fmt: str, shape: tuple[int, ...], small: bool = False) -> np.ndarray:
    """Random finite codes of a format; `small`: mostly subnormal ones."""
    if fmt in ("bf16", "fp16"):
        return generator.standard_normal(shape).astype(TYPES[fmt]).view(np.uint16)
    bits = generator.integers(0, 16 if fmt == "e2m1" else 256, shape).astype(np.uint8)
    if fmt in EIGHT:
        top = 0x7F if fmt == "e4m3" else 0x7C
        magnitude = bits & np.uint8(0x7F)
        bits = np.where(magnitude >= top, bits - np.uint8(16), bits).astype(np.uint8)
        if small:
            keep = np.uint8(0x87 if fmt == "e4m3" else 0x83)
            bits = np.where(generator.random(shape) < 0.8, bits & keep, bits).astype(np.uint8)
    return bits


def pack(bits: np.ndarray, axis: int) -> np.ndarray:
    """Two e2m1 codes per byte along an axis, the first in the low half."""
    moved = np.moveaxis(bits, axis, -1)
    return np.moveaxis(moved[..., 0::2] | moved[..., 1::2] << np.uint8(4), -1, axis)


@pytest.mark.parametrize("axis", (-1, -2, 0))
def test_packed_pairs(axis):
    bits = codes(rng(91), "e2m1", (6, 4, 8))
    assert np.array_equal(unpack(pack(bits, axis), "e2m1", axis), numbers(bits, "e2m1"))
    assert unpack(pack(bits, axis), "e2m1", axis).dtype == np.float32


@pytest.mark.parametrize("fmt", ("e2m1", "e4m3", "e5m2"))
@pytest.mark.parametrize("axis", (-1, -2))
def test_every_code_and_scale(fmt, axis):
    """All codes times all scales: exact on sm_120; in bf16 on sm_80, where the hull holds both wherever they differ."""
    table = np.arange(16 if fmt == "e2m1" else 256, dtype=np.uint8)
    values = np.repeat(table[:, None], 32, axis=1).reshape(1, -1)  # one group per code
    values = np.repeat(values, 256, axis=0)
    scale = np.repeat(np.arange(256, dtype=np.uint8)[:, None], len(table), axis=1)
    with np.errstate(all="ignore"):
        true = numbers(values, fmt) * np.repeat(scales(scale), 32, axis=1)
        widened = true.astype(ml_dtypes.bfloat16).astype(np.float64)
    stored = pack(values, -1) if fmt == "e2m1" else values
    if axis == -2:
        stored, true, widened = (np.ascontiguousarray(x.T) for x in (stored, true, widened))
    lo, hi = scaled_operands(stored, scale, fmt, load_profile("sm_120"), axis=axis)
    assert lo is hi
    assert np.array_equal(lo, true, equal_nan=True)
    for name in ("sm_90", "sm_100", "any"):
        lo, hi = scaled_operands(stored, scale, fmt, load_profile(name), axis=axis)
        assert np.array_equal(lo, np.minimum(true, widened), equal_nan=True)
        assert np.array_equal(hi, np.maximum(true, widened), equal_nan=True)
    assert (true != widened)[~np.isnan(true)].any()
    seen = scaled_values(unpack(stored, fmt, axis), scale, "bf16", axis=axis)
    assert np.array_equal(seen.astype(np.float64), widened, equal_nan=True)


@pytest.mark.parametrize("fmt", ("e2m1", "e4m3", "e5m2", "fp16"))
def test_fp16_partner_rounds_scale_and_product(fmt):
    generator = rng(92)
    bits = codes(generator, fmt, (256, 32))
    scale = np.arange(256, dtype=np.uint8)[:, None]
    stored = pack(bits, -1) if fmt == "e2m1" else bits
    lo, hi = scaled_operands(stored, scale, fmt, load_profile("sm_80"), kind="fp16")
    with np.errstate(all="ignore"):
        value, factor = numbers(bits, fmt), scales(scale)
        true = value * factor
        widened = (value * factor.astype(np.float16).astype(np.float64)).astype(np.float16).astype(np.float64)
    nan = np.isnan(true) | np.isnan(widened)
    assert np.isnan(lo[nan]).all()
    assert np.isnan(hi[nan]).all()
    assert np.array_equal(lo[~nan], np.minimum(true, widened)[~nan])
    assert np.array_equal(hi[~nan], np.maximum(true, widened)[~nan])


def test_kinds():
    for name, lhs, rhs, both, kind in (
        ("sm_100", "e4m3", "e4m3", True, "mxfp8"),
        ("sm_100", "e2m1", "e4m3", True, "mxfp8"),
        ("sm_120", "e2m1", "e2m1", True, "mxfp4"),
        ("sm_100", "e4m3", "e4m3", False, "bf16"),
        ("sm_100", "e2m1", "bf16", True, "bf16"),
        ("sm_100", "fp16", "e2m1", True, "fp16"),
        ("sm_90", "e4m3", "e5m2", True, "bf16"),
        ("sm_80", "e5m2", "e5m2", True, "bf16"),
        ("gfx942", "e2m1", "e2m1", True, "bf16"),
        ("gfx942", "e2m1", "fp16", True, "fp16"),
        ("any", "e2m1", "e5m2", True, "mxfp8"),
    ):
        profile = load_profile(name)
        assert scaled_kind(lhs, rhs, profile, both) == kind
        profile.dot(kind)
    with pytest.raises(ValueError, match=r"e3m2.*e2m1"):
        scaled_kind("e3m2", "e2m1", load_profile("any"))


def test_common_scales_leave_points():
    generator, profile = rng(93), load_profile("sm_80")
    for fmt in SCALED_FORMATS:
        bits = codes(generator, fmt, (4, 64))
        stored = pack(bits, -1) if fmt == "e2m1" else bits
        scale = generator.choice(TYPICAL, (4, 2))
        lo, hi = scaled_operands(stored, scale, fmt, profile, kind="bf16")
        if fmt != "fp16":
            assert lo is hi
            assert lo.dtype == np.float32
        assert np.array_equal(lo, numbers(bits, fmt) * np.repeat(scales(scale), 32, axis=1)) or fmt == "fp16"
    x = np.ones((4, 32), np.float32)
    assert scaled_pair((x, x), None, profile, "bf16")[0] is x
    with pytest.raises(ValueError, match="do not divide"):
        scaled_pair((x, x), np.zeros((4, 3), np.uint8), profile, "bf16")


def test_group_of_sixteen_and_narrow_scales():
    """nvfp4: e4m3 scales, one per 16 numbers."""
    generator = rng(94)
    bits = codes(generator, "e2m1", (4, 64))
    scale = np.abs(generator.standard_normal((4, 4))).astype(ml_dtypes.float8_e4m3fn)
    lo, hi = scaled_operands(pack(bits, -1), scale.view(np.uint8), "e2m1", load_profile("sm_100"), scale_format=FP8E4NV)
    assert lo is hi
    assert np.array_equal(lo, numbers(bits, "e2m1") * np.repeat(scale.astype(np.float64), 16, axis=1))


def test_interval_values():
    profile = load_profile("sm_90")
    lo, hi = np.array([[1.0] * 32, [-3.0] * 32]), np.array([[2.0] * 32, [1.0] * 32])
    scale = np.array([[130], [127]], np.uint8)
    low, high = scaled_pair((lo, hi), scale, profile, "bf16")
    assert np.array_equal(low, lo * [[8], [1]])
    assert np.array_equal(high, hi * [[8], [1]])
    huge = scaled_pair((lo, hi), np.array([[254], [254]], np.uint8), profile, "bf16")
    assert (huge[0][0] == 2.0**127).all()
    assert np.isinf(huge[1][0]).all()
    quiet = scaled_pair((lo, hi), np.array([[254], [254]], np.uint8), profile.mute("operand"), "bf16")
    assert (quiet[1][0] == 2.0**128).all()


Term = tuple[Fraction, int]


def native(acc: Fraction, terms: list[Term], block: int, fraction: int) -> Fraction:
    """Blocks of scaled products, given with the exponents under which they are aligned; result cut to fp32."""
    for start in range(0, len(terms), block):
        part = [t for t in terms[start : start + block] if t[0]]
        if block == 64:  # exact groups of 16 first
            groups = [terms[start + g : start + g + 16] for g in range(0, block, 16)]
            sums = [(sum((x for x, _ in g), Fraction(0)), max((e for x, e in g if x), default=0)) for g in groups]
            part = [(x, max(e, exponent(x, -300))) for x, e in sums if x]
        part += [(acc, exponent(acc, -126))] if acc else []
        if part:
            last = max(e for _, e in part) - fraction
            total = sum(cut(x, last) for x, _ in part) * Fraction(2) ** last
            acc = round_fraction(total, Format("", 32, 24, -126, math.inf, 127), "rtz")
    return acc


@pytest.mark.parametrize(("lhs", "rhs"), (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e5m2"), ("e2m1", "e2m1")))
@pytest.mark.parametrize("small", (False, True))
def test_block_scaled_units(lhs, rhs, small):
    """The block-scaled unit in random order and the upcasts lie inside; sm_100 and `any` hold both."""
    generator = rng(95)
    native_kind = scaled_kind(lhs, rhs, load_profile("sm_100"))
    block, fraction = (64, 35) if native_kind == "mxfp4" else (32, 25)
    for _ in range(trials(12)):
        k = 128
        bits = codes(generator, lhs, (2, k), small), codes(generator, rhs, (k, 2), small)
        scale = tuple(generator.choice(TYPICAL, (2, k // 32)) for _ in range(2))
        a = numbers(bits[0], lhs) * np.repeat(scales(scale[0]), 32, axis=1)
        b = numbers(bits[1], rhs) * np.repeat(scales(scale[1]), 32, axis=1).T
        stored = [pack(x, axis) if f == "e2m1" else x for x, f, axis in zip(bits, (lhs, rhs), (-1, -2), strict=True)]
        bounds = {}
        for name in ("sm_100", "sm_120", "sm_80", "any"):
            profile = load_profile(name)
            kind = scaled_kind(lhs, rhs, profile)
            pa = scaled_operands(stored[0][None], scale[0][None], lhs, profile, kind=kind)
            pb = scaled_operands(stored[1][None], scale[1][None], rhs, profile, kind=kind, axis=-2)
            bounds[name] = PendingDot.start(None, (2, 2), kind, profile).extend(pa, pb).interval()
        emin = [EIGHT[f].emin if f in EIGHT else E2M1.emin for f in (lhs, rhs)]
        for i, j in np.ndindex(2, 2):
            pairs = [(exact(float(x)), exact(float(y))) for x, y in zip(a[i], b[:, j], strict=True)]
            shift = [np.repeat(scale[s][index].astype(int) - 127, 32) + emin[s] for s, index in ((0, i), (1, j))]
            terms = [
                (x * y, exponent(x, int(shift[0][n])) + exponent(y, int(shift[1][n])) if x and y else 0)
                for n, (x, y) in enumerate(pairs)
            ]
            true = sum((x for x, _ in terms), Fraction(0))
            unit = TENSOR_CORES["sm_80", "bf16"]
            order = generator.permutation(k)
            device = native(Fraction(0), [terms[n] for n in order], block, fraction)
            upcast = [run(Fraction(0), pairs, unit, BF16, generator), in_order(Fraction(0), pairs, unit, BF16)]
            wider = TENSOR_CORES["sm_90", "bf16"]
            small = [run(Fraction(0), pairs, wider, BF16, generator), in_order(Fraction(0), pairs, wider, BF16)]
            units = {"sm_120": [device], "sm_100": [device, *small], "sm_80": upcast, "any": [device, *small, *upcast]}
            for name, values in units.items():
                lo, hi = (exact(float(x[0, i, j])) for x in bounds[name])
                assert all(lo <= v <= hi for v in (true, *values)), name


def test_overflow_of_the_upcast_is_unbounded():
    """448 * 2^127 is inf in bf16, a number to a block-scaled unit."""
    bits = np.full((1, 32), 0x7E, np.uint8)
    one = np.full((32, 1), 0x01, np.uint8)  # 2^-9
    for name, bounded in (("sm_90", False), ("sm_120", True), ("sm_100", False), ("any", False)):
        profile = load_profile(name)
        kind = scaled_kind("e4m3", "e4m3", profile)
        a = scaled_operands(bits, np.array([[247]], np.uint8), "e4m3", profile, kind=kind)
        b = scaled_operands(one, np.array([[7]], np.uint8), "e4m3", profile, kind=kind, axis=-2)
        lo, hi = PendingDot.start(None, (1, 1), kind, profile).extend(a, b).interval()
        assert np.isfinite(lo).all() == np.isfinite(hi).all() == bounded


def test_fp16_dot_with_scaled_partner():
    generator, profile = rng(96), load_profile("sm_90")
    bits, right = codes(generator, "e2m1", (2, 64)), generator.standard_normal((64, 2)).astype(np.float16)
    scale = generator.choice(TYPICAL, (2, 2))
    kind = scaled_kind("e2m1", "fp16", profile)
    a = scaled_operands(pack(bits, -1), scale, "e2m1", profile, kind=kind)
    b = scaled_operands(right.view(np.uint16), None, "fp16", profile, kind=kind, axis=-2)
    lo, hi = PendingDot.start(None, (2, 2), kind, profile).extend(a, b).interval()
    true = (numbers(bits, "e2m1") * np.repeat(scales(scale), 32, axis=1)) @ right.astype(np.float64)
    assert ((lo <= true) & (true <= hi)).all()
    assert (hi - lo < 1e-3 * np.abs(true).max() + 1e-3).all()
