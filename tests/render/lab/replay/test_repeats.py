"""Short runs are repeated, long ones are not."""

from __future__ import annotations

from render.lab.replay import repeats


def test_the_median_of_further_runs() -> None:
    took = iter([3.0, 1.0, 2.0])
    assert repeats.again(lambda: next(took), repeats.SHORT_S) == 2.0
    assert list(took) == []


def test_long_runs_stand_as_they_are() -> None:
    assert repeats.again(lambda: 1 / 0, repeats.SHORT_S * 1.01) is None and repeats.again(lambda: 1 / 0, None) is None
