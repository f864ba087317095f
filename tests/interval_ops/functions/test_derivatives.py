"""Derivatives over intervals hold mpmath's difference quotients and derivatives, and little else."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from support import rng

from interval_ops.functions.derivatives import DERIVATIVES, over
from interval_ops.functions.tables import FUNCTIONS

EXACT = {
    "log2": lambda v: mpmath.log(v, 2),
    "exp2": lambda v: mpmath.mpf(2) ** v,
    "rsqrt": lambda v: 1 / mpmath.sqrt(v),
}


def boxes(name: str) -> np.ndarray:
    """Intervals inside of the domain, narrow and wide, about 0 and far out."""
    g, domain = rng(7), FUNCTIONS[name].domain if hasattr(FUNCTIONS[name], "domain") else (-math.inf, math.inf)
    middle = g.normal(size=60) * 10.0 ** g.uniform(-3, 1, 60)
    half = np.abs(middle) * 10.0 ** g.uniform(-9, 1, 60)
    lo, hi = middle - half, middle + half
    if domain[0] > -math.inf:
        lo, hi = domain[0] + np.abs(lo) + 1e-3, domain[0] + np.abs(lo) + 1e-3 + (hi - lo)
    return np.stack([lo, hi])


@pytest.mark.parametrize("name", sorted(DERIVATIVES))
def test_quotients_between_points_of_the_box_lie_inside(name: str) -> None:
    lo, hi = boxes(name)
    low, high = over(name, (lo, hi))
    f, g = EXACT.get(name) or getattr(mpmath, name), rng(8)
    with mpmath.workdps(60):
        for a, b, least, most in zip(lo, hi, low, high, strict=True):
            ends = [mpmath.mpf(float(v)) for v in (a, b, *g.uniform(a, b, 3))]
            for x, y in pairwise(ends):
                if x != y:  # a mean of the derivative
                    assert least <= (f(y) - f(x)) / (y - x) <= most, (name, a, b)


@pytest.mark.parametrize("name", sorted(set(DERIVATIVES) - {"sin", "cos"}))
def test_both_ends_are_reached(name: str) -> None:
    """Of boxes that 0 does not turn: the derivatives at the ends, within 2^-39."""
    lo, hi = boxes(name)
    low, high = over(name, (lo, hi))
    f = EXACT.get(name) or getattr(mpmath, name)
    with mpmath.workdps(200):
        for a, b, least, most in zip(lo, hi, low, high, strict=True):
            if a * b > 0 and math.isfinite(most):
                slopes = sorted(float(mpmath.diff(f, mpmath.mpf(float(v)))) for v in (a, b))
                assert np.allclose([least, most], slopes, rtol=2.0**-38, atol=1e-300), (name, a, b)


def test_what_touches_the_end_of_the_domain_is_open() -> None:
    for name in ("log", "log1p", "sqrt", "rsqrt"):
        end = DERIVATIVES[name].above
        assert [float(v) for v in over(name, (np.array(end), np.array(5.0)))] == [-math.inf, math.inf]
    assert [float(v) for v in over("exp", (np.array(math.nan), np.array(1.0)))] == [-math.inf, math.inf]
    assert over("exp", (np.array(-math.inf), np.array(0.0)))[0] <= 0
    assert over("tanh", (np.array(-math.inf), np.array(math.inf)))[1] >= 1
