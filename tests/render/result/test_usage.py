"""Usage of a bound, counted: bins and tiles count what a loop counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from render.result import usage
from tests.support import rng

CASES = {
    "uniform": lambda g: g.uniform(0, 0.9, 1000),
    "tiny": lambda g: 10.0 ** g.uniform(-9, -3, 1000),
    "zeros": lambda g: np.zeros(100),
    "exact edges": lambda g: np.array([0.0, 0.05, 0.5, 1.0]),
    "outside": lambda g: np.array([0.1, 0.2, 1.5, np.inf, 80.0]),
    "unbounded": lambda g: np.array([0.1, np.nan, np.nan]),
    "all outside": lambda g: np.full(7, np.inf),
    "mixed zeros": lambda g: np.concatenate([np.zeros(50), 10.0 ** g.uniform(-9, -3, 50)]),
}


@pytest.mark.parametrize("name", CASES)
def test_bins_count_every_bounded_element_once(name: str) -> None:
    values = CASES[name](rng(0))
    edges, counts, outside, _ = usage.histogram(values)
    assert sum(counts) == sum(1 for x in values if x <= 1)
    assert outside == sum(1 for x in values if x > 1)
    assert all(a < b for a, b in pairwise(edges)) and edges[0] == 0 and edges[-1] == 1


def test_linear_bins_agree_with_a_loop() -> None:
    values = CASES["uniform"](rng(3))
    edges, counts, _, log = usage.histogram(values)
    assert not log
    for (lo, hi), n in zip(pairwise(edges), counts, strict=True):
        assert n == sum(1 for x in values if lo <= x < hi)


def test_nothing_has_a_bound() -> None:
    for values in (np.array([]), np.array([np.nan])):
        assert usage.histogram(values)[0] == ()


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (32, 32), (33, 100), (130, 1), (1, 4097)])
def test_tiles_agree_with_a_loop(shape: tuple[int, int]) -> None:
    values = rng(5).uniform(0, 2, shape)
    values[rng(6).uniform(size=shape) < 0.3] = np.nan
    grid, (th, tw) = usage.tiles(values)
    assert max(len(grid), len(grid[0])) <= 32
    for i, row in enumerate(grid):
        for j, found in enumerate(row):
            tile = values[i * th : (i + 1) * th, j * tw : (j + 1) * tw]
            known = [x for x in tile.ravel() if not np.isnan(x)]
            assert found == pytest.approx(max(known), rel=5e-3) if known else found == usage.NO_BOUND
            assert not known or (found > 1) == (max(known) > 1)


def test_a_tile_just_outside_is_not_rounded_inside() -> None:
    grid, _ = usage.tiles(np.array([[1.0000001, 0.9999999, np.inf]]))
    assert grid[0][0] > 1 and grid[0][1] <= 1 and np.isfinite(grid[0][2])


def test_integers_at_the_edge_of_their_bound_are_not_outside() -> None:
    """Points use nothing of their bound, integers that are open all of it: no number lies between."""
    _, counts, outside, log = usage.histogram(np.array([0.0] * 99 + [1.0]))
    assert log and not outside
    assert (counts[0], counts[-1]) == (99, 1)
