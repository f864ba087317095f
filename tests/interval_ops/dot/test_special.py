"""Infinities, NaN, overflow, zeros, tiny products, integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from block_fma import operand_pair
from dot_support import chain_interval, dot, inside, point
from support import exact, rng

from interval_ops.dot.integer import dot_int
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FP8E4NV, FP32
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("kind", ("fp16", "tf32", "tf32x3", "fp8", "fp64", "fp16acc"))
@pytest.mark.parametrize("bad", (math.inf, -math.inf, math.nan))
@pytest.mark.parametrize("interval", (False, True))
def test_infinities_and_nan_reach_their_row_or_column_only(kind, bad, interval):
    profile = load_profile("sm_80")
    a, b = np.ones((2, 3, 8), np.float32), np.ones((2, 8, 4), np.float32)
    a[0, 1, 2] = bad
    b[1, 3, 2] = bad
    pa = (a.astype(np.float64), a.astype(np.float64)) if interval else point(a)
    lo, hi = PendingDot.start(None, (3, 4), kind, profile).extend(pa, point(b)).interval()
    expected = np.zeros((2, 3, 4), bool)
    expected[0, 1] = expected[1, :, 2] = True
    assert np.array_equal(np.isnan(lo), expected)
    assert np.array_equal(np.isnan(hi), expected)
    c = np.zeros((2, 3, 4))
    c[0, 0, 0] = bad
    lo, hi = PendingDot.start(point(c), (3, 4), kind, profile).extend(pa, point(b)).interval()
    assert math.isnan(lo[0, 0, 0])
    assert math.isnan(hi[0, 0, 0])


@pytest.mark.parametrize(
    ("kind", "size"), (("fp16acc", 250.0), ("ieee", 1e19), ("tf32", 1e19), ("bf16", 1e19), ("fp64", 1e154))
)
def test_overflow_of_the_accumulator_is_unbounded(kind, size):
    a, b = np.full((1, 1, 4), size), np.full((1, 4, 2), size)
    b[..., 1] /= 8
    lo, hi = dot(a, b, kind, load_profile("sm_80"))
    assert np.isnan([lo[0, 0, 0], hi[0, 0, 0]]).all()
    assert np.isfinite([lo[0, 0, 1], hi[0, 0, 1]]).all()


def test_exact_zeros_stay():
    profile = load_profile("any")
    generator = rng(61)
    a, b = operand_pair(generator, 1, 4, 4, 32, FP8E4NV, "plain")
    a[0, 1] = 0
    b[0, :, 2] = 0
    a[0, 2, :16] = 0
    b[0, 16:, 3] = 0
    for kind in ("fp8", "fp16", "tf32", "fp64", "tf32x3"):
        lo, hi = dot(a, b, kind, profile)
        for i, j in ((1, 0), (0, 2), (2, 3)):
            assert lo[0, i, j] == hi[0, i, j] == 0
        if kind in ("fp64", "tf32x3"):  # in the others these few bits are exact in any order
            assert (lo[0, 0, :2] < hi[0, 0, :2]).all()
    zero = np.zeros((1, 16, 16), np.float32)
    assert not np.any(dot(zero, zero, "fp16", profile))


def test_tiny_products_do_not_vanish():
    """Products far below float32's range keep their magnitude in the bound."""
    for size in (2.0**-100, 2.0**-140, 2.0**-149):
        a, b = np.full((1, 1, 3), size, np.float32), np.full((1, 3, 1), size, np.float32)
        for kind in ("ieee", "bf16", "tf32"):
            lo, hi = (x.item() for x in dot(a, b, kind, load_profile("sm_80")))
            assert lo <= 0 <= hi
            assert inside(lo, hi, 3 * exact(size) ** 2)
            assert hi < 1e-38


def test_only_addends():
    profile = load_profile("sm_80")
    c = np.array([[[1.0, -2.0]]])
    pending = PendingDot.start((c, c), (1, 2), "fp16", profile)
    lo, hi = pending.interval()
    assert (lo <= c).all()
    assert (hi >= c).all()
    assert np.allclose(lo, c, atol=1e-6)


def test_mixed_points_and_intervals_in_one_chain():
    generator, profile = rng(62), load_profile("sm_80")
    a, b = operand_pair(generator, 2, 3, 3, 32, FP32, "plain")
    point_only = chain_interval(a, b, "tf32", profile, 16)
    pending = PendingDot.start(None, (3, 3), "tf32", profile)
    wide = a[..., 16:].astype(np.float64)
    pending = pending.extend(point(a[..., :16]), point(b[:, :16])).extend((wide - 1e-9, wide + 1e-9), point(b[:, 16:]))
    lo, hi = pending.interval()
    assert (lo <= point_only[0] + 1e-9).all()
    assert (hi >= point_only[1] - 1e-9).all()
    assert np.allclose(hi - lo, point_only[1] - point_only[0], rtol=1e-3, atol=1e-6)


def test_integer_dots_are_exact():
    generator = rng(71)
    a, b = (generator.integers(-128, 128, s).astype(np.int8) for s in ((2, 5, 64), (2, 64, 3)))
    c = generator.integers(-(10**6), 10**6, (2, 5, 3)).astype(np.int32)
    expected = a.astype(np.int64) @ b.astype(np.int64) + c
    for name in ("sm_80", "sm_90", "any", "ieee"):
        values, warned = dot_int(a, b, c, load_profile(name))
        assert values.dtype == np.int32
        assert np.array_equal(values, expected)
        assert not warned
        lo, hi = PendingDot.start(point(c), (5, 3), "int8", load_profile(name)).extend(point(a), point(b)).interval()
        assert np.array_equal(lo, expected)
        assert np.array_equal(hi, expected)


def test_integer_overflow_follows_the_profile():
    a = np.full((1, 1, 2), 127, np.int8)
    c = np.full((1, 1, 1), 2**31 - 1, np.int32)
    b = a.reshape(1, 2, 1)
    saturated, warned = dot_int(a, b, c, load_profile("sm_80"))
    assert saturated.item() == 2**31 - 1
    assert warned
    wrapped, warned = dot_int(a, b, c, load_profile("torch-cpu"))
    assert wrapped.item() == 2 * 127 * 127 + 2**31 - 1 - 2**32
    lo, hi = PendingDot.start(point(c), (1, 1), "int8", load_profile("any")).extend(point(a), point(b)).interval()
    assert np.isnan([lo.item(), hi.item()]).all()
