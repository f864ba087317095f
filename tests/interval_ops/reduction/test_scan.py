"""Prefix rules against sequential rounding, exact sums and numpy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from containment import assert_inside, holds, to_format, well_formed
from support import rng, trials

from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction import rule as reduction
from interval_ops.reduction import scan

SM80 = load_profile("sm_80")


def test_cumsum_rounds_every_prefix() -> None:
    """U1 and the published counter-example: 64 x fp32(0.1), third prefix 0.3000000119."""
    x = np.full((1, 64), np.float64(np.float32(0.1)))
    lo, hi = scan.cumsum((x, x), 1, False, FP32, SM80)
    assert_inside((lo, hi), np.cumsum(x.astype(np.float32), 1, dtype=np.float32).astype(float))
    assert_inside((lo, hi), np.arange(1, 65) * x[:, :1])
    assert lo[0, 0] == hi[0, 0] == x[0, 0]
    assert lo[0, 2] < 0.3000000045 and hi[0, 2] >= np.float32(0.3)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("fmt", [FP32, FP16, FP64], ids=lambda f: f.name)
def test_every_prefix_is_a_sum(fmt: Format, reverse: bool) -> None:
    generator = rng(51)
    dtype = {32: np.float32, 16: np.float16, 64: np.float64}[fmt.bits]
    for shape, axis in (((2, 40), 1), ((2, 9, 5), 1), ((1, 3, 20), 2)):
        for _ in range(trials(4)):
            x = to_format(generator.standard_normal(shape), fmt)
            w = np.abs(x) * generator.choice([0.0, 1e-3], shape)
            pair = (to_format(x - w, fmt), to_format(x + w, fmt))
            out = scan.cumsum(pair, axis, reverse, fmt, SM80)
            well_formed(out)
            for v in (*pair, x):
                ordered = np.flip(v, axis) if reverse else v
                rounded = np.cumsum(ordered.astype(dtype), axis, dtype=dtype).astype(float)
                assert_inside(out, np.flip(rounded, axis) if reverse else rounded)
            last = tuple(np.take(a, 0 if reverse else -1, axis) for a in out)
            whole = reduction.sum_axis(pair, axis, shape, fmt, SM80)
            narrow, width = whole[1] - whole[0], last[1] - last[0]  # a prefix is bounded in fewer steps of its own
            assert np.all(last[0] <= whole[0] + 1e-9) and np.all(last[1] >= whole[1] - 1e-9)
            assert np.all(width <= 1.6 * narrow + 1e-9)


@pytest.mark.parametrize("fmt", [FP32, BF16, FP64], ids=lambda f: f.name)
def test_cumprod_holds_exact_prefixes(fmt: Format) -> None:
    generator = rng(52)
    x = to_format(generator.uniform(0.5, 2, (3, 30)) * generator.choice([-1, 1], (3, 30)), fmt)
    for reverse in (False, True):
        lo, hi = scan.cumprod((x, x), 1, reverse, fmt, SM80)
        for row in range(3):
            values = [Fraction(v) for v in (x[row, ::-1] if reverse else x[row])]
            for k in range(30):
                at = 29 - k if reverse else k
                assert holds(lo[row, at], hi[row, at], math.prod(values[: k + 1], start=Fraction(1)))
    if fmt is FP32:
        assert_inside(scan.cumprod((x, x), 1, False, FP32, SM80), np.cumprod(x.astype(np.float32), 1).astype(float))


def test_running_extrema() -> None:
    generator = rng(53)
    x = generator.standard_normal((2, 50))
    pair = (x - 0.1, x + 0.1)
    lo, hi = scan.cummax(pair, 1)
    assert np.array_equal(lo, np.maximum.accumulate(pair[0], 1)) and np.array_equal(
        hi, np.maximum.accumulate(pair[1], 1)
    )
    lo, hi = scan.cummin(pair, 1, True)
    assert np.array_equal(hi, np.minimum.accumulate(pair[1][:, ::-1], 1)[:, ::-1])
    x[0, 10] = np.nan
    lo, hi = scan.cummax((x, x.copy()), 1)
    assert np.isnan(lo[0, 10:]).all() and np.isnan(hi[0, 10:]).all() and not np.isnan(lo[0, :10]).any()
    p, q = scan.cummax((x, x), 1)
    assert p is q and not np.isnan(p).any()


def test_float32_points_and_muting() -> None:
    x = np.full((1, 8), 0.1, np.float32)
    lo, hi = scan.cumsum((x, x), 1, False, FP32, SM80.mute("accumulation"))
    exact = np.arange(1, 9) * np.float64(np.float32(0.1))
    assert_inside((lo, hi), exact)
    assert np.all(hi - lo < 1e-14)


@pytest.mark.parametrize("fmt", [FP32, FP16], ids=lambda f: f.name)
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_scans_that_start_anew_at_flags(kind: str, fmt: Format) -> None:
    """(flag, value) pairs merged in random bracketings, every step rounded, and the exact value of each segment."""
    generator, dtype = rng(91), {32: np.float32, 16: np.float16}[fmt.bits]
    step = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    for _ in range(trials(15)):
        n = int(generator.integers(1, 30))
        x = (generator.standard_normal(n) * (0.9 if kind == "prod" else 3)).astype(dtype)
        flags = (generator.random(n) < 0.3).astype(float)
        pair = (x[None].astype(float),) * 2
        if kind in ("max", "min"):
            lo, hi = scan.segments(pair, 1, False, kind == "max", flags[None])
        else:
            lo, hi = (scan.cumsum if kind == "sum" else scan.cumprod)(pair, 1, False, fmt, SM80, flags[None])
        for j in range(n):
            first = max([i for i in range(j + 1) if flags[i]], default=0)
            part = [Fraction(float(v)) for v in x[first : j + 1]]
            exact = {"sum": sum, "prod": math.prod, "max": max, "min": min}[kind](part)
            assert lo[0, j] <= exact <= hi[0, j]
            items = [(flags[i], x[i]) for i in range(j + 1)]
            while len(items) > 1:
                k = int(generator.integers(len(items) - 1))
                (f, v), (g, w) = items[k : k + 2]
                items[k : k + 2] = [(max(f, g), w if g else step(v, w))]
            assert lo[0, j] <= float(items[0][1]) <= hi[0, j]
