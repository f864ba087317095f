"""Moments of rows whose elements all count once: what the rule for any weights says of them, and attacks of its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from interval_ops.formats.model import FP32, FP64
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction import welford
from interval_ops.reduction.equal_weights import moments

PROFILE = load_profile("torch-cpu")


def boxes(seed: int, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = (random.standard_normal(shape) * 10.0 ** random.integers(-4, 4) + random.integers(-3, 4)).astype(np.float32)
    y = (x * (1 + 10.0 ** random.integers(-8, 0) * random.standard_normal(shape))).astype(np.float32)
    return np.minimum(x, y).astype(np.float64), np.maximum(x, y).astype(np.float64)


@pytest.mark.parametrize("shape", [(5, 1), (4, 2), (3, 7), (2, 100), (2, 1000)])
@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
def test_the_rule_for_any_weights_says_the_same(shape, fmt):
    lo, hi = boxes(shape[1], shape)
    nothing, one = np.zeros(shape), np.ones(shape)
    known = welford.reduce_axis((lo, hi), (nothing, nothing), one, 1, fmt, PROFILE, True)
    (found,) = moments((lo, hi), [(fmt, PROFILE)])
    assert known is not None
    for pair, other in zip(found, known, strict=True):
        for end, same in zip(pair, other, strict=True):
            assert np.abs(end - same) == pytest.approx(0.0, abs=1e-12 * float(np.abs(np.asarray(other)).max()))


@pytest.mark.parametrize("seed", range(4))
def test_chains_in_float32_and_exact_moments_lie_inside(seed):
    random = np.random.default_rng(seed)
    lo, hi = boxes(seed, (3, 40))
    (mean, m2), exact = moments((lo, hi), [(FP32, PROFILE), (FP64, PROFILE)])
    for _ in range(10):
        x = (lo + (hi - lo) * random.integers(0, 2, lo.shape)).astype(np.float32)
        for row in range(3):
            some = [Fraction(float(v)) for v in x[row]]
            middle = sum(some) / len(some)
            scatter = sum((v - middle) ** 2 for v in some)
            a, b = np.float32(0), np.float32(0)
            for count, v in enumerate(random.permutation(x[row]), 1):
                d = np.float32(v - a)
                a = np.float32(a + np.float32(d / np.float32(count)))
                b = np.float32(b + np.float32(d * np.float32(v - a)))
            for pair, values in ((mean, (float(middle), a)), (m2, (float(scatter), b)),
                                 (exact[0], (float(middle),)), (exact[1], (float(scatter),))):  # fmt: skip
                assert all(pair[0][row] <= v <= pair[1][row] for v in values)


def test_rows_that_are_not_finite_have_no_moments():
    lo = np.array([[1.0, 2.0], [np.nan, 1.0], [1.0, -np.inf], [1e38, -1e38]])
    (found,) = moments((lo, lo), [(FP32, PROFILE)])
    for pair in found:
        for end in pair:
            assert list(np.isnan(end)) == [False, True, True, True]
