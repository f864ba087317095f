"""Pairs of maximum and sum of exponentials against float32 merges in random trees, with roundings of their own."""

from __future__ import annotations

import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import CAUSES, load_profile
from interval_ops.reduction.logsumexp import reduce_axis

FP32 = FORMATS["fp32"]
F = np.float32


def merged(x, y, base, rng):
    """One merge; the exponential is off by as much as ex2.approx documents, in a random direction."""
    m = max(x[0], y[0])
    out = F(0)
    for a, s in (x, y):
        power = base(np.float64(F(a - m))) * (1 + rng.uniform(-2, 2) * 2.0**-23)
        out = F(out + F(s * F(power if power >= 2.0**-126 or rng.random() < 0.5 else 0)))
    return m, out


@pytest.mark.parametrize("name", ["exp", "exp2"])
@pytest.mark.parametrize("spread", [0.1, 5.0, 60.0])
@pytest.mark.parametrize("profile", ["sm_90", "any"])
def test_no_order_leaves_the_bound(name, spread, profile):
    rng = np.random.default_rng(3)
    base, known = getattr(np, name), load_profile(profile)
    for n in (2, 8, 33):
        m, s = (rng.normal(size=n) * spread).astype(F), rng.random(n).astype(F)
        m[rng.integers(n)] = -1e30
        top, (total,) = reduce_axis((m[None],) * 2, [(s[None],) * 2], 1, FP32, known, name)
        low, high = float(total[0].item()), float(total[1].item())
        exact = float((s.astype(float) * base(m.astype(float) - m.max())).sum())
        assert top[0].item() == top[1].item() == m.max() and low <= exact <= high
        assert high - low <= 1e-4 * exact
        for _ in range(20):
            left = [(m[i], s[i]) for i in rng.permutation(n)]
            while len(left) > 1:
                i = int(rng.integers(len(left) - 1))
                left[i : i + 2] = [merged(left[i], left[i + 1], base, rng)]
            assert low <= left[0][1] <= high


def test_without_rounding_the_exact_value_is_left():
    m, s = np.array([[1.0, -3.0, 0.5]]), np.array([[1.0, 2.0, 0.25]])
    _, ((low, high),) = reduce_axis((m, m), [(s, s)], 1, FP32, load_profile("sm_90").mute(*CAUSES), "exp")
    exact = 1.0 + 2 * np.exp(-4.0) + 0.25 * np.exp(-0.5)
    assert low <= exact <= high and high - low < 1e-12


def test_bounds_of_intervals_hold_their_corners():
    ml, mh = np.array([[0.0, -1.0, 0.3]]), np.array([[0.5, 1.0, 0.4]])
    sl, sh = np.array([[0.0, 1.0, 2.0]]), np.array([[1.0, 1.5, 2.0]])
    top, ((low, high), (below, above)) = reduce_axis(
        (ml, mh), [(sl, sh), (-sh, 1 - sl)], 1, FP32, load_profile("sm_90"), "exp"
    )
    assert (top[0], top[1]) == (0.3, 1.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        m, s = ml + (mh - ml) * rng.random(3), sl + (sh - sl) * rng.random(3)
        assert low <= (s * np.exp(m - m.max())).sum() <= high
        signed = -sh + (1 - sl + sh) * rng.random(3)
        assert below <= (signed * np.exp(m - m.max())).sum() <= above


def test_values_of_either_sign_ride_along():
    """A maximum, a sum and two sums of values, as attention merges them."""
    rng, known = np.random.default_rng(5), load_profile("sm_90")
    for n in (3, 17, 64):
        m, s = (rng.normal(size=n) * 4).astype(F), [rng.normal(size=n).astype(F) for _ in range(2)]
        _, found = reduce_axis((m[None],) * 2, [(x[None],) * 2 for x in s], 1, FP32, known, "exp")
        for x, (low, high) in zip(s, found, strict=True):
            assert low <= (x.astype(float) * np.exp(m.astype(float) - m.max())).sum() <= high
            for _ in range(20):
                left = [(m[i], x[i]) for i in rng.permutation(n)]
                while len(left) > 1:
                    i = int(rng.integers(len(left) - 1))
                    left[i : i + 2] = [merged(left[i], left[i + 1], np.exp, rng)]
                assert low <= left[0][1] <= high
            assert high - low <= 1e-3 * np.abs(x).sum()


def test_what_has_no_rule():
    m, s = np.array([[0.0, -np.inf]]), np.array([[1.0, 1.0]])
    sm = load_profile("sm_90")
    assert reduce_axis((-m, -m), [(s, s)], 1, FP32, sm, "exp") is None
    assert reduce_axis((m, s), [(s, s)], 1, FP32, sm, "exp") is None
    assert reduce_axis((s, s), [(s, s), (m, m)], 1, FP32, sm, "exp") is None
    assert reduce_axis((s, s), [(s, s)], 1, FORMATS["fp16"], sm, "exp") is None


@pytest.mark.parametrize("base", ["exp", "exp2"])
def test_what_is_empty_counts_nothing_and_two_neighbours_of_it_give_nan(base):
    rng, sm = np.random.default_rng(5), load_profile("sm_90")
    m = rng.normal(size=(4, 9)).astype(F)
    m[1, 3] = m[2, 3] = m[2, 4] = -np.inf
    m[3] = -np.inf
    s = rng.random((4, 9)).astype(F)
    assert reduce_axis((m, m), [(s, s)], 1, FP32, sm, base) is None
    apart = m[1:2].copy()
    apart[0, 6] = -np.inf
    assert np.isfinite(reduce_axis((apart, apart), [(s[:1],) * 2], 1, FP32, sm, base, ordered=True)[1][0][1]).all()
    top, ((low, high),) = reduce_axis((m, m), [(s, s)], 1, FP32, sm, base, ordered=True)
    assert (top[0] == m.max(1)).all() and np.isnan(low[2:]).all() and np.isnan(high[2:]).all()
    rest = np.delete(np.arange(9), 3)
    for row, kept in ((0, np.arange(9)), (1, rest)):
        for _ in range(20):
            left = [(m[row, i], s[row, i]) for i in rng.permutation(9)]
            while len(left) > 1:
                i = int(rng.integers(len(left) - 1))
                left[i : i + 2] = [merged(left[i], left[i + 1], getattr(np, base), rng)]
            assert low[row] <= left[0][1] <= high[row]
        exact = (s[row, kept].astype(float) * getattr(np, base)(m[row, kept].astype(float) - m[row].max())).sum()
        assert high[row] - low[row] <= 1e-4 * exact
    alone = reduce_axis((m[3:, :1],) * 2, [(s[3:, :1],) * 2], 1, FP32, sm, base)
    assert alone[0][0] == -np.inf and alone[1][0][0] == s[3, 0]


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_a_merge_rounds_in_products_and_in_sums(name):
    """Without one of the two causes a bound is narrower by no more than the argument's rounding."""
    m, s, known = np.zeros((1, 9)), np.ones((1, 9)), load_profile("sm_90").mute("function", "cast")
    width = {}
    for causes in ((), ("arith",), ("accumulation",), ("arith", "accumulation")):
        _, ((low, high),) = reduce_axis((m, m), [(s, s)], 1, FP32, known.mute(*causes), name)
        assert low[0] <= 9 <= high[0]
        width[causes] = float(high[0] - low[0])
    assert min(width[()], width["arith",], width["accumulation",]) > 1e3 * width["arith", "accumulation"]


@pytest.mark.parametrize("sign", [1, -1])
def test_terms_that_may_overflow_bound_nothing(sign):
    """The larger end of each term counts: sums of small lower ends may be as large as those of their upper ones."""
    m, sm = np.zeros((1, 5)), load_profile("sm_90")
    for size, bounded in ((FP32.max / 4, False), (FP32.max / 64, True)):
        ends = sorted((0.0, sign * size))
        low, high = (np.full((1, 5), e) for e in ends)
        _, ((total_low, total_high),) = reduce_axis((m, m), [(low, high)], 1, FP32, sm, "exp")
        assert (np.isfinite(total_low[0]) and np.isfinite(total_high[0])) == bounded
        if bounded:
            assert total_low[0] <= 5 * ends[0] and 5 * ends[1] <= total_high[0]
