"""The median element without sorting: the one that a stable sort of all half widths finds."""

from __future__ import annotations

import numpy as np
import pytest

import render.result.blockwise
from render.explain.budget import halves_of, of_outputs
from render.result.median import median_element


def sorted_out(lo, hi):
    with np.errstate(invalid="ignore", over="ignore"):
        half = ((hi - lo) / 2).reshape(-1)
    wide = np.flatnonzero((half > 0) & np.isfinite(half))
    if not wide.size:
        return None
    return int(wide[np.argsort(half[wide], kind="stable")][(len(wide) - 1) // 2])


@pytest.mark.parametrize("seed", range(40))
def test_as_a_stable_sort_finds_it(seed, monkeypatch):
    """Many equal widths, points, infinite and undefined bounds, several blocks, arrays that are not contiguous."""
    monkeypatch.setattr(render.result.blockwise, "BLOCK", 8)
    rng = np.random.default_rng(seed)
    shape = [(37,), (5, 9), (2, 3, 7), (1,), ()][seed % 5]
    lo = rng.normal(size=shape)
    width = rng.integers(0, 4, shape).astype(float)
    hi = lo.round() + width
    lo = np.where(rng.random(shape) < 0.1, -np.inf, lo.round())
    hi = np.where(rng.random(shape) < 0.1, np.nan, hi)
    assert median_element(lo, hi) == sorted_out(lo, hi)
    assert median_element(lo.T, hi.T) == sorted_out(lo.T, hi.T)


def test_nothing_has_a_width():
    assert median_element(np.ones(5), np.ones(5)) is None
    assert median_element(np.zeros((0, 3)), np.zeros((0, 3))) is None


def test_half_widths_from_what_was_measured():
    """The same figures as from the arrays."""
    from types import SimpleNamespace

    from render.judgement.measure import bound_of

    rng = np.random.default_rng(1)
    lo = rng.normal(size=(6, 7))
    hi = lo + rng.random((6, 7))
    hi[2, 3] = np.inf
    for place in ((0, 0), (2, 3)):
        o = SimpleNamespace(bound=bound_of(lo, hi, lambda: lo), worst_index=place)
        assert of_outputs([o]) == halves_of([(lo, hi)], [place])
