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
