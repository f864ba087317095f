"""Selection rules by enumeration: every choice of values inside small intervals, NaN included."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from containment import assert_inside, hard_intervals, interval, point, sample, well_formed
from support import rng, special_values, trials

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic import selection
from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import load_profile

SM80 = load_profile("sm_80")
NUMPY = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
         "ne": np.not_equal}  # fmt: skip
GRID = [-math.inf, -1.0, 0.0, 1.0, math.inf]
BOXES = [(p, q) for p, q in itertools.product(GRID, GRID) if p <= q] + [(math.nan, math.nan)]


def choices(box: tuple[float, float]) -> list[float]:
    """Values of an interval; top is any number or NaN."""
    if math.isnan(box[0]):
        return [*GRID, 0.5, math.nan]
    return [v for v in (*GRID, -0.5, 0.5) if box[0] <= v <= box[1]]


@pytest.mark.parametrize("op", NUMPY)
def test_comparisons_are_exactly_three_valued(op: str) -> None:
    for a, b in itertools.product(BOXES, BOXES):
        surely, possibly = selection.compare(op, interval(*a), interval(*b))
        answers = {bool(NUMPY[op](x, y)) for x in choices(a) for y in choices(b)}
        assert surely[0] == (answers == {True}), (op, a, b)
        loose = math.isnan(a[0]) or math.isnan(b[0])  # inf < top is false, yet reported open
        assert possibly[0] == (True in answers) or loose, (op, a, b)
        assert possibly[0] or True not in answers


@pytest.mark.parametrize("op", NUMPY)
def test_comparisons_of_points_decide_and_know_nan(op: str) -> None:
    x, y = (v.ravel() for v in np.meshgrid(special_values(FP32), special_values(FP32)))
    surely, possibly = selection.compare(op, (x, x), (y, y))
    assert surely is possibly
    assert np.array_equal(surely, NUMPY[op](x, y))
    for nan, other in ((point(math.nan), interval(0.0, 1.0)), (interval(0.0, 1.0), point(math.nan))):
        surely, possibly = selection.compare(op, nan, other)
        assert surely[0] == possibly[0] == (op == "ne")


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extrema_hold_every_choice(name: str, propagate: bool) -> None:
    ignoring, propagating = {"maximum": (np.fmax, np.maximum), "minimum": (np.fmin, np.minimum)}[name]
    function = propagating if propagate else ignoring
    for a, b in itertools.product(BOXES, BOXES):
        out = getattr(selection, name)(interval(*a), interval(*b), propagate)
        well_formed(out)
        values = [function(x, y) for x in choices(a) for y in choices(b)]
        if any(math.isnan(v) for v in values):
            assert np.isnan(out[0][0])
        elif not np.isnan(out[0][0]):
            assert (out[0][0], out[1][0]) == (min(values), max(values))
        else:
            assert math.isnan(a[0]) or math.isnan(b[0])


def test_a_nan_point_yields_to_the_other_operand() -> None:
    nan, box = point(math.nan), interval(2.0, 3.0)
    for function in (selection.maximum, selection.minimum):
        for out in (function(nan, box), function(box, nan)):
            assert (out[0][0], out[1][0]) == (2.0, 3.0)
        assert np.isnan(function(nan, box, propagate_nan=True)[0][0])
        both = function(nan, point(1.0))
        assert both[0] is both[1] and both[0][0] == 1.0


def test_maximum_is_not_the_concrete_winner() -> None:
    """U14 and the published rule: the loser's interval may reach higher."""
    out = selection.maximum(interval(0.99, 1.01), interval(0.5, 1.5))
    assert (out[0][0], out[1][0]) == (0.99, 1.5)
    y = np.float32(rng(30).uniform(1, 2, trials(1000))).astype(float)
    products = [arithmetic.mul((y, y), point(k), FP32, SM80) for k in (1000.0, 999.0)]
    difference = arithmetic.sub(*products, FP32, SM80)
    fused = np.float32(1000 * y - np.float32(999 * y).astype(float)).astype(float)
    assert np.any(fused > y)
    assert_inside(selection.maximum((y, y), difference), np.maximum(y, fused), y)


def test_clamp_holds_every_choice() -> None:
    generator = rng(31)
    x, low, high = (hard_intervals(generator, FP32, trials(1000)) for _ in range(3))
    out = selection.clamp(x, low, high)
    v, p, q = (sample(generator, a, FP32) for a in (x, low, high))
    assert_inside(out, np.minimum(np.maximum(v, p), q), v, p, q)
    lo, hi = selection.clamp(point(math.nan), point(-1.0), point(1.0))
    assert lo[0] == hi[0] == -1.0


def test_select_takes_the_hull_when_undecided() -> None:
    """U13: only the executed branch of a where is not enough."""
    surely, possibly = np.array([True, False, False]), np.array([True, False, True])
    a, b = interval([1.0] * 3, [2.0] * 3), interval([5.0] * 3, [6.0] * 3)
    lo, hi = selection.select(surely, possibly, a, b)
    assert lo.tolist() == [1, 5, 1] and hi.tolist() == [2, 6, 6]
    top = interval([math.nan] * 3, [math.nan] * 3)
    assert np.isnan(selection.select(surely, possibly, a, top)[0]).tolist() == [False, True, True]
    lo, hi = selection.select(surely, surely, point([1.0, 2.0, 3.0]), point(7.0))
    assert lo is hi and lo.tolist() == [1, 7, 7]
    lo, hi = selection.select(surely, possibly, point(4.0), interval(4.0, 4.0))
    assert lo is hi and lo.tolist() == [4, 4, 4]


def test_an_undecided_condition_reaches_the_fused_branch() -> None:
    """U13: x*x - C > 1e-9 with C = fl(x*x) is false unfused, true with an fma."""
    x = np.float32(1.1)
    square = arithmetic.square(point(x), FP32, SM80)
    t = arithmetic.sub(square, point(np.float32(x * x)), FP32, SM80)
    out = selection.select(*selection.compare("gt", t, point(1e-9)), point(1.0), point(-1.0))
    assert_inside(out, np.array([1.0]))
    assert_inside(out, np.array([-1.0]))


def test_hull_holds_both_and_broadcasts() -> None:
    lo, hi = selection.hull(interval([[0.0], [4.0]], [[1.0], [5.0]]), interval([[2.0, math.nan]], [[3.0, math.nan]]))
    assert lo.tolist()[0][0] == 0 and hi.tolist()[0][0] == 3 and lo[1, 0] == 2 and hi[1, 0] == 5
    assert np.isnan(lo[:, 1]).all() and np.isnan(hi[:, 1]).all()
    p = point([1.0, 2.0])
    assert selection.hull(p, p)[0] is selection.hull(p, p)[0]
