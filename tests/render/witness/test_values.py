"""Values of an evaluation read the same whether they were put one by one or many at once."""

from __future__ import annotations

import math

import numpy as np

from render.exact import intervals as iv
from render.exact.points import number, power
from render.witness.values import Values


def test_single_values_as_ends_and_ends_as_single_values() -> None:
    values = Values(4)
    values[0] = iv.interval(1.0, 2.0)
    values.put(np.array([1, 2]), (np.array([3.0, math.nan]), np.array([4.0, math.nan])))
    low, high = values.ends(np.array([0, 1, 2]))
    assert low[:2].tolist() == [1.0, 3.0] and high[:2].tolist() == [2.0, 4.0] and np.isnan(low[2])
    assert [tuple(map(float, v)) for v in (values[0], values[1])] == [(1.0, 2.0), (3.0, 4.0)]
    assert values[2] is None and values.some(np.array([2, 1]))[0] is None


def test_ends_enclose_what_float64_does_not_hold() -> None:
    values, thin = Values(1), number(1.0) + power(-80)
    values[0] = (thin.lower(), thin.upper())
    low, high = values.ends(np.array([0]))
    assert low[0] == 1.0 and high[0] == 1 + 2.0**-52


def test_truths_are_marked() -> None:
    values = Values(2)
    values[1] = (False, True)
    assert values.truth.tolist() == [False, True] and values[1] == (False, True)
