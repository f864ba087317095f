"""The formulas of `running` once more, in exact rationals from their statements: above them, and by no more than 2^-36.

Nothing is taken from the code: powers of two come from `frexp`, sums are taken term by term, levels one by one.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from interval_ops.reduction.running import ramp, running_error, short_ramp, stagnation, stagnation_compiled, tree_steps

PLAIN_RAMP = getattr(short_ramp, "py_func", short_ramp)
"""As Python runs it: on its own it would be compiled for these tests alone."""
CLOSE = 1 + Fraction(1, 2**36)
ONE_BINADE_UP = 1 + 2.0**-30
"""A value within this of the next power of two may be counted with it."""


def power(x: Fraction) -> Fraction:
    """The largest power of two that is at most x > 0."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return next(p for k in (e, e - 1) if (p := Fraction(2) ** k) <= x)


def meets(found: float, true: Fraction, least: Fraction | None = None) -> None:
    assert math.isfinite(found)
    assert Fraction(found) * CLOSE >= (true if least is None else least)
    assert Fraction(found) <= true * CLOSE


def of_ramp(count: int, start: float, step: float, top: float, least: float) -> tuple[Fraction, Fraction]:
    values = [min(Fraction(top), Fraction(start) + b * Fraction(step)) for b in range(1, count + 1)]
    powers = [power(v) for v in values]
    return sum(powers, Fraction(0)), sum((max(p, Fraction(least)) for p in powers), Fraction(0))


@pytest.mark.parametrize("rule", [ramp, PLAIN_RAMP])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 256])
def test_a_ramp_is_its_sum(rule, count: int) -> None:
    """Irregular starts and steps: no value is a power of two, so that every one counts with its own."""
    for start, step, top, least in itertools.product(
        (0.3017, 3.1013, 37.3), (0.012347, 0.37193, 5.9231), (2.3, 61.7, 4e5), (0.0, 2.0, 1e3)
    ):
        if top <= start:
            continue
        for found, true in zip(rule(float(count), start, step, top, least), of_ramp(count, start, step, top, least),
                               strict=True):  # fmt: skip
            meets(found, true)


def test_a_value_on_a_power_of_two_counts_with_it_or_with_the_next_step() -> None:
    for rule, count, scale in itertools.product((ramp, PLAIN_RAMP), (1, 2, 7, 8, 9, 64), (2.0**-900, 1.0, 2.0**900)):
        found = rule(float(count), scale, scale, 1e300, 0.0)[0]
        assert of_ramp(count, scale, scale, 1e300, 0.0)[0] <= Fraction(found) * CLOSE
        assert Fraction(found) <= of_ramp(count, scale * ONE_BINADE_UP, scale * ONE_BINADE_UP, 1e300, 0.0)[0] * 2


def of_tree(whole: float, total: float, top: float, peak: float, levels: int) -> Fraction:
    """Level j has 2^j sums of 2^(levels - j) addends each."""
    steps = Fraction(0)
    for j in range(levels):
        largest = min(Fraction(top), Fraction(2) ** (levels - j) * Fraction(peak))
        if j == 0:
            largest = min(largest, Fraction(total))
        steps += min(Fraction(whole), 2**j * power(max(largest, Fraction(2) ** -1022)))
    return steps


def test_the_steps_of_a_tree_are_those_of_its_levels() -> None:
    for whole, total, top, peak, levels in itertools.product(
        (0.9, 70.0, 1e9), (0.6, 33.3, 1e4), (0.7, 48.0, 1e6), (1e-300, 0.013, 1.7), (0, 1, 2, 5, 12)
    ):
        meets(tree_steps(whole, total, top, peak, float(levels)), of_tree(whole, total, top, peak, levels))


def test_stagnation_is_the_smaller_of_its_two_powers() -> None:
    with mp.workprec(200):
        for n, u in itertools.product((0, 1, 2, 37, 5000, 10**7, 10**10), (2.0**-4, 2.0**-8, 2.0**-11, 2.0**-24)):
            k, ways = 1 + mpf(2) ** -9, []
            for a in (mpf(1) / 2, mpf(1) / 8):
                c = ((1 + k) / (1 + a)) ** ((1 + a) / a) / (1 - mpf(u))
                if a == mpf(1) / 2 or c * u <= 1:
                    ways.append((1 + c * n * u) ** a - 1)
            least = min(ways)
            for found in (stagnation(float(n), u), stagnation_compiled(float(n), u)):
                assert least <= mpf(found) <= least * (1 + mpf(2) ** -40) + mpf(2) ** -44
        both = stagnation(np.array([1.0, 1e6]), 2.0**-8)
        assert both.tolist() == [stagnation(1.0, 2.0**-8), stagnation(1e6, 2.0**-8)]


def of_running(ends, sizes, count: int, peak: float, u: float, growth: float, noise: float, levels: float,
               quick: bool) -> tuple[Fraction, Fraction]:  # fmt: skip
    (lo, hi), (lows, highs) = (tuple(map(Fraction, pair)) for pair in (ends, sizes))
    u_, growth_, step = Fraction(u), Fraction(growth), Fraction(peak) * (1 + Fraction(growth))
    rest = Fraction(noise) * (lows + highs)
    up, down = (hi + highs) / 2 + rest, (lows - lo) / 2 + rest  # positive upper ends, negative lower ones
    top, whole = max(up, down) + growth_ * (up + down), (1 + growth_) * (up + down)
    if u == 0 or count < 2:
        return Fraction(0), top
    if levels < math.inf:
        total = max(abs(lo), abs(hi)) + rest + growth_ * (up + down)
        return u_ * of_tree(whole, total, top, step, int(levels)), top  # type: ignore[arg-type]
    sums = [min(top, (k + 1) * step) for k in range(1, count)]
    if not quick:
        return u_ * sum(map(power, sums), Fraction(0)), top
    below = power(top)  # each but the first is at most (k + 1) step, and at most that power
    return u_ * sum((min(below, (k + 1) * step) for k in range(1, count)), Fraction(0)), top


CASES = [
    ((3.7, 3.7), (3.7, 3.7), 1.3), ((-2.2, 5.1), (9.3, 9.6), 4.1), ((-7.7, -6.1), (7.8, 6.3), 2.3),
    ((0.0, 0.0), (1e30, 1e30), 1.1e29), ((-1.1, -1.1), (50.3, 50.3), 0.77), ((900.1, 930.7), (901.3, 930.9), 9.7),
]  # fmt: skip


@pytest.mark.parametrize(("levels", "quick"), [(math.inf, False), (math.inf, True), (3.0, False), (8.0, True)])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_the_error_of_a_sum_is_u_times_the_powers_below_its_partial_sums(levels, quick, noise) -> None:
    for (ends, sizes, peak), count, (u, growth) in itertools.product(
        CASES, (0, 1, 2, 3, 40, 300), ((2.0**-24, 1.2e-5), (2.0**-11, 0.07), (0.0, 0.01))
    ):
        error, top = running_error(ends, sizes, float(count), peak, u, growth, noise, levels, quick)
        true, most = of_running(ends, sizes, count, peak, u, growth, noise, levels, quick)
        assert Fraction(top) >= most and Fraction(error) >= true  # of what float64 rounds on the way, too
        meets(top, most)
        meets(error, true)


def test_sums_that_leave_the_range_have_no_bound() -> None:
    for large in (2.0**1000, math.inf, math.nan):
        assert running_error((0.0, large), (large, large), 5.0, 1.0, 2.0**-24, 0.0, 0.0, math.inf, False)[0] == math.inf
    assert running_error((0.0, 2.0**999), (0.0, 2.0**999), 5.0, 1.0, 2.0**-24, 0.0, 0.0, math.inf, False)[0] < math.inf
    for peak in (0.0, 2.0**-1000, 2.0**-1070):  # the smallest step that is told apart
        error, _ = running_error((0.0, 1.0), (1.0, 1.0), 5.0, peak, 2.0**-24, 0.0, 0.0, math.inf, False)
        assert error == pytest.approx(2.0**-24 * sum(2.0 ** (math.frexp(k)[1] - 1001) for k in (2, 3, 4, 5)), rel=1e-9)
