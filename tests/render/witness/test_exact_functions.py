"""Exact functions of the library on points and intervals, against Python's and the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interval_ops.formats.model import FP32
from render.exact.intervals import Maybe, interval, point
from render.witness import exact_functions as f

POINTS = [0.5, -0.75, 3.0, -7.25, 2.0**-140, 1e30, -2.5]


def floats(x: Maybe) -> tuple[float, float] | None:
    return None if x is None else (float(x[0]), float(x[1]))


@pytest.mark.parametrize("y", POINTS)
@pytest.mark.parametrize("x", POINTS)
def test_points(x: float, y: float) -> None:
    assert floats(f.copysign(point(x), point(y))) == (math.copysign(x, y),) * 2
    assert floats(f.ieee_remainder(point(x), point(y))) == (math.remainder(x, y),) * 2
    step = float(np.nextafter(np.float32(x), np.float32(y)))
    assert floats(f.neighbours(point(float(np.float32(x))), point(float(np.float32(y))), FP32)) == (step, step)


@pytest.mark.parametrize("x", [*POINTS, 1.0, 2.0 - 2.0**-50])
def test_exponents(x: float) -> None:
    assert floats(f.logb(point(x))) == (math.frexp(x)[1] - 1,) * 2
    assert floats(f.scaled(point(x), 5)) == (x * 32, x * 32)


def test_intervals_hold_what_lies_inside() -> None:
    wide = interval(-1.0, 4.0)
    assert floats(f.copysign(interval(2.0, 3.0), wide)) == (-3.0, 3.0), "either sign"
    assert floats(f.ieee_remainder(interval(2.0, 4.0), point(2.0))) == (-1.0, 1.0), "several whole numbers"
    low, high = floats(f.ieee_remainder(interval(2.1, 2.2), point(2.0))) or (math.nan, math.nan)
    assert low <= 2.1 - 2.0 and 2.2 - 2.0 <= high < 0.21, "one"
    assert floats(f.positive_difference(interval(1.0, 2.0), interval(1.5, 5.0))) == (0.0, 0.5)
    assert floats(f.logb(wide)) == (-math.inf, 2.0)
    assert f.copysign(None, wide) is None and f.logb(None) is None and f.ieee_remainder(wide, interval(-1, 1)) is None
