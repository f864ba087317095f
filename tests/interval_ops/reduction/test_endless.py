"""Sums with infinite terms, against random trees of random choices in numpy's own arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from containment import interval, point
from support import rng, trials

from interval_ops.formats.model import FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction import scan
from interval_ops.reduction.rule import sum_axis

SM80 = load_profile("sm_80")
DTYPES = {16: np.float16, 32: np.float32, 64: np.float64}
INF = math.inf


def tree(generator: np.random.Generator, x: np.ndarray) -> float:
    """The numbers added in a random tree, in numpy's arithmetic of their type."""
    values = list(x)
    with np.errstate(all="ignore"):
        while len(values) > 1:
            i, j = sorted(generator.choice(len(values), 2, replace=False))
            b, a = values.pop(j), values.pop(i)
            values.append(a + b)
    return float(values[0])


def allowed(lo: float, hi: float, result: float) -> bool:
    return math.isnan(lo) or lo <= result <= hi


def drawn(generator: np.random.Generator, fmt: Format, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Intervals between a few numbers of the format, infinities and the largest among them."""
    menu = np.array([-INF, -fmt.max, -0.6 * fmt.max, -3.0, -0.1, 0.0, 0.1, 1.0, 0.6 * fmt.max, fmt.max, INF])
    menu = menu.astype(DTYPES[fmt.bits]).astype(float)
    weights = np.array([1, 1, 1, 4, 4, 4, 4, 4, 1, 1, 2.0])
    a, b = (generator.choice(menu, n, p=weights / weights.sum()) for _ in range(2))
    b = np.where(generator.random(n) < 0.7, a, b)
    return np.minimum(a, b), np.maximum(a, b)


@pytest.mark.parametrize("fmt", [FP16, FP32, FP64], ids=lambda f: f.name)
def test_sums_with_infinities_hold_every_tree(fmt: Format) -> None:
    generator = rng(91)
    for _ in range(trials(300)):
        n = int(generator.integers(1, 9))
        lo, hi = drawn(generator, fmt, n)
        low, high = (end.item() for end in sum_axis((lo[None], hi[None]), 1, (1, n), fmt, SM80))
        before = scan.cumsum((lo[None], hi[None]), 1, False, fmt, SM80)
        assert allowed(before[0][0, -1], before[1][0, -1], low) or math.isnan(low)
        for _ in range(4):
            which = generator.random(n)
            x = np.where(which < 0.4, lo, np.where(which < 0.8, hi, np.clip(generator.standard_normal(n), lo, hi)))
            x = x.astype(DTYPES[fmt.bits])
            x = np.where(x < lo, lo, np.where(x > hi, hi, x)).astype(DTYPES[fmt.bits])
            assert allowed(low, high, tree(generator, x)), (x, low, high)
            for k in range(n):
                assert allowed(before[0][0, k], before[1][0, k], tree(generator, x[: k + 1]))


def total(*terms: float, fmt: Format = FP32) -> tuple[float, float]:
    lo, hi = sum_axis(point([terms]), 1, (1, len(terms)), fmt, SM80)
    return lo.item(), hi.item()


def test_an_infinite_term_is_the_sum() -> None:
    big = FP32.max
    assert total(INF, 1.0, -2.0) == (INF, INF)
    assert total(-INF, 1.0, -2.0) == (-INF, -INF)
    assert total(INF, big, big) == (INF, INF)  # an overflow to the same side
    assert total(INF, 3.0, fmt=FP16) == (INF, INF)


@pytest.mark.parametrize(
    "terms", [(INF, -INF), (INF, math.nan), (INF, -FP32.max, -FP32.max), (-INF, 0.75 * FP32.max, 0.75 * FP32.max)]
)
def test_a_second_infinity_or_an_overflow_to_the_other_side_is_anything(terms: tuple[float, ...]) -> None:
    assert all(map(math.isnan, total(*terms)))


def test_what_may_be_infinite_gives_a_half_line() -> None:
    lo, hi = sum_axis(interval([[1.0, -2.0, 5.0]], [[INF, -1.0, 5.0]]), 1, (1, 3), FP32, SM80)
    assert 3.99 < lo.item() <= 4.0 and hi.item() == INF
    lo, hi = sum_axis(interval([[-INF, -2.0, 5.0]], [[1.0, -1.0, 5.0]]), 1, (1, 3), FP32, SM80)
    assert lo.item() == -INF and 5.0 <= hi.item() < 5.01
    lo, hi = sum_axis(interval([[-INF, 1.0]], [[1.0, INF]]), 1, (1, 2), FP32, SM80)
    assert math.isnan(lo.item()) and math.isnan(hi.item())


def test_prefixes_are_infinite_from_the_first_infinity_on() -> None:
    x = np.array([[1.0, 2.0, INF, -5.0, 1.0]])
    lo, hi = scan.cumsum((x, x), 1, False, FP32, SM80)
    assert np.array_equal(lo[0, :2], [1.0, 3.0]) and np.array_equal(hi[0, :2], [1.0, 3.0])
    assert (lo[0, 2:] == INF).all() and (hi[0, 2:] == INF).all()
    lo, hi = scan.cumsum((x, x), 1, True, FP32, SM80)
    assert (lo[0, :3] == INF).all() and np.array_equal(hi[0, 3:], [-4.0, 1.0])
    start = np.array([[0, 0, 0, 1, 0]])
    lo, _ = scan.cumsum((x, x), 1, False, FP32, SM80, start)
    assert np.array_equal(lo[0], [1.0, 3.0, INF, -5.0, -4.0])
