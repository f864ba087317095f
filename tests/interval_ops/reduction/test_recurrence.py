"""The linear recurrence against every kind of bracketing, in exact and in rounded arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from support import rng

from interval_ops.formats.model import BF16, FP16, FP32, FP64
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction import recurrence

SM80 = load_profile("sm_80")
DTYPES = {FP64: np.float64, FP32: np.float32, FP16: np.float16, BF16: ml_dtypes.bfloat16}


def bounds(a, b, fmt=FP32, reverse=False):
    """Bounds of a recurrence over points, or over pairs, along the only axis."""
    pair = [x if isinstance(x, tuple) else (x, x) for x in (a, b)]
    wide = [tuple(np.asarray(end, np.float64)[None] for end in p) for p in pair]
    lo, hi = recurrence.linear(*wide, 1, reverse, fmt, SM80)
    return lo[0], hi[0]


def combine(left, right, dtype, fused):
    """One legal combination in the format: each operation rounded, or a fused multiply-add."""
    (a, b), (c, d) = left, right
    if fused and dtype == np.float32:
        grown = dtype(np.float64(b) * np.float64(c) + np.float64(d))  # the product is exact in float64
    else:
        grown = dtype(dtype(b * c) + d)
    return dtype(a * c), grown


def bracketed(items, dtype, draw):
    """A random binary tree over neighbouring ranges."""
    items = list(items)
    while len(items) > 1:
        k = int(draw.integers(0, len(items) - 1))
        items[k : k + 2] = [combine(items[k], items[k + 1], dtype, draw.integers(2))]
    return items[0]


def exact(a, b):
    h, out = Fraction(0), []
    for x, y in zip(a, b, strict=True):
        h = Fraction(float(x)) * h + Fraction(float(y))
        out.append(h)
    return out


def draws(fmt, n, seed, scale=1.0):
    r, dtype = rng(seed), DTYPES[fmt]
    return (r.normal(size=n) * scale).astype(dtype), r.normal(size=n).astype(dtype)


@pytest.mark.parametrize("fmt", DTYPES, ids=lambda f: f.name)
@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
def test_every_bracketing_lies_inside(fmt, scale):
    a, b = draws(fmt, 24, 5, scale)
    lo, hi = bounds(a, b, fmt)
    draw = rng(6)
    for _ in range(60):
        n = int(draw.integers(1, 25))
        got = float(bracketed(zip(a[:n], b[:n], strict=True), DTYPES[fmt], draw)[1])
        assert lo[n - 1] <= got <= hi[n - 1]
    for j, h in enumerate(exact(a, b)):
        assert Fraction(lo[j]) <= h <= Fraction(hi[j])


def test_the_width_is_that_of_the_formula():
    a, b = draws(FP32, 64, 7)
    lo, hi = bounds(a, b)
    m = 0.0
    for j in range(64):
        m = abs(float(a[j])) * m + abs(float(b[j]))
        assert hi[j] - lo[j] <= 2 * (2 * j * 2.0**-24 * 1.01 * m + 1e-30)


def test_reversed_runs_from_the_end():
    a, b = draws(FP32, 9, 8)
    lo, hi = bounds(a, b, reverse=True)
    ahead = bounds(a[::-1], b[::-1])
    assert np.array_equal(lo[::-1], ahead[0]) and np.array_equal(hi[::-1], ahead[1])


def test_operands_with_a_width():
    a, b = (x.astype(np.float64) for x in draws(FP32, 12, 9))
    lo, hi = bounds((a - 0.1, a + 0.1), (b - 0.1, b + 0.1))
    draw = rng(10)
    for _ in range(100):
        x, y = (np.float32(c + draw.uniform(-0.0999, 0.0999, 12)) for c in (a, b))
        got = float(bracketed(zip(x, y, strict=True), np.float32, draw)[1])
        assert lo[-1] <= got <= hi[-1]


def test_subnormal_products_that_vanish():
    """b a_1 underflows to zero in one bracketing and is exact where the factors meet first."""
    a = np.array([1.0, 2.0**-126, 2.0**126], np.float32)
    b = np.array([2.0**-30, 0.0, 0.0], np.float32)
    lo, hi = bounds(a, b)
    vanished = combine(combine((a[0], b[0]), (a[1], b[1]), np.float32, 0), (a[2], b[2]), np.float32, 0)
    kept = combine((a[0], b[0]), combine((a[1], b[1]), (a[2], b[2]), np.float32, 0), np.float32, 0)
    assert vanished[1] == 0.0 and kept[1] == np.float32(2.0**-30)
    assert lo[-1] <= 0.0 <= hi[-1] and lo[-1] <= 2.0**-30 <= hi[-1]


@pytest.mark.parametrize(("a", "b"), [
    ([1.0, 2.0**100, 2.0**100, 2.0**-120], [1.0, 0.0, 0.0, 0.0]),  # the factors overflow before they meet the small one
    ([1.0, np.inf, 1.0], [1.0, 1.0, 1.0]),
    ([1.0, 1.0, 1.0], [1.0, np.nan, 1.0]),
])  # fmt: skip
def test_what_may_overflow_has_no_bound(a, b):
    lo, hi = bounds(np.float32(a), np.float32(b))
    assert np.isnan(lo[-1]) and np.isnan(hi[-1]) and lo[0] == hi[0] == 1.0


def test_axes_and_shapes():
    r = rng(11)
    a, b = r.normal(size=(2, 3, 5, 4)), r.normal(size=(2, 3, 5, 4))
    a, b = a.astype(np.float32).astype(float), b.astype(np.float32).astype(float)
    lo, hi = recurrence.linear((a, a), (b, b), 2, False, FP32, SM80)
    h = np.zeros((2, 3, 4))
    for j in range(5):
        h = a[:, :, j] * h + b[:, :, j]
        assert (lo[:, :, j] <= h).all() and (h <= hi[:, :, j]).all()
    muted = recurrence.linear((a, a), (b, b), 2, False, FP32, SM80.mute("accumulation"))
    assert ((muted[1] - muted[0]) <= 1e-12).all()


def test_a_sum_that_overflowed_on_the_way_bounds_nothing_after_it():
    """3e38 + 3e38 is infinite in fp32, whatever factor makes it small again."""
    lo, hi = bounds(np.array([0.0, 1.0, 1e-38, 1.0]), np.array([3e38, 3e38, 0.0, 1.0]))
    assert np.isfinite([lo[0], hi[0]]).all()
    assert np.isnan(lo[1:]).all() and np.isnan(hi[1:]).all()
