"""Means and scatters against exact sums, and against many trees of merges in rounded arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support import rng

from interval_ops.formats.model import BF16, FP32, FP64
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction import welford

SM90 = load_profile("sm_90")
TREE = SM90.chosen(sum_order="tree")
DTYPES = {FP32: np.float32, FP64: np.float64}


def bounds(x, w, s=None, fmt=FP32, profile=SM90, guarded=True, raw=False, weighted=False):
    """((mean lo, hi), (M2 lo, hi)) of one row of points or of a pair."""
    pair = x if isinstance(x, tuple) else (x, x)
    s = np.zeros_like(pair[0]) if s is None else s
    wide = [np.asarray(a, np.float64)[None] for a in (*pair, s, s, w)]
    mean, m2, weight = (wide[0], wide[1]), (wide[2], wide[3]), wide[4]
    got = welford.reduce_axis(mean, m2, weight, 1, fmt, profile, guarded, weighted or raw, raw)
    return None if got is None else [(float(lo[0]), float(hi[0])) for lo, hi in got]


def merge(a, b, dtype, off):
    """One merge, each operation rounded; the quotient is `off` further off, as a target's division may be."""
    d, w = dtype(b[0] - a[0]), dtype(a[2] + b[2])
    r = dtype(0) if w == 0 else dtype(dtype(b[2] / w) * dtype(1 + off))
    square = dtype(dtype(dtype(d * d) * a[2]) * r)
    return dtype(a[0] + dtype(d * r)), dtype(dtype(a[1] + b[1]) + square), w


def merge_raw(a, b, dtype, off):
    """The same by raw squares."""
    one, other, w = dtype(a[0] * a[2]), dtype(b[0] * b[2]), dtype(a[2] + b[2])
    mean = dtype(dtype(dtype(one + other) / max(w, dtype(1))) * dtype(1 + off))
    sums = dtype(dtype(dtype(a[1] + dtype(one * a[0])) + b[1]) + dtype(other * b[0]))
    return mean, dtype(sums - dtype(dtype(w * mean) * mean)), w


def merge_weighted(a, b, dtype, off):
    """The mean as a weighted one, and max(w, 1) for w in it and in the share."""
    d, w = dtype(b[0] - a[0]), dtype(a[2] + b[2])
    least = max(w, dtype(1))
    mean = dtype(dtype(dtype(a[0] * a[2]) + dtype(b[0] * b[2])) / least) * dtype(1 + off)
    square = dtype(dtype(dtype(d * d) * a[2]) * dtype(dtype(b[2] / least) * dtype(1 + off)))
    return dtype(mean), dtype(dtype(a[1] + b[1]) + square), w


MERGES = {"share": merge, "weighted": merge_weighted, "raw": merge_raw}


def division(dtype, draw):
    """Two roundings off in fp32, as div.full.f32 may be; correctly rounded in fp64."""
    return float(draw.choice([0.0, 2.0**-23, -(2.0**-23)])) if dtype == np.float32 else 0.0


def any_order(parts, dtype, draw, merge=merge):
    parts = list(parts)
    style = draw.integers(3)
    while len(parts) > 1:
        n = len(parts)
        i, j = (0, 1) if style == 0 else (n - 1, 0) if style == 1 else draw.permutation(n)[:2]
        new = merge(parts[i], parts[j], dtype, division(dtype, draw))
        parts = [p for k, p in enumerate(parts) if k not in (i, j)]
        parts.insert(0 if style < 2 else int(draw.integers(0, len(parts) + 1)), new)
    return parts[0]


def balanced(parts, dtype, draw, merge=merge):
    while len(parts) > 1:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:], strict=True)
        pairs = [(a, b) if draw.integers(2) else (b, a) for a, b in pairs]
        parts = [merge(a, b, dtype, division(dtype, draw)) for a, b in pairs]
        parts = [parts[k] for k in draw.permutation(len(parts))]
    return parts[0]


def exact(x, w, s):
    x, w, s = ([Fraction(float(v)) for v in a] for a in (x, w, s))
    total = sum(w)
    mean = sum(a * b for a, b in zip(x, w, strict=True)) / total
    return mean, sum(s) + sum(b * (a - mean) ** 2 for a, b in zip(x, w, strict=True))


CASES = {
    "plain": lambda r: (r.normal(size=32) + 5, np.ones(32)),
    "masked": lambda r: (np.where(np.arange(32) < 20, r.normal(size=32) - 3, 0.0), (np.arange(32) < 20) * 1.0),
    "counts": lambda r: (r.normal(size=32), r.integers(0, 9, 32) * 1.0),
    "far": lambda r: (r.normal(size=32) * 1e-3 + 1e3, np.ones(32)),
    "flat": lambda r: (np.full(32, 0.1), np.ones(32)),
    "of nothing": lambda r: (r.normal(size=32) - 9, (np.arange(32) % 8 == 0) * 1.0),
    "tiny": lambda r: (r.normal(size=32) * 1e-20, np.ones(32)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fmt", DTYPES, ids=lambda f: f.name)
@pytest.mark.parametrize("way", MERGES)
def test_every_order_lies_inside(case, fmt, way):
    r, dtype, how = rng(71), DTYPES[fmt], MERGES[way]
    form = {"raw": way == "raw", "weighted": way == "weighted"}
    for _ in range(4):
        x, w = (np.asarray(a, dtype) for a in CASES[case](r))
        s = np.asarray(r.random(32) * (case == "counts"), dtype)
        found, trees = bounds(x, w, s, fmt, **form), bounds(x, w, s, fmt, TREE, **form)
        parts = list(zip(x, s, w, strict=True))
        for k in range(12):
            got = any_order(parts, dtype, r, how)
            assert all(lo <= float(v) <= hi for v, (lo, hi) in zip(got, found, strict=False)), k
            got = balanced([parts[i] for i in r.permutation(32)], dtype, r, how)
            assert all(lo <= float(v) <= hi for v, (lo, hi) in zip(got, trees, strict=False)), k
        for value, (lo, hi), (low, high) in zip(exact(x, w, s), found, trees, strict=True):
            assert Fraction(lo) <= value <= Fraction(hi)
            assert lo <= low and high <= hi  # a known depth never widens


def test_of_no_weight_a_guarded_mean_is_zero_or_one_of_its_own():
    x, w = np.float32([3.0, -2.0, 5.0, 7.0]), np.zeros(4)
    (low, high), (bottom, top) = bounds(x, w, weighted=True)
    assert low <= 0 <= high and bottom <= 0 <= top
    (low, high), _ = bounds(x, w)
    assert low <= -2 and high >= 7


@pytest.mark.parametrize("way", MERGES)
def test_a_difference_that_overflows_beside_no_weight_has_no_bound(way):
    """The mean of no weight may be 0, far from all the others: the square of that difference is inf, times 0 NaN."""
    x, w = np.full(4, 1e20, np.float32), np.float32([1, 0, 0, 1])
    parts = list(zip(x, np.zeros(4, np.float32), w, strict=True))
    with np.errstate(all="ignore"):
        empty = MERGES[way](parts[1], parts[2], np.float32, 0.0)
        whole = MERGES[way](MERGES[way](parts[0], empty, np.float32, 0.0), parts[3], np.float32, 0.0)
    found = bounds(x, w, raw=way == "raw", weighted=way == "weighted")
    assert np.isnan(found).all() if np.isnan(whole[1]) else found[1][0] <= whole[1] <= found[1][1]
    assert np.isnan(whole[1]) == (way != "share")


def test_the_errors_are_of_the_size_of_the_formula():
    x = rng(72).normal(size=64) + 5
    (low, high), (bottom, top) = bounds(np.float32(x), np.ones(64), profile=TREE)
    assert high - low < 2 * 6 * (8 * 8 + 8) * 2.0**-24
    assert (top - bottom) / top < 1e-3


def test_raw_squares_cost_digits_of_the_mean():
    """Six roundings of four second moments, and of the mean as much, at each of so many merges; 1000 scatters here."""
    x = rng(75).normal(size=64) + 32
    for profile, merges in ((SM90, 63), (TREE, 6)):
        _, (bottom, top) = bounds(np.float32(x), np.ones(64), profile=profile, raw=True)
        assert top - bottom < 2 * (40 * merges + 64) * 2.0**-24 * (x**2).sum()
    (low, high), (bottom, top) = bounds(x, np.ones(64), profile=SM90.mute("accumulation"), raw=True)
    assert high - low < 1e-11 and top - bottom < 1e-8


@pytest.mark.parametrize("raw", [False, True])
def test_inputs_with_a_width(raw):
    r = rng(73)
    c = r.normal(size=16)
    found = bounds((c - 0.05, c + 0.05), np.ones(16), raw=raw)
    for _ in range(50):
        x = np.float32(c + r.uniform(-0.0499, 0.0499, 16))
        parts = list(zip(x, np.float32([0] * 16), np.float32([1] * 16), strict=True))
        got = any_order(parts, np.float32, r, merge_raw if raw else merge)
        assert all(lo <= float(v) <= hi for v, (lo, hi) in zip(got, found, strict=False))


def test_what_the_rule_does_not_cover():
    x = np.arange(8.0)
    assert bounds(x, np.full(8, 0.5)) is None
    assert bounds(x, -np.ones(8)) is None
    assert bounds(x, np.full(8, 2.0**22)) is None
    assert bounds(x, np.ones(8), fmt=BF16) is None


def test_rows_without_a_bound():
    w = np.ones(8)
    for bad in (np.inf, np.nan, 3e38):
        assert np.isnan(bounds(np.array([bad, *np.arange(7.0)]), w)).all()
    masked = (np.arange(8) < 6) * 1.0
    assert np.isnan(bounds(np.arange(8.0), masked, guarded=False)).all()
    assert np.isfinite(bounds(np.arange(8.0), masked)).all()


@pytest.mark.parametrize("raw", [False, True])
def test_no_weight_at_all(raw):
    (low, high), (bottom, top) = bounds(np.arange(1.0, 9.0), np.zeros(8), raw=raw)
    assert low <= (0.0 if raw else 1.0) and high >= 8.0 and bottom <= 0.0 <= top


def test_muted_it_is_exact():
    x = rng(74).normal(size=16)
    (low, high), (bottom, top) = bounds(x, np.ones(16), profile=SM90.mute("accumulation"))
    assert high - low < 1e-12 and top - bottom < 1e-11


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fmt", [BF16, FP32, FP64], ids=lambda f: f.name)
def test_errors_of_merges_follow_their_recursion(fmt, weighted):
    """Merge by merge an error grows by 2c + u + 2uc of itself and c (1 + u) of the spread (weighted: of the largest
    element), u of the largest and four half subnormals; c is two roundings and a division. In closed form no less,
    and no more than twice as much."""
    u, spread, reach = fmt.u, np.array([0.5, 3.0]), np.array([2.0, 3.0])
    r = SM90.fn("div", fmt.name)
    c = (1 + u) ** 2 * (1 + max(r.r + r.a * 2.0**fmt.p, u)) - 1
    base = c * (1 + u) * (reach if weighted else spread) + u * reach + 4 * max(fmt.half_subnormal, 2.0**-1074)
    rounding = welford.Rounding(fmt, SM90, weighted)
    for n in (1, 2, 3, 7, 10, 100, 10_000):
        again, error = 2 * c + u + 2 * u * c, np.zeros(2)
        for _ in range(n):
            error = error * (1 + again) + base
        chain, tree = rounding.of_mean(float(n), spread, reach, None), rounding.of_mean(0.0, spread, reach, n)
        assert (tree * (1 + 1e-12) >= error).all() and (tree <= error * (1 + 1e-6)).all()
        assert (chain * (1 + 1e-12) >= error).all()  # float64 sums on our side
        if n * again < 0.25:
            assert (chain <= error * (1 + 2 * n * again + 1e-12)).all()
        assert np.isfinite(chain).all() == (n * again < 0.5)
