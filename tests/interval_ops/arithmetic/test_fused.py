"""Fused multiply-add against exact rationals: to odd in float64, then once more to the operands' format."""

from __future__ import annotations

import numpy as np
from support import exact, rng, round_fraction, trials

from interval_ops.arithmetic.fused import fma_value, odd_sum
from interval_ops.formats.model import FP32, FP64


def samples(count: int, dtype: type) -> list[np.ndarray]:
    """Operands whose products and sums cancel, tie and differ widely in size."""
    g = rng(31)
    x, y = (g.normal(size=count) * 2.0 ** g.integers(-20, 20, count) for _ in range(2))
    z = np.where(g.random(count) < 0.5, -x * y * (1 + g.integers(-2, 3, count) * 2.0**-23), g.normal(size=count))
    return [a.astype(dtype) for a in (x, y, z)]


def test_float32_operands_round_once() -> None:
    x, y, z = samples(trials(4000), np.float32)
    found = fma_value(x, y, z).astype(np.float32)
    for a, b, c, value in zip(x, y, z, found, strict=True):
        assert exact(value) == round_fraction(exact(a) * exact(b) + exact(c), FP32, "rtne")


def test_float64_operands_round_once() -> None:
    x, y, z = samples(trials(2000), np.float64)
    for a, b, c, value in zip(x, y, z, fma_value(x, y, z), strict=True):
        assert exact(value) == round_fraction(exact(a) * exact(b) + exact(c), FP64, "rtne")


def test_to_odd_is_exact_or_has_an_odd_last_bit() -> None:
    for p, z in rng(5).normal(size=(trials(2000), 2)) * [1.0, 2.0**-30]:
        found, true = odd_sum(float(p), float(z)), exact(float(p)) + exact(float(z))
        if exact(found) != true:
            assert np.float64(found).view(np.int64) & 1
            assert exact(np.nextafter(found, -np.inf)) < true < exact(np.nextafter(found, np.inf))


def test_infinities_and_broadcasting() -> None:
    found = fma_value(np.array([[np.inf], [1.0]], np.float32), np.float32([2.0, -2.0]), np.float32(1.0))
    assert found.tolist() == [[np.inf, -np.inf], [3.0, -1.0]]
    assert np.isnan(fma_value(np.float32([np.inf]), np.float32([0.0]), np.float32([1.0])))[0]
