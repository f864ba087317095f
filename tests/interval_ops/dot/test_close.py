"""The two ways to the bounds of a dot: sums a few slices at a time, and sums as a whole."""

import gc
import weakref

import numpy as np
import pytest

from interval_ops.dot import close as dot_close
from interval_ops.dot import sums as dot_sums
from interval_ops.dot.rule import PendingDot
from interval_ops.profiles.profile import load_profile

RNG = np.random.default_rng(5)


def pair(shape, width):
    x = RNG.normal(size=shape).astype(np.float32)
    return (x, x) if not width else (np.float64(x) - width, np.float64(x) + width)


def pending(kind, a, b, addends, slices=5, m=3, k=4, n=6, shared=False):
    lead = (1,) if shared else (slices,)
    left, right = pair((slices, m, k), a), pair((*lead, k, n), b)
    dot = PendingDot.start(None, (m, n), kind, load_profile("sm_80")).extend(left, right)
    for i in range(addends):
        dot = dot.add(pair((slices, m, n), 1e-3 * i), rounded=True)
    return dot


@pytest.mark.parametrize("kind", ["tf32", "ieee"])
@pytest.mark.parametrize(("a", "b"), [(0, 0), (1e-3, 0), (0, 1e-3)])
@pytest.mark.parametrize("addends", [0, 1, 2, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_both_ways_give_the_same_bits(monkeypatch, kind, a, b, addends, shared):
    monkeypatch.setattr(dot_sums, "_NEAR", 2 * 3 * 6)  # two slices at a time
    dot = pending(kind, a, b, addends, shared=shared)
    near = dot._near()
    whole = dot_close.close(dot._sums(), dot.addends, dot._parameters, dot._ramped)
    assert near is not None
    assert np.array_equal(near[0], whole[0]) and np.array_equal(near[1], whole[1])


def test_magnitudes_that_leave_single_precision_are_summed_as_a_whole():
    big = np.full((2, 3, 4), 1e30, np.float32)
    dot = PendingDot.start(None, (3, 3), "ieee", load_profile("sm_80"))
    assert dot.extend((big, big), (big.transpose(0, 2, 1).copy(),) * 2)._near() is None


def test_addends_with_more_slices_are_added_to_the_whole():
    dot = pending("ieee", 0, 0, 0, slices=1).add(pair((4, 3, 6), 0), rounded=True)
    assert dot._near() is None
    assert dot.interval()[0].shape == (4, 3, 6)


def test_operands_are_free_once_nobody_holds_the_sum():
    """Arrays in a cycle would stay until the next collection, which may be many sums away."""
    x = np.ones((2, 3, 4))
    seen = weakref.ref(x)
    gc.disable()
    try:
        dot = PendingDot.start(None, (3, 5), "ieee", load_profile("sm_80")).extend((x, x + 1e-3), pair((2, 4, 5), 0))
        dot.interval()
        del x, dot
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("widths", [(0.0,), (0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.0, 0.0, 0.0)])
def test_each_addend_is_in_the_sum(widths):
    """Whole numbers below 2^24: the exact sums, to a few roundings."""
    a, b = (RNG.integers(-8, 9, shape).astype(np.float32) for shape in ((2, 3, 4), (2, 4, 6)))
    dot = PendingDot.start(None, (3, 6), "ieee", load_profile("sm_80")).extend((a, a), (b, b))
    low = high = (a @ b).astype(np.float64)
    for i, width in enumerate(widths):
        x = np.full((2, 3, 6), 1000.0 * 3**i)
        dot = dot.add((x, x) if not width else (x - width, x + width), rounded=True)
        low, high = low + x - width, high + x + width
    found = dot.interval()
    assert ((found[0] <= low) & (low - 0.1 <= found[0]) & (high <= found[1]) & (found[1] <= high + 0.1)).all()
