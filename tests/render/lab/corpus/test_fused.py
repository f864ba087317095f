"""One rounding of x y + z, against exact rationals."""

from __future__ import annotations

import numpy as np

from interval_ops.formats.model import FP32
from render.lab.corpus.fused import multiply_add
from tests.support import exact, rng, round_fraction, trials


def test_one_rounding_where_sums_cancel_and_tie() -> None:
    g, n = rng(6), trials(3000)
    x, y = (np.float32(g.normal(size=n) * 2.0 ** g.integers(-12, 12, n)) for _ in range(2))
    z = np.where(g.random(n) < 0.6, -(x * y) * np.float32(1 + 2.0**-23), np.float32(g.normal(size=n))).astype(
        np.float32
    )
    for a, b, c, found in zip(x, y, z, multiply_add(x, y, z), strict=True):
        assert exact(found) == round_fraction(exact(a) * exact(b) + exact(c), FP32, "rtne")
