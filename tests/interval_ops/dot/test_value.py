"""Values of dots that a unit cannot return are moved to the nearest number that it can."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support import rng

from interval_ops.dot.value import within
from interval_ops.formats.model import FORMATS

KINDS = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


def case(name: str, n: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of the format in their carrier, and float64 bounds with at least one number of the format inside."""
    g = rng(7)
    kind = KINDS[name]
    centre = (g.standard_normal(n) * 2.0 ** g.integers(-8, 9, n)).astype(kind).astype(np.float64)
    step = np.abs(np.spacing(centre.astype(kind)).astype(np.float64))
    lo, hi = centre - step * g.integers(0, 3, n) * g.random(n), centre + step * g.integers(0, 3, n) * g.random(n)
    v = (centre + step * g.integers(-4, 5, n)).astype(kind)
    return v.astype(np.float64 if name == "fp64" else np.float32), lo, hi


@pytest.mark.parametrize("name", KINDS)
def test_the_nearest_number_of_the_format_inside(name: str) -> None:
    v, lo, hi = case(name)
    out = within(v, lo, hi, FORMATS[name])
    assert out.dtype == v.dtype
    assert ((lo <= out) & (out <= hi)).all()
    assert np.array_equal(out.astype(KINDS[name]).astype(out.dtype), out)
    assert ((v < lo) | (v > hi)).sum() > 100
    for value, low, high, found in zip(v, lo, hi, out, strict=True):
        if low <= value <= high:
            assert found == value
            continue
        one = KINDS[name](found)  # a step towards the value leaves the bounds
        beyond = np.nextafter(one, KINDS[name](np.inf if value > high else -np.inf))
        assert Fraction(float(beyond)) > Fraction(high) if value > high else Fraction(float(beyond)) < Fraction(low)


def test_what_lies_inside_is_the_same_array() -> None:
    v = np.ones((2, 3), np.float32)
    assert within(v, np.zeros((2, 3)), np.full((2, 3), 2.0), FORMATS["fp32"]) is v


def test_open_bounds_and_values_that_are_no_numbers_stay() -> None:
    v = np.array([np.nan, 3.0, np.inf, 7.0], np.float32)
    lo, hi = np.array([0.0, np.nan, 0.0, 0.0]), np.array([1.0, np.nan, 1.0, 1.0])
    assert np.array_equal(within(v, lo, hi, FORMATS["fp32"]), np.float32([np.nan, 3, 1, 1]), equal_nan=True)


def test_bounds_without_a_number_of_the_format_change_nothing() -> None:
    v, lo, hi = np.float32([1.0]), np.array([1 + 2.0**-30]), np.array([1 + 2.0**-29])
    assert within(v, lo, hi, FORMATS["fp32"])[0] == v[0]


def test_past_the_range_of_the_format() -> None:
    out = within(np.float32([70000.0]), np.array([0.0]), np.array([65519.0]), FORMATS["fp16"])
    assert out[0] == 65504


def test_broadcast_ends() -> None:
    out = within(np.full((1, 2), 5, np.float32), np.zeros((3, 1)), np.array([[1.0], [9.0], [2.0]]), FORMATS["fp32"])
    assert np.array_equal(out, [[1, 1], [5, 5], [2, 2]])
