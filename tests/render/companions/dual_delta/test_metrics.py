"""Distances of two outputs, on numbers whose distance is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interval_ops.formats.model import FP16, FP32, FP64
from render.companions.dual_delta.metrics import METRICS, differs, format_of, hybrid, measured, normwise, ulp


def test_hybrid_is_the_least_tolerance_that_passes() -> None:
    g = np.random.default_rng(1)
    y, e = g.normal(size=(2, 50)) * 2.0 ** g.integers(-20, 20, 50)
    tol = hybrid(y, e, FP32)
    assert np.allclose(y, e, rtol=tol * (1 + 1e-12), atol=tol) and not np.allclose(y, e, rtol=tol * 0.99, atol=tol)


@pytest.mark.parametrize("size", [1.0, 1e300, 1e-300])
def test_norms_do_not_leave_the_range_of_float64(size: float) -> None:
    assert normwise(np.array([3.0, 0.0]) * size, np.array([0.0, 4.0]) * size, FP32) == pytest.approx(1.25)
    assert normwise(np.array([3.0, 4.0]), np.zeros(2), FP32) == 5.0


@pytest.mark.parametrize(("e", "y", "units"), [
    (1.0, 1.0 + 2.0**-10, 1.0), (2.0, 2.0 - 2.0**-10, 0.5), (0.0, 2.0**-24, 1.0), (2.0**-20, 3 * 2.0**-24, 13.0),
])  # fmt: skip
def test_units_of_the_last_place(e: float, y: float, units: float) -> None:
    assert ulp(np.array([y]), np.array([e]), FP16) == units


def test_failures_are_no_samples() -> None:
    fine, bad = np.array([1.0, np.inf]), np.array([1.0, np.nan])
    assert not differs(fine, fine) and not differs(bad, bad)
    assert differs(fine, bad) and differs(np.array([1.0, -np.inf]), fine) and differs(fine, fine[:1])
    for metric in METRICS.values():
        assert measured(metric, [fine], [fine], [FP32]) == 0.0, "both infinite is agreement"
        assert math.isnan(measured(metric, [fine, bad], [fine, fine], [FP32, FP32]))


def test_the_worst_output_counts() -> None:
    one = [np.array([1.0]), np.array([1.0])]
    assert measured(hybrid, [np.array([1.5]), np.array([2.0])], one, [FP32, FP32]) == 0.5


def test_integers_count_as_float64() -> None:
    assert format_of("torch.int32") is FP64 and format_of("torch.float16") is FP16
