"""Subnormal numbers among the operands of dots: what a tensor core reads of them, and bounds that no flush reaches."""

from __future__ import annotations

import numpy as np
import pytest

from interval_ops.dot import kernels, readings

GENERATOR = np.random.default_rng(0)
SUBNORMAL = np.concatenate([
    GENERATOR.integers(1, 1 << 23, 4000).astype(np.uint32), np.uint32(1) << np.arange(23, dtype=np.uint32),
    (np.uint32(1) << np.arange(1, 24, dtype=np.uint32)) - np.uint32(1), np.array([0, 1 << 23], np.uint32),
]).view(np.float32)  # fmt: skip


@pytest.mark.parametrize("read", [readings.truncate_tf32, readings.round_tf32])
def test_both_carriers_of_a_subnormal_number_are_read_alike(read):
    """float32 loses its 13 last bits, as a word; a float64 that holds the same number has to lose the same."""
    for x in (SUBNORMAL, -SUBNORMAL):
        assert np.array_equal(read(x).astype(np.float64), read(x.astype(np.float64)))


def test_truncation_is_that_of_the_word():
    words = SUBNORMAL.view(np.uint32) & np.uint32(0xFFFFE000)
    assert np.array_equal(
        readings.truncate_tf32(SUBNORMAL.astype(np.float64)), words.view(np.float32).astype(np.float64)
    )


def test_narrow_upper_bounds_are_normal():
    """A library that flushes subnormal numbers would make an upper bound zero."""
    x = np.concatenate([SUBNORMAL.astype(np.float64), 2.0 ** -np.arange(100.0, 400.0), [0.0, 1.0, 3.0]])
    out = np.empty(x.size, np.float32)
    kernels.narrow_up(x, out)
    assert (out.astype(np.float64) >= x).all() and ((out == 0) == (x == 0)).all()
    assert (out[x != 0] >= np.float32(2.0**-126)).all()
