"""The broadcast driver: every layout gives what the materialised operands give."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from support import rng

from interval_ops.arithmetic import broadcast
from interval_ops.arithmetic.broadcast import BLOCK, broadcast_shape, elementwise


@njit
def _axpy(a, b, keep, out, flags, k):
    for i in range(out.size):
        out[i] = a[i] + k * b[i] if keep[i] else 0.0
        flags[i] = a[i] < b[i]
    return bool(np.all(keep))


SHAPES = [
    (3,),
    (1, 7),
    (5, 1, 9),
    (BLOCK + 17,),
    (3, BLOCK + 5),
    (700, 61),
    (2, 3, 130, 67),
    (4, BLOCK // 2, 3),
    (1, 1),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_layout_equals_the_materialised_one(shape: tuple[int, ...]) -> None:
    generator = rng(1)
    for case in range(2 ** (len(shape) + 1)):
        dims = tuple(n if case >> k & 1 else 1 for k, n in enumerate(shape))
        a = generator.standard_normal(dims)
        b = generator.standard_normal(shape[::-1]).T.astype(np.float32 if case % 2 else np.float64)
        a = np.broadcast_to(a, shape) if case % 3 == 0 else a
        keep = generator.random(dims) < 0.7
        out, flags, every = elementwise(_axpy, (a, b, keep), (np.float64, np.bool_), 0.5)
        assert out.shape == shape and out.flags.c_contiguous
        expected = np.where(keep, a + 0.5 * b.astype(np.float64), 0.0)
        assert np.array_equal(out, np.broadcast_to(expected, shape))
        assert np.array_equal(flags, np.broadcast_to(a < b, shape))
        assert every == bool(keep.all())


def test_empty_operands_and_negative_strides() -> None:
    empty = np.zeros((0, 4))
    out, flags, _ = elementwise(_axpy, (empty, empty, empty > 0), (np.float64, np.bool_), 1.0)
    assert out.shape == (0, 4) and flags.shape == (0, 4)
    a = np.arange(3.0 * BLOCK)[::-1]
    out, _, _ = elementwise(_axpy, (a, a, np.ones(1, bool)), (np.float64, np.bool_), 1.0)
    assert np.array_equal(out, 2 * a)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="rank"):
        broadcast_shape([np.zeros(3), np.zeros((1, 3))])
    with pytest.raises(ValueError, match="broadcast"):
        broadcast_shape([np.zeros((2, 3)), np.zeros((2, 4))])


def test_a_point_stays_one_object_in_float64() -> None:
    a = np.ones(3, np.float32)
    lo, hi = broadcast.as_bounds((a, a))
    assert lo is hi and lo.dtype == np.float64
