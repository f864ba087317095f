"""Bounds of what a sum's roundings add up to: the plain sums they stand for, and executions in random trees."""

from __future__ import annotations

import math

import numpy as np
from support import exact, rng, round_fraction, trials

from interval_ops.formats.model import FP16
from interval_ops.reduction.running import power_floor, ramp, running_error


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
