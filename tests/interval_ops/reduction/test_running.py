"""Bounds of what a sum's roundings add up to: the plain sums they stand for, and executions in random trees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import exact, rng, round_fraction, trials

from interval_ops.formats.model import BF16, FP16, Format
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction import atomics, rule
from interval_ops.reduction.kernels import sum_growth
from interval_ops.reduction.running import power_floor, ramp, running_error, stagnation


def test_powers_of_two() -> None:
    for x in 2.0 ** rng(1).uniform(-900, 900, trials(500)):
        assert power_floor(float(x)) <= x < 2 * power_floor(float(x))
        assert math.frexp(power_floor(float(x)))[0] == 0.5
    assert power_floor(1e-310) == 2.0**-1022


def test_a_ramp_is_the_sum_term_by_term() -> None:
    """Its turns of powers of two give what a loop over all addends gives, from above and closely."""
    g = rng(3)
    for _ in range(trials(200)):
        count, step = int(g.integers(1, 300)), float(2.0 ** g.uniform(-8, 3))
        top, least = float(2.0 ** g.uniform(-2, 9)), float(2.0 ** g.uniform(-6, 6))
        values = [min(top, step + b * step) for b in range(1, count + 1)]
        plain = sum(power_floor(v) for v in values)
        raised = sum(max(power_floor(v), least) for v in values)
        found = ramp(float(count), step, step, top, least)
        # A value on a power of two may be counted with the next one.
        room = 1 + 1e-12  # both sums are float64's
        assert plain <= found[0] * room <= 2 * plain * room**2 and raised <= found[1] * room <= 2 * raised * room**2


def test_random_trees_stay_inside() -> None:
    g, u = rng(4), FP16.u
    for _ in range(trials(40)):
        x = [exact(float(v)) for v in np.float16(g.normal(size=int(g.integers(2, 24))))]
        true, sizes = sum(x), float(sum(map(abs, x)))
        whole, peak, growth = float(true), float(max(map(abs, x))), (1 + u) ** len(x) - 1
        error, top = running_error(
            (whole, whole), (sizes, sizes), float(len(x)), peak, u, growth, 2.0**-50, np.inf, False
        )
        terms = list(x)
        while len(terms) > 1:
            i, j = sorted(g.choice(len(terms), 2, replace=False))
            total = round_fraction(terms[i] + terms[j], FP16, "rtne")
            assert abs(total) <= exact(top) * (1 + exact(u))
            terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [total]
        assert abs(terms[0] - true) <= exact(error)


def largest_growth(n: int, u: float) -> np.ndarray:
    """What trees of 1 .. n addends may err by, relative to their sum, if each addition errs by the smaller operand or u
    times the result: the recursion over all splits, one side of the root a share u of it."""
    least = np.ones(n + 1)
    for m in range(2, n + 1):
        j = np.arange(1, m)
        least[m] = min(least[m - 1], (((1 - u) * least[m - j] + u * least[j]) / (1 + u)).min())
    return 1 / least[1:] - 1


@pytest.mark.parametrize("u", [2.0**-3, 2.0**-5, 2.0**-8, 2.0**-11])
def test_stagnation_is_no_less_than_any_split_gives(u: float) -> None:
    n = np.arange(1.0, 1201)
    worst, found = largest_growth(len(n), u), np.array([sum_growth(k - 1, np.inf, u) for k in n])
    assert np.all(stagnation(n - 1, u) * (1 + 1e-12) + 1e-13 >= worst) and np.all(found * (1 + 1e-12) >= worst)
    if u < 2.0**-5:
        assert np.all(found <= 1.6 * worst + 1e-9)


def crept(start: float, steps: int, block: int, fmt: Format) -> tuple[list[float], float]:
    """(addends, what they sum up to): each block of equal ones is a little more than half of what the sum can hold."""
    addends, total = [start], start
    for _ in range(steps):
        part = math.ldexp(0.5 + fmt.u, math.frexp(total)[1] - fmt.p)
        addends += [part / block] * block  # a power of two: its own sum is exact
        total = float(round_fraction(exact(total) + exact(part), fmt, "rtne"))
    return addends, total


@pytest.mark.parametrize(("fmt", "steps", "block"), [(BF16, 700, 1), (BF16, 300, 4), (FP16, 4000, 1)])
def test_a_sum_that_creeps_upwards_stays_inside_and_comes_near(fmt: Format, steps: int, block: int) -> None:
    """Every addition rounds up to nearly twice its addend: no bound may be below, and ours is not far above."""
    x, total = crept(1.0, steps, block, fmt)
    values, true = np.array([x]), math.fsum(x)
    lo, hi = rule.sum_axis((values, values), 1, values.shape, fmt, load_profile("any"))
    size = np.array([true])
    added = atomics.close_sum(np.zeros(1), size, size, size, np.array([len(x)]), fmt, load_profile("any"))
    for low, high in ((lo[0], hi[0]), (added[0][0], added[1][0])):
        assert low <= total <= high
        assert total - true >= 0.5 * (high - true)


@pytest.mark.parametrize("u", [2.0**-4, 2.0**-8, 2.0**-11, 2.0**-24])
def test_stagnation_is_the_better_of_the_two_powers_of_its_proof(u: float) -> None:
    """(1 + c n u)^a - 1 for a = 1/2 and, where c u <= 1, a = 1/8: no less, and no more."""
    n, k = 2.0 ** np.arange(1, 30), 1 + 2.0**-9
    claims = []
    for a in (1 / 2, 1 / 8):
        c = ((1 + k) / (1 + a)) ** ((1 + a) / a) / (1 - u)
        if a == 1 / 2 or c * u <= 1:
            claims.append((1 + c * n * u) ** a - 1)
    least, found = np.minimum.reduce(claims), stagnation(n, u)
    assert (found >= least).all() and (found <= least * (1 + 1e-9) + 1e-12).all()
