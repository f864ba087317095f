"""The figures of a border against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.interpreter.memory.shadow import hull_of, with_values
from render.reference import figures

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-310, 3e38])


def grid(count):
    return (np.ascontiguousarray(x.reshape(-1)) for x in np.meshgrid(*[SPECIAL] * count))


def test_alike_is_equality_but_for_signs_of_zero_and_nan():
    for a, b in zip(*grid(2), strict=True):
        expected = a == b or (a != a and b != b)
        assert figures.alike(np.array([1.0, a]), np.array([1.0, b])) == expected


def test_hulls_and_joins_are_those_of_numpy():
    a, b, c = grid(3)
    with np.errstate(all="ignore"):
        low, high = hull_of(a, b.astype(np.float32), c)
        assert np.array_equal(low, np.minimum.reduce([a, b.astype(np.float32), c]), equal_nan=True)
        assert np.array_equal(high, np.maximum.reduce([a, b.astype(np.float32), c]), equal_nan=True)
        low, high = with_values(a, b, c)
        assert np.array_equal(low, np.minimum(b, a), equal_nan=True)
        assert np.array_equal(high, np.maximum(c, a), equal_nan=True)
    assert all(x.shape == (2, 3) for x in with_values(np.zeros((2, 3), np.float32), np.zeros(()), np.ones((1, 3))))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_etas_are_quotients_and_counts(dtype):
    generator = torch.Generator().manual_seed(3)
    e, moved = (torch.randn(500, dtype=torch.float64, generator=generator) for _ in range(2))
    moved = moved.abs() * 1e-6
    y, z = ((e + 1e-5 * torch.randn(500, generator=generator)).to(dtype) for _ in range(2))
    e[:3], y[3], z[4], moved[5:9] = y[:3].double(), torch.nan, torch.inf, 0.0
    flat = [figures.flat(x) for x in (y, z, e, moved)]
    found = figures.etas(flat[0], flat[1], flat[2], flat[3], flat[2], flat[3], (1.0, 2.0**-24, 1e-30), 8.0)
    room = flat[3] + 2.0**-24 * np.abs(flat[2]) + 1e-30
    t, r = (np.nan_to_num(np.abs(f.astype(np.float64) - flat[2]) / room, nan=np.inf, posinf=np.inf) for f in flat[:2])
    assert (found.target, found.reference) == (t.max(), r.max())
    assert found.bad == ((t > 8) & (r <= 8)).sum() and found.weak == ((r > 8) & (t <= 8)).sum()
    assert found.nonfinite == 1


@pytest.mark.parametrize("size", [1, figures.BLOCK, 3 * figures.BLOCK + 17])
def test_blocks_are_looked_at_where_they_hold_something_larger(size):
    """The largest, special ones included, wherever it stands; against numpy."""
    rng = np.random.default_rng(size)
    e, moved = rng.standard_normal(size), np.abs(rng.standard_normal(size)).astype(np.float32) * 1e-6
    y, z = ((e * (1 + 1e-6 * rng.standard_normal(size))).astype(np.float32) for _ in range(2))
    for place in (0, size // 2, size - 1):
        for special in (0.0, 7.0, np.inf, np.nan):
            one, far = y.copy(), e.copy()
            one[place], far[place] = special, e[place] + (1e9 if special == 7.0 else special)
            with np.errstate(all="ignore"):
                gap = np.where((one == z) | (np.isnan(one) & np.isnan(z)), 0.0, np.abs(one.astype(np.float64) - z))
                finite = np.abs(z[np.isfinite(z)].astype(np.float64))
                count, most, largest = figures.differences(one, z)
                assert (count, most, largest) == (
                    (gap != 0).sum(),
                    np.nanmax(gap, initial=0.0),
                    finite.max(initial=0.0),
                )
                other = np.empty(size, np.bool_)
                most, at = figures.apart(far, e, moved, 4.0, 2.0**-22, 1e-30, other)
                gap = np.where(far == e, 0.0, np.abs(far - e))
                ratio = gap / (4.0 * moved + 2.0**-22 * np.abs(e) + 1e-30)
                ratio = np.where(np.isnan(ratio), np.inf, ratio)
                assert most == ratio.max() and ratio[at] == most and (other == (ratio > 1)).all()
            hollow = figures.hollow(one, z, e, moved, 2.0**-24, 1.0)
            gap = np.where((one == z) | (np.isnan(one) & np.isnan(z)), 0.0, np.abs(one.astype(np.float64) - z))
            assert np.array_equal(hollow, np.flatnonzero((gap > 16 * 2.0**-24 * np.abs(e)) & ~(moved < np.abs(e) / 2)))


@pytest.mark.parametrize("seed", range(4))
def test_one_pass_over_a_part_is_the_passes_over_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    y, z, exact = (random.standard_normal(1300) for _ in range(3))
    moved = np.abs(random.standard_normal(1300)).astype(np.float32)
    lo, hi = exact - 1.5, exact + 1.5
    if seed > 1:
        y[7], z[900], lo[1000], exact[1100] = np.nan, np.inf, -np.inf, y[1100]
    y, z = y.astype(np.float32), z.astype(np.float32)
    units = 2.0**-3, 2.0**-5, 1e-3
    found = figures.judged(y, z, exact, moved, (lo, hi), units)
    apart = figures.etas(y, z, exact, moved, exact, moved, units, np.inf)
    assert (found.target, found.reference) == (apart.target, apart.reference)
    assert (found.target_out, found.reference_out, found.unbounded) == figures.outside(y, z, lo, hi)
    assert found.finite == (seed < 2)
