"""The steps that interval rules are made of, against exact rationals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import exact, rng, round_fraction, trials

from interval_ops.arithmetic import hull
from interval_ops.formats.model import BF16, FP16, FP32


def numbers(count: int) -> np.ndarray:
    g = rng(13)
    return g.normal(size=(count, 2)) * 2.0 ** g.integers(-40, 40, (count, 2))


def test_the_error_of_a_sum_is_exact() -> None:
    for a, b in numbers(trials(3000)):
        s = float(a + b)
        assert exact(s) + exact(hull.sum_error(float(a), float(b), s)) == exact(float(a)) + exact(float(b))


@pytest.mark.parametrize(("rule", "true"), [(hull.product_inexact, lambda x, y: x * y),
                                            (hull.quotient_inexact, lambda x, y: x / y)])  # fmt: skip
def test_what_is_called_exact_is(rule, true) -> None:
    """May only err by calling an exact result inexact; short operands are recognised."""
    for a, b in numbers(trials(1500)):
        for x, y in ((float(a), float(b)), (float(np.float32(a)), float(np.float32(b)))):
            if not rule(x, y, float(true(x, y))):
                assert exact(float(true(x, y))) == true(exact(x), exact(y))
    assert not rule(6.0, 2.0, float(true(6.0, 2.0)))
    assert rule(1.0 + 2.0**-52, 3.0, float(true(1.0 + 2.0**-52, 3.0)))


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=lambda f: f.name)
def test_nearest_rounds_once(fmt) -> None:
    for x in numbers(trials(1000))[:, 0]:
        wanted = round_fraction(exact(float(x)), fmt, "rtne")
        found = hull.nearest(float(x), fmt.gate)
        assert found == (math.copysign(math.inf, x) if abs(wanted) > exact(fmt.max) else float(wanted))


def test_one_float64_step_or_none() -> None:
    assert hull.down(1.5, False) == hull.up(1.5, False) == 1.5
    assert hull.down(1.5, True) < 1.5 < hull.up(1.5, True)


def test_relative_and_absolute_widening_by_sign() -> None:
    for x in (3.0, -3.0):
        assert exact(hull.widen_down(x, 0.25, 0.5)) == exact(x) - exact(abs(x)) / 4 - exact(0.5)
    assert hull.widen_down(math.inf, 0.25, 0.5) == math.inf


def test_subnormals_may_become_zero_and_nothing_else() -> None:
    tiny = FP32.min_normal
    for x in (tiny / 2, -tiny / 2, tiny, -tiny, 1.0, 0.0):
        low, high = hull.flush_lower(x, tiny), hull.flush_upper(x, tiny)
        assert (low, high) == ((min(x, 0.0), max(x, 0.0)) if abs(x) < tiny else (x, x))
        assert hull.flush_lower(x, 0.0) == hull.flush_upper(x, 0.0) == x


def test_zero_meets_an_infinity() -> None:
    assert hull.zero_by_infinity(-1.0, 1.0, 2.0, math.inf) and hull.zero_by_infinity(-math.inf, -1.0, 0.0, 0.0)
    assert not hull.zero_by_infinity(1.0, 2.0, 3.0, math.inf)
