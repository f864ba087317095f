"""float64 intervals, rounded outward: the exact results of rational arithmetic and mpmath lie inside, tightly."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from render.exact import intervals as intervals_of_balls
from render.exact.formats import to_format
from render.exact.functions import MONOTONE
from render.exact.points import number
from render.witness import floats as f
from tests.support import rng, special_values, trials


def some(r, size):
    """Numbers of all sizes, some of few bits, zeros and subnormals among them."""
    x = r.normal(size=size) * 10.0 ** r.integers(-12, 12, size)
    short = r.random(size) < 0.4
    x = np.where(short, x.astype(np.float32), x)
    x[r.random(size) < 0.1] = 0.0
    x[r.random(size) < 0.05] *= 1e-290
    return x


def intervals(r, size):
    lo, width = some(r, size), np.abs(some(r, size))
    return lo, lo + np.where(r.random(size) < 0.5, 0.0, width)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_holds_the_exact_results_of_the_corners(name):
    r = rng(3)
    size = trials(300)
    x, y = intervals(r, size), intervals(r, size)
    with np.errstate(all="ignore"):
        lo, hi = getattr(f, name)(x, y)
    way = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__, "div": Fraction.__truediv__}[name]
    for i in range(size):
        if name == "div" and y[0][i] <= 0 <= y[1][i]:
            assert math.isnan(lo[i]) and math.isnan(hi[i])
            continue
        exact = [way(Fraction(p[i]), Fraction(q[i])) for p in x for q in y]
        low, high = min(exact), max(exact)
        if not (math.isfinite(lo[i]) and math.isfinite(hi[i])):
            assert max(abs(low), abs(high)) > 2**1023
            continue
        assert lo[i] <= low and (hi[i] >= high), (x[0][i], y[0][i])
        slack = Fraction(2) ** -1073
        assert low - Fraction(lo[i]) <= abs(low) / 2**51 + slack and Fraction(hi[i]) - high <= abs(high) / 2**51 + slack


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_what_is_infinite_stays_so(name):
    """An infinity is no overflow: nothing is rounded, as in the plain formula."""
    finite = np.array([[1.7, 1.7000001], [0.3, 2.5], [5.0, 5.0]])
    plain = getattr(intervals_of_balls, name)
    for end in (-math.inf, math.inf):
        for lo, hi in finite:
            with np.errstate(all="ignore"):
                found = getattr(f, name)((np.array([end]), np.array([end])), (np.array([lo]), np.array([hi])))
            expected = plain(intervals_of_balls.interval(end, end), intervals_of_balls.interval(lo, hi))
            assert [float(x[0]) for x in found] == [float(x.mid()) for x in expected] == [end, end]


def test_a_square_is_never_negative():
    with np.errstate(all="ignore"):
        lo, hi = f.square((np.array([-3.0, 2.0, -1e-200]), np.array([2.0, 3.0, 1e-200])))
    assert lo.tolist()[:2] == [0.0, 4.0] and hi.tolist()[:2] == [9.0, 9.0] and lo[2] == 0 and hi[2] > 0


def test_zero_times_infinity_is_anything():
    with np.errstate(all="ignore"):
        lo, _ = f.mul((np.array([-1.0]), np.array([1.0])), (np.array([1.0]), np.array([np.inf])))
    assert math.isnan(lo[0])


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16", "fp8e5", "fp8e4nv", "tf32"])
@pytest.mark.parametrize("cut", [False, True])
def test_rounding_is_that_of_the_plain_formula(name, cut):
    fmt = FORMATS[name]
    x = np.array([v for v in special_values(fmt, halfway=True) if np.isfinite(v)], np.float64)
    x = np.concatenate([x, rng(4).normal(size=200) * 10.0 ** rng(5).integers(-8, 5, 200)])
    with np.errstate(all="ignore"):
        found = f.to_format(x, fmt, cut)
    expected = [float(to_format(number(float(v)), fmt, "rtz" if cut else "rtne")) for v in x]
    assert found.tolist() == expected


@pytest.mark.parametrize("name", sorted(f.NUMPY))
def test_functions_hold_the_exact_value(name):
    special = {
        "exp2": lambda v: mpmath.power(2, v),
        "rsqrt": lambda v: 1 / mpmath.sqrt(v),
        "log2": lambda v: mpmath.log(v, 2),
    }
    x = (
        np.abs(some(rng(6), trials(150)))
        if MONOTONE[name].domain[0] == 0
        else np.clip(some(rng(6), trials(150)), -0.99, 600)
    )
    x = np.append(x, [1.0, 0.5, 1e-30, 700.0] if MONOTONE[name].domain[0] == 0 else [0.0, 0.5, 600.0, 1e-30])
    with np.errstate(all="ignore"):
        lo, hi = f.function(name, (x, x))
    with mpmath.workprec(200):
        for v, low, high in zip(x, lo, hi, strict=True):
            if v == 0 and name == "rsqrt":
                continue
            y = special.get(name, getattr(mpmath, name, None))(mpmath.mpf(float(v)))
            assert mpmath.mpf(float(low)) <= y <= mpmath.mpf(float(high))


LIMITS = [("exp", np.inf, np.inf), ("exp", -np.inf, 0.0), ("exp2", np.inf, np.inf), ("log", np.inf, np.inf),
          ("log", 0.0, -np.inf)]  # fmt: skip


@pytest.mark.parametrize(("name", "at", "value"), LIMITS)
def test_functions_at_infinities_are_their_limits(name: str, at: float, value: float) -> None:
    lo, hi = f.function(name, (np.array([at]), np.array([at])))
    assert lo.item() <= value <= hi.item() and (np.isinf(lo.item()) if np.isinf(value) else hi.item() < 1e-300)
