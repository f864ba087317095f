"""Work is counted: a loop that never ends is given up after so many turns, on every machine the same."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session
from render.result.errors import Endless


@triton.jit
def counting(X, Y, limit):
    x = tl.load(X)
    while x < limit:
        x += 1.0
    tl.store(Y, x)


def count(limit: float, steps: int) -> float:
    x, y = torch.zeros(1), torch.zeros(1)
    with Session(steps=steps) as session:
        counting[(1,)](x, y, limit)
    assert not session.taints
    return float(y)


def test_a_turn_of_a_while_counts_twice():
    """Nobody knows how many are to come."""
    assert count(500.0, 2000) == 500.0
    with pytest.raises(Endless, match="still in program 1 of 1, line 17"):
        count(1500.0, 2000)


@pytest.mark.parametrize("steps", [2000, 2001, 2003])
def test_what_never_ends_is_given_up_whatever_the_budget(steps):
    with pytest.raises(Endless, match="still in program 1 of 1"):
        count(float("inf"), steps)


@pytest.mark.parametrize("words", [(), ("enough",)])
def test_who_stops_a_launch_is_told_where_it_was(words: tuple[str, ...]) -> None:
    """Unless he says something of his own."""

    def stop(*_: int) -> None:
        raise KeyboardInterrupt(*words)

    with pytest.raises(KeyboardInterrupt) as caught, Session(progress=stop):
        counting[(3,)](torch.zeros(1), torch.zeros(1), 4.0)
    (said,) = caught.value.args
    assert said == words[0] if words else said.startswith("still in program") and "of 3" in said
