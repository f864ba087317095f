"""Shares of the bound on made-up widths whose decomposition is known."""

from __future__ import annotations

import time

import numpy as np
import pytest

from render.budget import Clock, Halves, attribute, halves_of

WIDTHS = {("operand", "k.py", 3): 6.0, ("cast", "k.py", 5): 3.0, ("cast", "k.py", 6): 1.0, ("arith", "k.py", 7): 0.0}


def total(mute=(), combine=sum):
    mute = set(mute)
    kept = [w for cause, w in WIDTHS.items() if cause not in mute and cause[0] not in mute]
    width = float(combine(kept)) if kept else 0.0
    return Halves((width,), (2 * width,))


def test_shares_of_a_sum():
    items, note = attribute(WIDTHS, total(), total, Clock(100, 0))
    assert note is None
    assert [(i.key, i.share, i.line) for i in items] == [("operand", 0.6, 3), ("cast", 0.4, 5)]
    assert items[0].shrink == pytest.approx(10 / 4)


def test_causes_that_hide_each_other_are_measured_alone():
    same = {("operand", "k.py", 3): 2.0, ("cast", "k.py", 5): 2.0}

    def widest(mute=()):
        kept = [w for c, w in same.items() if c[0] not in set(mute) and c not in set(mute)]
        return Halves((max(kept, default=0.0),), (max(kept, default=0.0),))

    items, _ = attribute(same, widest(), widest, Clock(100, 0))
    assert [i.share for i in items] == [0.5, 0.5]


def test_nothing_to_attribute():
    def never(mute):
        raise AssertionError

    assert attribute(WIDTHS, Halves((0.0,), (0.0,)), never, Clock(1, 0)) == ([], None)
    assert attribute([], total(), never, Clock(1, 0)) == ([], None)


def test_no_time():
    items, note = attribute(WIDTHS, total(), total, Clock(1, 10))
    assert "not measured" in note
    assert [i.key for i in items] == ["operand", "cast", "arith"]


def test_a_slow_first_run_does_not_decide():
    """It may have compiled everything; the first repetition shows what a run really takes."""
    items, note = attribute(WIDTHS, total(), total, Clock(10, 9))
    assert note is None
    assert items[0].share == 0.6


def test_time_that_runs_out_half_way_is_said():
    def slow(mute):
        time.sleep(0.05)
        return total(mute)

    items, note = attribute(WIDTHS, total(), slow, Clock(0.08, 0.01))
    assert "not measured" in note
    assert {i.share for i in items} == {0.0}


def test_half_widths_skip_what_is_unbounded():
    lo, hi = np.array([0.0, 0.0, np.nan, -np.inf]), np.array([2.0, 4.0, np.nan, np.inf])
    assert halves_of([(lo, hi)], [(2,)]) == Halves((1.5,), (0.0,))
    assert halves_of([(lo, hi)], [(1,)]) == Halves((1.5,), (2.0,))
