"""Short rows have kernels of their own, which give the bits of the general ones."""

import numpy as np
import pytest

from interval_ops.reduction import kernels


def rows(n):
    generator = np.random.default_rng(n)
    lo = generator.normal(size=(9, n))
    lo[1, 0], lo[2], lo[3, -1] = np.nan, -0.0, np.inf
    lo[4] = np.round(4 * lo[4])
    hi = lo + np.abs(generator.normal(size=lo.shape)) * 1e-3
    hi[4] = lo[4]
    return lo, hi


def transposed(x):
    return np.ascontiguousarray(x.T)[None]


@pytest.mark.parametrize("n", [1, 7, 8, 29, 32, 128])
def test_sums_of_short_rows(n):
    lo, hi = rows(n)
    out, general = np.empty((len(lo), kernels.ROWS)), np.empty((1, kernels.ROWS, len(lo)))
    kernels.accumulate_rows(lo, hi, out)
    kernels.accumulate(transposed(lo), transposed(hi), general)
    assert np.array_equal(out, general[0].T, equal_nan=True)


@pytest.mark.parametrize("n", [1, 7, 8, 29, 32, 128])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extremes_of_short_rows(n, sign):
    lo, hi = rows(n)
    out, general = np.empty((len(lo), 2)), np.empty((1, 2, len(lo)))
    kernels.extreme_rows(lo, hi, sign, out)
    kernels.extremes(transposed(lo), transposed(hi), sign, general)
    assert np.array_equal(out, general[0].T, equal_nan=True)
    assert not np.isnan(out[[0, 2, 3]]).any()
