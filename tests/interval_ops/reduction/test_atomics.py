"""Atomic sums against random orders with one rounding per add."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from containment import assert_inside, holds, rounded, to_format, well_formed
from support import rng, trials

from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction.atomics import close_sum

IEEE, SM80 = load_profile("ieee"), load_profile("sm_80")


def any_order(generator: np.random.Generator, base: float, x: np.ndarray, fmt: Format) -> float:
    total = base
    for v in generator.permutation(x):
        if math.isinf(total):
            break
        exact = Fraction(total) + Fraction(v)
        total = total + v if fmt.bits == 64 else rounded(exact, fmt)
    return total


@pytest.mark.parametrize("onto", [0.0, 1.0], ids=["nothing", "something"])
@pytest.mark.parametrize("fmt", [FP32, FP16, BF16, FP64], ids=lambda f: f.name)
def test_every_order_is_inside(fmt: Format, onto: float) -> None:
    generator = rng(61)
    for _ in range(trials(50)):
        n = int(generator.integers(1, 30 if generator.random() < 0.5 else 4))
        x, base = to_format(generator.standard_normal(n), fmt), to_format(onto * generator.standard_normal(1), fmt)
        out = close_sum(base, *(np.array([v.sum()]) for v in (x, x, np.abs(x))), np.array([n]), fmt, IEEE)
        well_formed(out)
        assert holds(out[0][0], out[1][0], Fraction(base[0]) + sum(map(Fraction, x), Fraction(0)))
        for _ in range(4):
            assert_inside(out, np.array([any_order(generator, base[0], x, fmt)]))


def test_one_addend_onto_nothing_is_the_sum() -> None:
    """A counter of one program is 1; what is subnormal may be flushed (sm_80), as may what only reaches down there."""
    x, one = np.array([1.0, -0.3, 0.0, 2.0**-126, 2.0**-127]), np.ones(5)
    lo, hi = close_sum(np.zeros(5), x, x, np.abs(x), one, FP32, SM80)
    assert np.array_equal(lo[:4], x[:4]) and np.array_equal(hi[:4], x[:4]) and lo[4] <= 0
    low, high = close_sum(np.zeros(1), np.array([-1.0]), np.array([2.0]), np.array([2.0]), np.ones(1), FP32, IEEE)
    assert (low, high) == (-1.0, 2.0)
    reaching = close_sum(np.zeros(1), np.array([2.0**-130]), np.array([1.0]), np.array([1.0]), np.ones(1), FP32, SM80)
    assert_inside(reaching, np.array([0.0]))
    based, _ = close_sum(np.ones(1), x[:1], x[:1], x[:1], np.ones(1), FP32, IEEE)
    assert based[0] < 2.0


def test_order_of_atomics_matters() -> None:
    """U17: 1e8, 1, -1e8, 1 may give 2, 1 or 0 in fp32."""
    x = to_format(np.array([1e8, 1.0, -1e8, 1.0]), FP32)
    total, magnitude = x.sum(keepdims=True), np.abs(x).sum(keepdims=True)
    out = close_sum(np.zeros(1), total, total, magnitude, np.array([4]), FP32, SM80)
    for v in (0.0, 1.0, 2.0):
        assert_inside(out, np.array([v]))


def test_split_k_rounds_every_partial() -> None:
    """U24: fp16 partial sums, one rounding per atomic add."""
    x = np.array([1.00684, 1.04883, 1.07910, 1.05664])
    x = to_format(x, FP16)
    out = close_sum(np.zeros(1), *(np.array([x.sum()]),) * 3, np.array([4]), FP16, SM80)
    assert_inside(out, np.array([4.1875]))


def test_flush_of_subnormal_adds() -> None:
    tiny = np.array([2.0**-127])
    lo, _ = close_sum(np.zeros(1), 2 * tiny, 2 * tiny, 2 * tiny, np.array([2]), FP32, SM80)
    assert lo[0] <= 0
    lo, _ = close_sum(np.zeros(1), 2 * tiny, 2 * tiny, 2 * tiny, np.array([2]), FP32, IEEE)
    assert lo[0] > 0.99 * 2.0**-126


def test_nothing_added_and_overflow() -> None:
    base = (np.array([1.0]), np.array([2.0]))
    zero = np.zeros(1)
    lo, hi = close_sum(base, zero, zero, zero, np.array([0]), FP32, SM80)
    assert (lo[0], hi[0]) == (1.0, 2.0)
    big = np.array([3e38])
    lo, hi = close_sum(big, big, big, big, np.array([1]), FP32, SM80)
    assert lo[0] <= 6e38 and hi[0] == math.inf
    assert np.isnan(close_sum(big, 0 * big, 0 * big, 2 * big, np.array([2]), FP32, SM80)[0][0])
    lo, hi = close_sum(np.array([0.1]), np.array([0.2]), np.array([0.2]), np.array([0.2]), np.array([1]), FP32,
                       SM80.mute("accumulation"))  # fmt: skip
    assert hi[0] - lo[0] < 1e-15


@pytest.mark.parametrize("fmt", [FP16, FP32, FP64], ids=lambda f: f.name)
def test_infinite_addends_hold_every_order(fmt: Format) -> None:
    """Numbers and infinities between the ends, added in numpy's arithmetic one after the other."""
    generator, dtype = rng(63), {16: np.float16, 32: np.float32, 64: np.float64}[fmt.bits]
    menu = np.array([-math.inf, -fmt.max, -3.0, -0.1, 0.0, 0.1, 1.0, 0.6 * fmt.max, math.inf]).astype(dtype)
    told = 0
    for _ in range(trials(300)):
        n = int(generator.integers(1, 7))
        ends = generator.choice(menu, (2, n + 1), p=np.array([1, 1, 4, 4, 4, 4, 4, 1, 2]) / 25).astype(float)
        ends[1] = np.where(generator.random(n + 1) < 0.7, ends[0], ends[1])
        lo, hi = np.sort(ends, axis=0)
        with np.errstate(all="ignore"):
            sizes = np.maximum(*(np.where(np.isinf(x), 0.0, np.abs(x)) for x in (lo, hi)))[1:].sum()
            given = (np.array([x]) for x in (lo[1:].sum(), hi[1:].sum(), sizes))
            out = close_sum((lo[:1], hi[:1]), *given, np.array([n]), fmt, SM80)
            well_formed(out)
            told += bool(np.isinf(out[0]).all() and out[0] == out[1])
            for _ in range(6):
                x = np.where(generator.random(n + 1) < 0.5, lo, hi).astype(dtype)
                total = x[0]
                for v in generator.permutation(x[1:]):
                    total = dtype(total + v)
                assert_inside(out, np.array([float(total)]), lo, hi)
    assert told > trials(300) / 20
