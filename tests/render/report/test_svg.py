"""Pictures: bins and tiles count what a loop counts, and the SVG is well formed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest

from render.report import svg
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
    usage = CASES[name](rng(0))
    bins, _ = svg.histogram_bins(usage)
    inside = sum(1 for x in usage if x <= 1)
    outside = sum(1 for x in usage if x > 1)
    assert sum(b.elements for b in bins if not b.outside) == inside
    assert sum(b.elements for b in bins if b.outside) == outside
    edges = [(b.lo, b.hi) for b in bins]
    assert all(first[1] == second[0] for first, second in pairwise(edges))


def test_linear_bins_agree_with_a_loop() -> None:
    usage = CASES["uniform"](rng(3))
    bins, log = svg.histogram_bins(usage)
    assert not log
    for b in bins:
        assert b.elements == sum(1 for x in usage if b.lo <= x < b.hi)


@pytest.mark.parametrize("name", CASES)
def test_histogram_is_well_formed(name: str) -> None:
    root = ET.fromstring(svg.histogram(CASES[name](rng(0))))
    bars = [r for r in root.iter() if r.tag.endswith("rect")]
    assert bars
    assert all(float(bar.attrib["height"]) <= 170 for bar in bars)


def test_histogram_of_nothing() -> None:
    assert svg.histogram(np.array([])) == ""
    assert svg.histogram(np.array([np.nan])) == ""


def test_outside_is_said_in_words() -> None:
    assert ">outside<" in svg.histogram(np.array([0.1, 3.0]))
    assert ">outside<" not in svg.histogram(np.array([0.1, 0.3]))
    assert ">outside<" in svg.heatmap(np.array([[0.1, 3.0]]))
    assert ">no bound<" in svg.heatmap(np.array([[0.1, np.nan]]))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (32, 32), (33, 100), (130, 1), (1, 4097)])
def test_tiles_agree_with_a_loop(shape: tuple[int, int]) -> None:
    usage = rng(5).uniform(0, 1, shape)
    usage[rng(6).uniform(size=shape) < 0.3] = np.nan
    grid, (th, tw) = svg.tiles(usage)
    assert max(grid.shape) <= 32
    for i in range(grid.shape[0]):
        for j in range(grid.shape[1]):
            tile = usage[i * th : (i + 1) * th, j * tw : (j + 1) * tw]
            known = [x for x in tile.ravel() if not np.isnan(x)]
            assert (grid[i, j] == max(known)) if known else np.isnan(grid[i, j])


def test_heatmap_has_one_cell_per_tile() -> None:
    root = ET.fromstring(svg.heatmap(rng(0).uniform(0, 1, (8, 4))))
    titles = [t.text or "" for t in root.iter() if t.tag.endswith("title")]
    assert sum(t.startswith("from (") for t in titles) == 32


def test_pictures_need_no_script_and_no_network() -> None:
    for picture in (svg.histogram(np.array([0.5])), svg.heatmap(np.ones((2, 2)))):
        assert "script" not in picture
        assert picture.count("http") == 1  # the name space


def test_integers_at_the_edge_of_their_bound_are_not_outside():
    """Points use nothing of their bound, integers that are open all of it: no number lies between."""
    bins, log = svg.histogram_bins(np.array([0.0] * 99 + [1.0]))
    assert log and not any(b.outside for b in bins)
    assert (bins[0].elements, bins[-1].elements) == (99, 1)
