"""Products against exact sums of fractions: plain, magnitudes, every edge of a tile, both ways of making them."""

from fractions import Fraction
from itertools import product as each

import numpy as np
import pytest

from interval_ops import threads
from interval_ops.matrix import product
from interval_ops.matrix.product import KernelWindows, of_rows
from interval_ops.matrix.tile import is_fast

WAYS = [False, *([True] if is_fast() else [])]


@pytest.fixture(params=WAYS, ids=lambda fast: "tiles" if fast else "numpy")
def way(request, monkeypatch):
    monkeypatch.setattr(product, "FAST", request.param)


def _numbers(rng, *shape):
    spread = rng.choice([0.0, 1.0, 2.0**-20, 2.0**30], shape, p=[0.1, 0.7, 0.1, 0.1])
    return (rng.standard_normal(shape) * spread).astype(np.float32)


def _within(found, sums, x, w, places):
    """Off by gamma_K of the exact sum of magnitudes at most."""
    for i, j in places:
        terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x[i], w[j], strict=True)]
        exact, size = sum(terms), sum(map(abs, terms))
        gamma = Fraction(len(terms) + 1, 2**53)
        assert abs(Fraction(float(found[i, j])) - exact) <= gamma / (1 - gamma) * size
        gamma = Fraction(len(terms) + 2, 2**24)
        room = gamma / (1 - gamma) * size + Fraction(len(terms), 2**148)
        assert abs(Fraction(float(sums[i, j])) - size) <= room


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 192, 48), (9, 193, 49), (7, 15, 23), (17, 400, 97), (16, 33, 72)])
def test_rows(way, shape):
    m, k, n = shape
    rng = np.random.default_rng(sum(shape))
    x, w = _numbers(rng, m, k), _numbers(rng, n, k)
    found, sums = of_rows(x, w)
    assert found.shape == sums.shape == (m, n) and found.dtype == np.float64 and sums.dtype == np.float32
    corners = set(each((0, m // 2, m - 1), (0, n // 2, n - 1)))
    _within(found, sums, x, w, [*corners, *zip(rng.integers(0, m, 20), rng.integers(0, n, 20), strict=True)])


def test_rows_that_are_none(way):
    found, sums = of_rows(np.zeros((3, 0), np.float32), np.zeros((5, 0), np.float32))
    assert found.shape == (3, 5) and not found.any() and not sums.any()


def test_rows_of_a_part_of_a_matrix(way):
    rng = np.random.default_rng(3)
    x, w = _numbers(rng, 20, 50)[::2, 5:40], _numbers(rng, 70, 30)[:, :].T[:30].copy().T[:, :30]
    w = np.concatenate([w, w[:, :5]], 1)
    _within(*of_rows(x, w), x, w, [(0, 0), (9, 69), (4, 50)])


def test_a_row_keeps_what_is_not_finite_to_itself(way):
    x, w = np.ones((9, 5), np.float32), np.ones((50, 5), np.float32)
    x[3, 2], w[49, 1] = np.inf, np.nan
    found, _ = of_rows(x, w)
    bad = ~np.isfinite(found)
    assert bad[3].all() and bad[:, 49].all() and np.count_nonzero(bad) == 50 + 9 - 1


CONVOLUTIONS = [
    ((3, 9, 11), 5, KernelWindows((3, 3), (1, 1), (1, 1), (1, 1))),
    ((3, 23, 20), 9, KernelWindows((7, 7), (2, 2), (1, 1), (3, 3))),
    ((2, 12, 12), 8, KernelWindows((1, 1), (2, 2), (1, 1), (0, 0))),
    ((4, 14, 10), 3, KernelWindows((2, 3), (3, 2), (2, 1), (2, 0))),
    ((1, 8, 8), 1, KernelWindows((4, 4), (4, 4), (1, 1), (0, 0))),
    ((2, 5, 5), 7, KernelWindows((5, 5), (1, 1), (1, 1), (0, 0))),
    ((2, 7, 6), 2, KernelWindows((1, 2), (1, 5), (1, 3), (4, 6))),
    ((21, 6, 6), 17, KernelWindows((3, 3), (1, 1), (2, 2), (2, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("image", "out", "windows"), CONVOLUTIONS)
def test_windows(way, image, out, windows):
    """Of all rows at once and of some, against windows that are cut out one by one."""
    rng = np.random.default_rng(len(str(windows)))
    x, w = _numbers(rng, *image), _numbers(rng, out, image[0] * windows.size[0] * windows.size[1])
    padded = np.pad(x, ((0, 0), (windows.around[0],) * 2, (windows.around[1],) * 2))
    reach = [d * (k - 1) + 1 for d, k in zip(windows.apart, windows.size, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(padded.shape[1:], reach, windows.step, strict=True)]
    cut = []
    for r, c in each(*map(range, counts)):
        top, left = r * windows.step[0], c * windows.step[1]
        seen = padded[:, top : top + reach[0] : windows.apart[0], left : left + reach[1] : windows.apart[1]]
        cut.append(seen.reshape(-1))
    cut = np.array(cut)
    held = windows.of(x)
    for first, last in ((0, counts[0]), (counts[0] // 2, counts[0])):
        found, sums = held.times(w, first, last)
        here = cut[first * counts[1] : last * counts[1]]
        assert found.shape == sums.shape == (out, len(here))
        places = list(each(range(out), range(len(here))))
        chosen = [places[i] for i in {0, len(places) - 1, *rng.integers(0, len(places), 40)}]
        _within(found, sums, w, here, chosen)


def test_what_lies_behind_an_image_is_never_used(way):
    """Panels read on behind the last window: nothing of it reaches a result."""
    x = np.ones((2, 6, 6), np.float32)
    w = np.ones((3, 18), np.float32)
    held = KernelWindows((3, 3), (1, 1), (1, 1), (0, 0)).of(x)
    end = held.flat.size - 48 - 3
    held.flat[end:] = np.nan
    found, sums = held.times(w, 0, 4)
    assert (found == 18).all() and (sums == 18).all()


@pytest.mark.parametrize("rows", [1, 3])
def test_few_windows_are_multiplied_as_rows(way, rows):
    rng = np.random.default_rng(rows)
    x, w = _numbers(rng, 3, 6, 9), _numbers(rng, 11, 27)
    held = KernelWindows((3, 3), (1, 1), (1, 1), (0, 0)).of(x)
    found, sums = held.times(w, 4 - rows, 4)
    assert 7 * rows <= product.FEW
    cut = [x[:, r : r + 3, c : c + 3].reshape(-1) for r in range(4 - rows, 4) for c in range(7)]
    _within(found, sums, w, cut, list(each(range(11), range(7 * rows))))


def test_threads_change_no_bit():
    rng = np.random.default_rng(0)
    x, w = _numbers(rng, 100, 300), _numbers(rng, 200, 300)
    held = KernelWindows((3, 3), (1, 1), (1, 1), (1, 1)).of(_numbers(rng, 30, 12, 13))
    kernel = _numbers(rng, 150, 270)
    made = []
    for count in (1, 2, 3):
        with threads.using(count):
            made.append([*of_rows(x, w), *held.times(kernel, 0, 12)])
    assert all(np.array_equal(a, b) for other in made[1:] for a, b in zip(made[0], other, strict=True))
