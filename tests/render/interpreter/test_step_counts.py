"""When a launch is given up, when it is spoken of, and which one is not begun."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from render.interpreter import steps
from render.interpreter.handle import METER, Meter
from render.interpreter.steps import Steps
from render.result.errors import Endless


@pytest.fixture(autouse=True)
def nothing_counted():
    """Lanes of whatever ran before are on another meter."""
    before = METER.set(Meter())
    yield
    METER.reset(before)


class Clock(Steps):
    """Steps that nobody runs."""

    def __init__(self, budget: int, total: int = 1) -> None:
        self.heard: list[str] = []
        super().__init__(SimpleNamespace(linear=np.array([0])), total, budget, self.heard.append)

    def still(self) -> str:
        return f"after {self.count}"

    def over(self, what: str) -> Endless:
        return Endless("RND404", what)

    def run(self, stride: int) -> None:
        while True:
            self.tick(stride)


@pytest.mark.parametrize("budget", [300, 512, 1000])
@pytest.mark.parametrize("stride", [1, 7, 600])
def test_a_launch_ends_within_a_look_of_its_budget(budget: int, stride: int) -> None:
    """Never before it, and at most 256 steps and one stride behind it."""
    clock = Clock(budget)
    with pytest.raises(Endless):
        clock.run(stride)
    assert budget <= clock.count <= budget + 256 + stride
    many = Clock(budget)
    many.ticks(budget - 1)
    with pytest.raises(Endless):
        many.ticks(1)
    assert many.count == budget


def test_who_waits_hears_of_it_less_and_less_often() -> None:
    clock = Clock(10**9)
    clock.tick(10**6)
    first = len(clock.heard)
    for _ in range(40):
        clock.tick(10**6)
    assert first == 1 and 8 <= len(clock.heard) <= 12  # at powers of two of the steps


def test_what_cancels_a_launch_is_raised_at_the_next_step() -> None:
    clock = Clock(1000)
    clock.tick()
    clock.cancelled = KeyboardInterrupt("now")
    with pytest.raises(KeyboardInterrupt, match="now"):
        clock.tick()


@pytest.mark.parametrize(("total", "fits"), [(1, True), (steps._MOST, True), (steps._MOST + 1, False)])
def test_a_grid_that_is_out_of_reach_is_refused(total: int, fits: bool) -> None:
    if fits:
        assert Clock(1, total).total == total
        return
    with pytest.raises(Endless, match="out of reach"):
        Clock(1, total)
