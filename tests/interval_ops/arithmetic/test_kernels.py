"""A product with a point has a kernel of its own, which gives the bits of the general one."""

import itertools

import numpy as np
import pytest

from interval_ops.arithmetic import kernels
from interval_ops.arithmetic.hull import rounding_gate
from interval_ops.formats.model import FP32

ENDS = (-np.inf, -3.4e38, -1.1, -1e-40, -0.0, 0.0, 5e-324, 1e-40, 0.3, 7.0, 3.4e38, 1e300, np.inf, np.nan)


@pytest.mark.parametrize("muted", [False, True])
def test_products_with_a_point(muted):
    lanes = [(a, b, c) for a, b, c in itertools.product(ENDS, repeat=3) if not a > b]
    low, high, point = (np.array(x) for x in zip(*lanes, strict=True))
    gate = rounding_gate(FP32, muted)
    got, general = np.empty((2, low.size)), np.empty((2, low.size))
    same = kernels.scale_intervals(low, high, point, *got, gate)
    assert same == kernels.mul_intervals(low, high, point, point, *general, gate)
    assert np.array_equal(got, general, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(general))
