"""J_128 and Y_n against Arb: values, ranges, the documented errors and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import flint
import numpy as np
import pytest
from support import rng, trials

from interval_ops.formats.model import FP32, FP64
from interval_ops.functions import bessel_orders
from interval_ops.profiles.profile import MissingRule, load_profile

SM80, IEEE = load_profile("sm_80"), load_profile("ieee")
Arb = flint.arb


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before, flint.ctx.prec = flint.ctx.prec, 300
    yield
    flint.ctx.prec = before


def exactly(second: bool, n: int, x: float) -> Any:
    flint.ctx.prec = 300 + max(0, math.frexp(x)[1]) + abs(n)
    function = Arb.bessel_y if second else Arb.bessel_j
    return function(Arb(x), Arb(n))


def orders(n: int) -> np.ndarray:
    return np.array([n], np.int32)


@pytest.mark.parametrize("second", [False, True], ids="JY")
def test_values(second: bool) -> None:
    g = rng(21)
    for n in (0, 1, 2, 7, 128):
        for x in [*g.uniform(0.5, 3, 6) * max(n, 1), *10 ** g.uniform(0, 12, 6)]:
            found, exact = bessel_orders.values(second, orders(n), np.array([x]))[0], exactly(second, n, float(x))
            assert abs(Arb(float(found)) - exact) <= abs(exact) * Arb(2) ** -52 + Arb(2) ** -110, (n, x)
    assert np.isnan(bessel_orders.values(True, orders(3), np.array([-1.0]))[0])
    assert bessel_orders.values(True, orders(3), np.array([0.0]))[0] == -math.inf
    assert bessel_orders.values(second, orders(3), np.array([math.inf]))[0] == 0


def test_the_constants() -> None:
    """Y_n beyond max(n, 1): below 0.9 with a second derivative below 2.7; rising before; Landau's bound of J."""
    for n in (0, 1, 2, 3, 10, 50):
        knee = max(n, 1)
        size = (exactly(True, n, float(knee)) ** 2 + exactly(False, n, float(knee)) ** 2).sqrt()
        assert size < 0.9
        x = np.r_[knee * np.linspace(1, 3, 60), knee * 10 ** rng(22).uniform(0, 2, 20)]
        for v in x:
            y, before = exactly(True, n, float(v)), exactly(True, n - 1, float(v))
            slope = before - y * n / Arb(float(v))
            bend = -slope / Arb(float(v)) - (1 - (Arb(n) / Arb(float(v))) ** 2) * y
            assert abs(y) < 0.9 and abs(bend) < 2.7
        below = [exactly(True, n, float(v)) for v in knee * np.linspace(0.3, 1, 12)]
        assert all(a < b for a, b in pairwise(below))
    peak = max(abs(float(exactly(False, 128, float(v)).mid())) for v in np.linspace(128, 150, 200))
    assert peak < 0.6748851 * 128 ** (-1 / 3) < peak * 1.02
    rising = [exactly(False, 128, float(v)) for v in np.linspace(60, 128, 12)]
    assert all(a < b for a, b in pairwise(rising))


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
@pytest.mark.parametrize("name", ["jn", "yn"])
def test_ranges_hold_every_place_inside(name: str, fmt: Any) -> None:
    g = rng(23)
    for n in (128,) if name == "jn" else (0, 1, 2, 5):
        start = max(n, 1) * g.uniform(0.3, 4, trials(12)) * (g.choice([-1, 1], trials(12)) if name == "jn" else 1)
        x = start, start + 10.0 ** g.uniform(-6, 1.3, start.size)
        for profile in (IEEE, SM80):
            lo, hi = bessel_orders.RULES[name](orders(n), x, fmt, profile)
            for i in range(start.size):
                for t in (0.0, 1.0, *g.random(2)):
                    v = float(x[0][i] + t * (x[1][i] - x[0][i]))
                    v = min(max(v, x[0][i]), x[1][i])
                    exact = exactly(name == "yn", n, v)
                    assert math.isnan(lo[i]) or (Arb(lo[i]) <= exact <= Arb(hi[i])), (n, x[0][i], x[1][i], v)


def test_the_documented_errors() -> None:
    x = np.array([1.5, 2.9999, 3.0, 40.0])
    y = bessel_orders.values(True, orders(3), x)
    lo, hi = bessel_orders.second_kind(orders(3), (x, x), FP32, SM80)
    reach = np.where(x < 3, (math.ceil(2 + 2.5 * 3) + 0.5) * 2.0**-23 * np.abs(y), 2.2e-6)
    assert np.all((hi - y >= reach) & (y - lo >= reach))
    assert np.all((hi - y <= reach + 2.0**-24 * np.abs(y) + 1e-13) & (y - lo <= reach + 2.0**-24 * np.abs(y) + 1e-13))
    lo, hi = bessel_orders.second_kind(orders(3), (x, x), FP64, SM80)
    assert np.isnan(lo).tolist() == [True, True, True, False] and hi[3] - lo[3] >= 1e-11
    x = np.array([100.0, -200.0])
    lo, hi = bessel_orders.first_kind(orders(128), (x, x), FP32, SM80)
    assert np.all(hi - lo >= 2 * 2.2e-6) and np.all(hi - lo <= 2 * 2.2e-6 + 2.0**-24)


def test_what_is_not_documented_is_refused_or_open() -> None:
    x = np.array([1.0, 2.0])
    with pytest.raises(MissingRule, match="n = 128 only"):
        bessel_orders.first_kind(orders(2), (x, x), FP32, SM80)
    with pytest.raises(MissingRule, match="OpenCL"):
        bessel_orders.second_kind(orders(2), (x, x), FP32, load_profile("gfx90a"))
    assert np.isnan(bessel_orders.second_kind(orders(-2), (x, x), FP32, SM80)[0]).all()
    assert np.isnan(bessel_orders.second_kind(orders(2), (-x, x), FP32, SM80)[0]).all()
    assert (bessel_orders.second_kind(orders(2), (x * 1e-40, x), FP32, SM80)[0] == -math.inf).all()


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
def test_negative_orders_are_open_where_only_the_documents_speak(fmt: Any) -> None:
    """CUDA states the error of yn for n >= 0; a target that rounds correctly has one for each n."""
    x = np.array([1.0, 9.0, 400.0])
    assert np.isnan(bessel_orders.second_kind(orders(-2), (x, x), fmt, SM80)[0]).all()
    lo, hi = bessel_orders.second_kind(orders(-2), (x, x), fmt, IEEE)
    for low, high, v in zip(lo, hi, x, strict=True):
        assert Arb(low) <= exactly(True, -2, float(v)) <= Arb(high) and high - low < 1e-6


def test_a_short_piece_behind_the_bend_is_short() -> None:
    """Over 2^-10 it may rise by its slope and its bend, not to the largest value of all."""
    x = np.array([5.0, 12.0, 30.0])
    ends = bessel_orders.second_kind(orders(2), (x, x + 2.0**-10), FP64, IEEE)
    assert (ends[1] - ends[0] < 2.0**-10).all()


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_the_second_kind_falls_without_end_towards_zero(fmt: Any, n: int) -> None:
    """From 0 on it has no lower bound, but its upper one; below 0 it has neither."""
    ones = np.ones(1)
    lo, hi = bessel_orders.second_kind(orders(n), (0 * ones, ones), fmt, IEEE)
    assert lo[0] == -math.inf
    assert 0 <= Arb(float(hi[0])) - exactly(True, n, 1.0) <= abs(exactly(True, n, 1.0)) * Arb(2) ** -20
    lo, hi = bessel_orders.second_kind(orders(n), (-fmt.min_subnormal * ones, ones), fmt, IEEE)
    assert np.isnan(lo[0]) and np.isnan(hi[0])
