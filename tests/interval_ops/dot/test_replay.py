"""Chains on interval operands: the ends are the chains of the least and of the greatest products."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support import exact, rng, round_fraction, trials

from interval_ops.dot.replay import exact_sum
from interval_ops.dot.rule import PendingDot
from interval_ops.dot.sums import Product
from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import load_profile

Pair = tuple[np.ndarray, np.ndarray]
ORDERED, ANY = load_profile("sm_90").chosen("tree"), load_profile("sm_90")


def interval(generator: np.random.Generator, shape: tuple[int, ...], sign: str, width: float) -> Pair:
    """Ends that are fp32 numbers, so that a legal operand may lie there."""
    mid = generator.standard_normal(shape)
    mid = np.abs(mid) + 1 if sign == "positive" else -np.abs(mid) - 1 if sign == "negative" else mid
    low = (mid - width * generator.random(shape)).astype(np.float32).astype(np.float64)
    high = (mid + width * generator.random(shape)).astype(np.float32).astype(np.float64)
    return low, high


def chain(start: Fraction, products: list[Fraction]) -> Fraction:
    for p in products:
        start = round_fraction(start + p, FP32)
    return start


def corners(a: Pair, b: Pair) -> tuple[list[Fraction], list[Fraction]]:
    """Least and greatest product per k of one output element, exact."""
    low, high = [], []
    for p, q, r, s in zip(*(x.tolist() for x in (*a, *b)), strict=True):
        every = [exact(x) * exact(y) for x in (p, q) for y in (r, s)]
        low.append(min(every))
        high.append(max(every))
    return low, high


def closed(a: Pair, b: Pair, c: Pair | None = None, profile=ORDERED) -> tuple[float, float]:
    shape = (a[0].shape[-2], b[0].shape[-1])
    lo, hi = PendingDot.start(c, shape, "ieee", profile).extend(a, b).interval()
    return lo.item(), hi.item()


@pytest.mark.parametrize("signs", [("positive", "positive"), ("positive", "negative"), ("negative", "negative")])
@pytest.mark.parametrize("width", [2.0**-22, 2.0**-8, 0.5])
def test_the_ends_are_reached_where_signs_are_known(signs: tuple[str, str], width: float) -> None:
    """Operands at their ends are legal, and their chain or their exact sum is the end of the bound."""
    generator = rng(401)
    for _ in range(trials(15)):
        k = int(generator.integers(1, 60))
        a, b = interval(generator, (1, 1, k), signs[0], width), interval(generator, (1, k, 1), signs[1], width)
        lo, hi = closed(a, b)
        low, high = corners(tuple(x[0, 0] for x in a), tuple(x[0, :, 0] for x in b))
        least = min(chain(Fraction(0), low), sum(low, Fraction(0)))
        most = max(chain(Fraction(0), high), sum(high, Fraction(0)))
        assert exact(lo) <= least and most <= exact(hi)
        spare = Fraction(2) ** -24 * max(abs(least), abs(most))  # a product that float64 rounded may move one rounding
        assert least - exact(lo) <= spare and exact(hi) - most <= spare


@pytest.mark.parametrize("signs", [("positive", "positive"), ("mixed", "mixed"), ("mixed", "negative")])
def test_legal_chains_and_exact_sums_lie_inside(signs: tuple[str, str]) -> None:
    generator = rng(402)
    for _ in range(trials(25)):
        k, width = int(generator.integers(1, 40)), 2.0 ** float(generator.integers(-24, 1))
        a, b = interval(generator, (1, 1, k), signs[0], width), interval(generator, (1, k, 1), signs[1], width)
        c = interval(generator, (1, 1, 1), "mixed", width)
        lo, hi = closed(a, b, c)
        for _ in range(6):
            x, y, z = (pick(generator, pair).reshape(-1).tolist() for pair in (a, b, c))
            products, start = [exact(p) * exact(q) for p, q in zip(x, y, strict=True)], exact(z[0])
            apart = round_fraction(chain(Fraction(0), products) + start, FP32)
            for value in (chain(start, products), start + sum(products, Fraction(0))):
                assert exact(lo) <= value <= exact(hi)
            pending = PendingDot.start(None, (1, 1), "ieee", ORDERED).extend(a, b).add(c, rounded=True).interval()
            assert exact(pending[0].item()) <= apart <= exact(pending[1].item())


def pick(generator: np.random.Generator, pair: Pair) -> np.ndarray:
    """fp32 numbers in the intervals, at the ends half of the time."""
    low, high = pair
    inside = np.clip((low + (high - low) * generator.random(low.shape)).astype(np.float32), low, high)
    ends = np.where(generator.random(low.shape) < 0.5, low, high)
    return np.where(generator.random(low.shape) < 0.5, inside, ends).astype(np.float64)


def test_dots_that_may_be_summed_apart() -> None:
    """acc += dot(a, b) with interval operands: each dot continues the chain or is added afterwards."""
    generator = rng(403)
    for _ in range(trials(15)):
        sizes = [int(n) for n in generator.integers(1, 12, 3)]
        parts = [(interval(generator, (1, 1, k), "positive", 0.25), interval(generator, (1, k, 1), "mixed", 0.25))
                 for k in sizes]  # fmt: skip
        total = PendingDot.start(None, (1, 1), "ieee", ORDERED).extend(*parts[0])
        for a, b in parts[1:]:
            total = total.join(PendingDot.start(None, (1, 1), "ieee", ORDERED).extend(a, b))
        lo, hi = (x.item() for x in total.interval())
        for _ in range(6):
            value = Fraction(0)
            for a, b in parts:
                x, y = (pick(generator, pair).reshape(-1).tolist() for pair in (a, b))
                products = [exact(p) * exact(q) for p, q in zip(x, y, strict=True)]
                alone = generator.random() < 0.5
                value = round_fraction(value + chain(Fraction(0), products), FP32) if alone else chain(value, products)
            assert exact(lo) <= value <= exact(hi)


def test_a_long_positive_sum_is_narrow() -> None:
    """2^-20 of the sum at K = 4096 where K roundings in any order allow 2^-12."""
    generator = rng(404)
    a, b = (
        interval(generator, (1, 1, 4096), "positive", 2.0**-24),
        interval(generator, (1, 4096, 1), "positive", 2.0**-24),
    )
    lo, hi = closed(a, b)
    wide = closed(a, b, profile=ANY)
    assert wide[0] <= lo <= hi <= wide[1]
    assert (hi - lo) < 0.1 * (wide[1] - wide[0])


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("other", [0.0, 1.0])
def test_operands_without_finite_ends(bad: float, other: float) -> None:
    a = (np.array([[[1.0, 2.0]]]), np.array([[[1.5, bad]]]))
    b = (np.array([[[1.0], [other]]]), np.array([[[1.25], [other]]]))
    assert all(math.isnan(x) for x in closed(a, b))


def test_products_below_the_range_of_float64() -> None:
    """Ends so small that their product vanishes in float64 still count on the right side of zero."""
    tiny = (np.full((1, 1, 1), -1e-300), np.full((1, 1, 1), 1e-300))
    lo, hi = closed(tiny, (np.full((1, 1, 1), 1e-300),) * 2)
    assert lo <= 0.0 <= hi and (lo < 0.0 or hi > 0.0)


def test_the_exact_sum_of_zeros_is_zero_and_that_of_about_one_is_not_one() -> None:
    """1 + 2^-60 has magnitudes that add up to 1 in float64; products that are zero need no room."""
    a = np.array([[[1.0, 2.0**-30]]], np.float32)
    products = [Product((x, x), (y, y), 2) for x, y in ((a, a.transpose(0, 2, 1)), (0 * a, a.transpose(0, 2, 1)))]
    lo, hi = exact_sum(products[:1], [], (1, 1, 1))
    assert exact(lo.item()) <= 1 + Fraction(1, 2**60) <= exact(hi.item())
    lo, hi = exact_sum(products[1:], [], (1, 1, 1))
    assert lo.item() == hi.item() == 0.0
