"""Quotients by their own sum, norms by their own squares, corrections of compensated sums: against other executions.

The executions here are numpy's float32 in random orders at random inputs of a box and at its corners, and exact
rationals; nothing of the rules is used.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from interval_ops.formats.model import FP32
from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.interpreter.builder.related import _phi, summed
from render.interpreter.handle import Handle


@triton.jit
def normalising(X, Out, M: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + at)
    if KIND == "softmax":
        e = tl.exp(x)
        y = e / tl.sum(e, 1)[:, None]
    elif KIND == "shifted":
        e = tl.exp(x - tl.max(x, 1)[:, None])
        y = e / tl.sum(e, axis=1, keep_dims=True)
    elif KIND == "share":
        y = x * (1.0 / tl.sum(x, 1))[:, None]
    elif KIND == "mean":
        y = x / (tl.sum(x, 1) / N)[:, None]
    elif KIND == "columns":
        y = x / tl.sum(x, 0)[None, :]
    elif KIND == "others":  # sums of other rows: no term of their own
        y = x / tl.sum(x, 1)[None, :]
    elif KIND == "rms":
        y = x * tl.math.rsqrt(tl.sum(x * x, 1) / N + 1e-5)[:, None]
    elif KIND == "whole":
        y = x / tl.sum(x)
    elif KIND == "shifted whole":
        e = tl.exp(x - tl.max(x))
        y = e / tl.sum(e)
    elif KIND == "squares":
        p = x * x
        y = p / tl.sum(p, 1)[:, None]
    elif KIND == "magnitudes":
        y = x / (tl.sum(tl.abs(x), 1) + 1e-6)[:, None]
    elif KIND == "below":
        p = x * 1.3
        y = p - tl.max(p, 1)[:, None]
    elif KIND == "above":
        p = x * 1.3
        y = tl.min(p, 0)[None, :] - p
    elif KIND == "l2":
        y = x / tl.sqrt(tl.sum(x * x, 1) + 1e-12)[:, None]
    else:
        d = x - (tl.sum(x, 1) / N)[:, None]
        y = d * tl.math.rsqrt(tl.sum(d * d, 1) / N + 1e-5)[:, None]
    tl.store(Out + at, y)


def normalised(x, kind):
    out = torch.empty_like(x)
    normalising[(1,)](x, out, *x.shape, kind)
    return out


def ends(fn, *args, device="sm_90", **options):
    run = Entry(fn, of_call(fn, args, {}), device, **options).run()
    (out,) = run.outputs
    return out.lo, out.hi


def box(lo, hi):
    return render.interval(torch.tensor(lo, dtype=torch.float32), torch.tensor(hi, dtype=torch.float32))


def wild_sum(x, rng, axis):
    """float32, in a random order along the axis."""
    x = np.take(x, rng.permutation(x.shape[axis]), axis)
    total = np.take(x, 0, axis)
    for k in range(1, x.shape[axis]):
        total = (total + np.take(x, k, axis)).astype(np.float32)
    return np.expand_dims(total, axis)


def executed(x, kind, rng):
    f, n = np.float32, x.shape[1]
    x = x.astype(f)
    if kind in ("softmax", "shifted"):
        x = x - x.max(1, keepdims=True) if kind == "shifted" else x
        e = np.exp(x.astype(np.float64)).astype(f)
        return e / wild_sum(e, rng, 1)
    if kind == "share":
        return x * (f(1) / wild_sum(x, rng, 1))
    if kind == "mean":
        return x / (wild_sum(x, rng, 1) / f(n))
    if kind == "columns":
        return x / wild_sum(x, rng, 0)
    if kind == "others":
        return x / wild_sum(x, rng, 1).T
    if kind == "whole":
        return x / wild_sum(x.reshape(1, -1), rng, 1)
    if kind == "shifted whole":
        e = np.exp((x - x.max()).astype(np.float64)).astype(f)
        return e / wild_sum(e.reshape(1, -1), rng, 1)
    if kind == "squares":
        p = x * x
        return p / wild_sum(p, rng, 1)
    if kind == "magnitudes":
        return x / (wild_sum(np.abs(x), rng, 1) + f(1e-6))
    if kind in ("below", "above"):  # the product fused into the difference, or not
        p = x * f(1.3)
        far = p.max(1, keepdims=True) if kind == "below" else p.min(0, keepdims=True)
        p = x.astype(np.float64) * float(f(1.3)) if rng.random() < 0.5 else p
        return (p - far if kind == "below" else far - p).astype(f)
    if kind == "centred":
        x = x - wild_sum(x, rng, 1) / f(n)
    t = wild_sum(x * x, rng, 1)
    if kind == "l2":
        return x / np.sqrt(t + f(1e-12))
    return x * (f(1) / np.sqrt(t / f(n) + f(1e-5)).astype(f))


POSITIVE = ["share", "mean", "columns", "others", "whole", "squares"]
KINDS = ["softmax", "shifted", "rms", "l2", "centred", "shifted whole", "magnitudes", "below", "above", *POSITIVE]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [0.3, 4.0])
def test_no_execution_of_a_box_leaves_the_bound(kind, width):
    rng = np.random.default_rng(len(kind))
    n = 4
    for turn in range(3):
        positive = kind in POSITIVE
        mid = rng.uniform(0.1, 2, (n, n)) if positive else rng.normal(size=(n, n)) * (3 if turn % 2 else 0.3)
        lo, hi = (mid - width * rng.random((n, n))), (mid + width * rng.random((n, n)))
        lo = np.maximum(lo, 0.01) if positive else lo
        lo, hi = lo.astype(np.float32), np.maximum(lo, hi).astype(np.float32)
        low, high = ends(normalised, render.interval(torch.from_numpy(lo), torch.from_numpy(hi)), kind)
        for i in range(40):
            t = rng.random((n, n)) if i % 2 else rng.integers(0, 2, (n, n))
            y = executed(np.clip(lo + (hi - lo) * t, lo, hi), kind, rng)
            assert ((low <= y) & (y <= high)).all(), (kind, width)
        for at in np.ndindex(n, n):  # one at one end, the others at the other end: where the range of a share ends
            for own, rest in ((lo, hi), (hi, lo)):
                x = rest.copy()
                x[at] = own[at]
                y = executed(x, kind, rng)
                lines = [(at[0], slice(None)), (slice(None), at[1])]
                assert all(((low[p] <= y[p]) & (y[p] <= high[p])).all() for p in lines)


@pytest.mark.parametrize("kind", ["softmax", "shifted", "shifted whole"])
def test_a_softmax_over_a_box_is_within_twice_its_range(kind):
    """[-4, 0]^n: every element between e^-4 / (e^-4 + n - 1) and 1 / (1 + (n - 1) e^-4)."""
    low, high = ends(normalised, box([[-4.0] * 4] * 4, [[0.0] * 4] * 4), kind)
    others = 15 if kind == "shifted whole" else 3
    least, most = np.exp(-4) / (np.exp(-4) + others), 1 / (1 + others * np.exp(-4))
    assert (low <= least).all() and (high >= most).all()
    assert ((high - low) <= 2 * (most - least)).all()


@triton.jit
def row_kernel(X, Out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + at)
    tl.store(Out + at, x / tl.sqrt(tl.sum(x * x) / N + 1e-6))


def rows_of_one_program(x):
    out = torch.empty_like(x)
    row_kernel[(len(x),)](x, out, x.shape[1])
    return out


def test_a_sum_without_an_axis_is_one_of_the_block():
    low, high = ends(rows_of_one_program, box([[-3.0] * 4] * 2, [[5.0] * 4] * 2))
    assert (np.abs(low) <= 2.002).all() and (np.abs(high) <= 2.002).all()


def test_shares_of_squares_and_of_magnitudes_are_at_most_the_whole():
    low, high = ends(normalised, box([[0.5] * 4] * 4, [[3.0] * 4] * 4), "squares")
    assert (low > 0.0092 * 0.99).all() and (high < 0.9231 * 1.01).all()
    low, high = ends(normalised, box([[-3.0] * 4] * 4, [[5.0] * 4] * 4), "magnitudes")
    assert (low >= -1.001).all() and (high <= 1.001).all()


def test_a_difference_from_the_own_extreme_has_its_sign():
    low, high = ends(normalised, box([[-3.0] * 4] * 4, [[5.0] * 4] * 4), "below")
    assert (high < 1e-5).all() and (high > 0).all() and (low <= -10.39).all()


def test_norms_by_own_squares_are_bounded_by_their_length():
    for kind, most in (("rms", 4**0.5), ("l2", 1.0)):
        low, high = ends(normalised, box([[-3.0] * 4] * 4, [[5.0] * 4] * 4), kind)
        assert (np.abs(low) <= 1.001 * most).all() and (np.abs(high) <= 1.001 * most).all()


@triton.jit
def compensating(X, Out, Rest, STEPS: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, N)
    s = tl.zeros((N,), tl.float32)
    c = tl.zeros((N,), tl.float32)
    for k in range(STEPS):
        x = tl.load(X + k * N + at)
        if KIND == "kahan":
            y = x - c
            t = s + y
            c = (t - s) - y
            s = t
        elif KIND == "fast":
            t = s + x
            c += x - (t - s)
            s = t
        elif KIND == "twosum":
            t = s + x
            b = t - s
            a = t - b
            c += (s - a) + (x - b)
            s = t
        else:
            t = s + x
            c += tl.where(tl.abs(s) >= tl.abs(x), (s - t) + x, (x - t) + s)
            s = t
    tl.store(Rest + at, c)
    tl.store(Out + at, s if KIND == "kahan" else s + c)


def compensated(x, kind):
    out, rest = torch.empty(x.shape[1]), torch.empty(x.shape[1])
    compensating[(1,)](x, out, rest, *x.shape, kind)
    return out


def corrected(terms, kind):
    s = c = np.float32(0)
    for x in terms:
        if kind == "kahan":
            y = x - c
            t = s + y
            c, s = (t - s) - y, t
            continue
        t = s + x
        if kind == "fast":
            c += x - (t - s)
        elif kind == "twosum":
            b = t - s
            c += (s - (t - b)) + (x - b)
        else:
            c += (s - t) + x if abs(s) >= abs(x) else (x - t) + s
        s = t
    return s if kind == "kahan" else s + c


@pytest.mark.parametrize("kind", ["kahan", "fast", "twosum", "neumaier"])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.5])
def test_compensated_sums_stay_in_bounds_that_say_something(kind, spread):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(64, 4)).astype(np.float32)
    lo, hi = (x - np.float32(spread)), (x + np.float32(spread))
    low, high = ends(compensated, render.interval(torch.from_numpy(lo), torch.from_numpy(hi)), kind)
    for i in range(20):
        t = rng.random(x.shape) if i % 2 else rng.integers(0, 2, x.shape)
        given = np.clip(lo + (hi - lo) * t, lo, hi).astype(np.float32)
        for column in range(4):
            y = corrected(given[:, column], kind)
            exact = float(sum(map(Fraction, given[:, column].tolist())))
            assert low[column] <= y <= high[column] and low[column] <= exact <= high[column]
    size = np.abs(x).sum(0)
    assert ((high - low) <= 2 * 64 * spread * 1.1 + 64 * 2.0**-20 * size).all()


def test_a_kahan_sum_of_thousands_has_a_bound():
    x = torch.randn(4096, 2, generator=torch.Generator().manual_seed(0))
    low, high = ends(compensated, x, "kahan")
    assert ((high - low) < 1.0).all()


def without_the_last(x, kind):
    return compensated(x[:-1], kind)


@pytest.mark.parametrize("kind", ["kahan", "neumaier"])
def test_right_and_wrong_twins(kind):
    """The second evaluation knows corrections by writing sums out, so that a bug of a compensated sum is confirmed."""
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))

    def summed(x, kind):
        return x.double().sum(0).float()

    assert render.classify(compensated, x, kind, ref=summed, device="sm_90").label == "Type-I"
    wrong = render.classify(without_the_last, x, kind, ref=summed, device="sm_90")
    assert (wrong.label, wrong.code) == ("Type-II", "RND201") and wrong.witness.status == "agrees"


@triton.jit
def repeating(X, Out, M: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))[None, :]
    rows = tl.broadcast_to(x, (M, N))
    if KIND == "rows":
        y = x / tl.sum(rows, 0)[None, :]
    elif KIND == "row":
        y = rows / tl.sum(x, 0)[None, :]
    elif KIND == "whole":
        y = x / tl.sum(rows)
    elif KIND == "length":
        y = x * tl.rsqrt(tl.sum(rows * rows))
    else:
        y = rows / tl.sum(x)
    y = tl.broadcast_to(y, (M, N))
    tl.store(Out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], y)


def repeated(x, rows, kind):
    out = torch.empty(rows, len(x))
    repeating[(1,)](x, out, rows, len(x), kind)
    return out


@pytest.mark.parametrize("kind", ["rows", "row", "whole", "part", "length"])
def test_lanes_that_repeat_a_value_are_terms_of_their_own(kind):
    rng, m = np.random.default_rng(0), 4
    lo = rng.uniform(0.5, 1, 8).astype(np.float32)
    hi = lo * np.float32(1.5)
    low, high = ends(repeated, render.interval(torch.from_numpy(lo), torch.from_numpy(hi)), m, kind)
    for _ in range(50):
        x = np.where(rng.random(8) < 0.5, lo, hi).astype(np.float64)
        total = {"rows": m * x, "row": x, "whole": m * x.sum(), "part": x.sum()}
        y = x / (np.sqrt(m * (x * x).sum()) if kind == "length" else total[kind])
        assert ((low <= y * (1 + 1e-6)) & (y * (1 - 1e-6) <= high)).all()


@triton.jit
def widening(X, Out, N: tl.constexpr, KIND: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))[None, :]
    if KIND == "mean":
        t = tl.sum(x, 1) * 0.0009765625
        y = x.to(tl.float32) / t.to(tl.float32)[:, None]
    else:
        t = tl.sum((x * x).to(tl.float32), 1)
        y = x.to(tl.float32) * tl.rsqrt(t)[:, None]
    tl.store(Out + tl.arange(0, N)[None, :], y)


def widened(x, kind):
    out = torch.empty(len(x))
    widening[(1,)](x, out, len(x), kind)
    return out


@pytest.mark.parametrize(("kind", "scale"), [("mean", 2.0**-14), ("squares", 1.0), ("squares", 2.0**-8)])
def test_what_was_rounded_before_a_cast_keeps_that_error(kind, scale):
    rng, half, n = np.random.default_rng(0), np.float16, 4
    for _ in range(5):
        lo = (rng.uniform(0.5, 1, n) * scale).astype(half)
        hi = np.where(np.arange(n) == 0, lo * half(1.6), lo)
        low, high = ends(widened, render.interval(torch.from_numpy(lo), torch.from_numpy(hi)), kind)
        for t in rng.random((100, 1)):
            x = (lo + (hi - lo) * t.astype(half)).astype(half)
            if kind == "mean":  # multiples of the smallest number, so that their sum is exact
                y = x.astype(np.float32) / np.float32(half(x.sum(dtype=np.float64) * 2.0**-10))
            else:
                y = x.astype(np.float32) / np.sqrt((x * x).sum(dtype=np.float32))
            assert ((low <= y * (1 + 1e-6)) & (y * (1 - 1e-6) <= high)).all()


@triton.jit
def scaling(X, Out, N: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))[None, :]
    y = x * (3.4028234663852886e38 / tl.sum(x, 1))[:, None]
    tl.store(Out + tl.arange(0, N)[None, :], y)


def scaled(x):
    out = torch.empty_like(x)
    scaling[(1,)](x, out, len(x))
    return out


def test_a_share_that_may_overflow_is_not_bounded_by_a_number():
    """x (max / x) may be more than the largest number, after two roundings; the other terms are lost in the sum."""
    x = np.arange(1024, 2048, dtype=np.float32)
    with np.errstate(over="ignore"):
        most = float(x[np.isinf(x * (np.finfo(np.float32).max / x))][0])
    _, high = ends(scaled, render.interval(*(torch.tensor([end, 1e-6, 1e-6, 1e-6]) for end in (most / 2, most))))
    assert np.isinf(high[0])


@pytest.mark.parametrize("seed", range(20))
def test_a_formula_of_a_sum_lies_between_its_ends(seed: int) -> None:
    """Steps in any order, each constant somewhere between its ends; in rationals but for the power."""
    g = np.random.default_rng(seed)
    total, steps = np.exp(g.uniform(-3, 3, 6)), []
    for kind in g.permutation(["scale", "shift", "power", "scale"])[: int(g.integers(1, 5))]:
        less = float(np.exp(g.uniform(-1, 1)))
        steps.append((kind, float(g.choice([-0.5, 0.5])), 0.0) if kind == "power" else (kind, less, less * 1.01))
    (lo, hi), fits = _phi(total, np.zeros(6), SimpleNamespace(steps=steps), FP32)
    assert fits.all()
    for share in (0.0, 0.3, 1.0):
        at = total.copy()
        for kind, less, more in steps:
            number = less + share * (more - less)
            at = at**less if kind == "power" else at * number if kind == "scale" else at + number
        assert (lo * (1 - 1e-12) <= at).all() and (at <= hi * (1 + 1e-12)).all(), (steps, share)
    assert (hi <= lo * 1.05).all()


@pytest.mark.parametrize("end", [2.0**-107, 2.0**-105, 2.0**-102, 1.0, 2.0**123, 2.0**125, 2.0**126])
def test_a_formula_keeps_away_from_the_ends_of_the_range(end: float) -> None:
    """Each value on the way: the sum itself below 2^-4 of the largest number, what a power is of and what comes out
    above 2^20 of the smallest."""
    for steps in ([], [("scale", 1.0, 1.0)], [("power", 0.5, 0.0)], [("power", -0.5, 0.0)], [("shift", 1.0, 1.0)]):
        _, fits = _phi(np.array([end]), np.zeros(1), SimpleNamespace(steps=steps), FP32)
        small, large = end <= 2.0**-106, end >= 2.0**-4 * FP32.max
        assert fits.item() is not (large or (small and bool(steps) and steps[0][0] != "shift")), steps


@triton.jit
def subtracting(X, Out, N: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(X + at), tl.load(X + N + at)
    z, w = tl.load(X + 2 * N + at), tl.load(X + 3 * N + at)
    near = (w + z) - w
    s = x + z if KIND == "term" else x + y if KIND == "other" else x - z
    tl.store(Out + at, s - near)


def subtracted(x, kind):
    out = torch.empty(x.shape[1])
    subtracting[(1,)](x, out, x.shape[1], kind)
    return out


@pytest.mark.parametrize("kind", ["term", "other", "less"])
def test_a_sum_less_what_is_near_to_its_term_is_the_other_term(kind):
    """And a sum less what is near to another value, or a difference less its second term once more, is not."""
    lo = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)
    hi = lo.copy()
    hi[2] += np.float32(0.5)
    low, high = ends(subtracted, render.interval(torch.from_numpy(lo), torch.from_numpy(hi)), kind)
    for x, y, z, w in (lo, hi):
        s = x + z if kind == "term" else x + y if kind == "other" else x - z
        y = s - ((w + z) - w)
        assert (low <= y).all() and (y <= high).all()
    assert ((high - low) < {"term": 2.0**-17, "other": 0.51, "less": 1.01}[kind]).all()


@pytest.mark.parametrize("n", [2, 5, 64])
@pytest.mark.parametrize(("trees", "muted"), [(True, ()), (False, ()), (True, ("arith",)), (False, ("accumulation",))])
def test_a_total_is_charged_for_every_rounding_on_its_way(n, trees, muted):
    """Each addition that an addend goes through, and twice its own rounding: a product may be contracted."""
    x = Handle(np.ones((1, n), np.float32), tl.float32, (n,), np.zeros((1, n)), np.ones((1, n)))
    total = Handle(np.ones((1, 1), np.float32), tl.float32, (1,), np.zeros((1, 1)), np.ones((1, 1)))
    summed(x, total, 0, FP32, SimpleNamespace(trees=trees, muted=lambda cause: cause in muted))
    additions = 0 if "accumulation" in muted else math.ceil(math.log2(n)) if trees else n - 1
    wanted = (1 + Fraction(1, 2**24)) ** (additions + (0 if "arith" in muted else 2)) - 1
    assert wanted <= Fraction(total.kin.error) <= wanted * Fraction(1001, 1000) + Fraction(1, 2**45)
