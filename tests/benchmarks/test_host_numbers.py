"""A few random programs of numbers that left torch: what Python makes of them does not leave the bounds."""

from __future__ import annotations

import warnings

import pytest

from benchmarks.host_numbers import attacked


@pytest.mark.parametrize("width", [0.001, 0.05])
def test_nothing_leaves_the_bounds_of_random_programs(width: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [attacked(seed, width) for seed in range(1, 60, 2)]
    ran = [one for one in found if one is not None]
    assert len(ran) > 8 and sum(checked for checked, _ in ran) > 80
    assert [left for _, left in ran if left] == []
