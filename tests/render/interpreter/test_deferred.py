"""Bounds of what inputs alone go into: computed when asked for, from the operands as they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory


class World:
    def __init__(self, lazy: bool) -> None:
        self.memory = Memory()
        self.tracker = HostTracker(self.memory)
        self.tracker.lazy = lazy

    def ends(self, t: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        envelope = self.memory.envelope(t)
        if envelope is None:
            return t.double().numpy(), t.double().numpy()
        assert not envelope.taints
        return envelope.lo, envelope.hi


def data() -> torch.Tensor:
    return torch.randn(6, 8, generator=torch.Generator().manual_seed(3))


def overwritten(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    x.zero_()
    return y


def overwritten_in_part(x: torch.Tensor) -> torch.Tensor:
    y = x * 0.1
    x[1] = 5.0
    return y + x


def written_result(x: torch.Tensor) -> torch.Tensor:
    y = x.sigmoid()
    y[0] = 1.0
    y.mul_(0.3)
    return y


def through_views(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.half().t()[2:5].float(), x.t()[:1]]).sum(0)


def several_results(x: torch.Tensor) -> torch.Tensor:
    values = (x * 0.1).sort(1)[0]  # the places die, and their memory is used again
    others = [torch.ones(6, 8, dtype=torch.int64) for _ in range(8)]
    return values * len(others)


def in_place_operand(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    x.add_(1.5)
    return y * x


CODES = [overwritten, overwritten_in_part, written_result, through_views, several_results, in_place_operand]


@pytest.mark.parametrize("code", CODES, ids=lambda f: f.__name__)
def test_bounds_are_those_of_an_immediate_evaluation(code):
    found = []
    for lazy in (False, True):
        world = World(lazy)
        x = data()
        with world.tracker:
            y = code(x)
        found.append(world.ends(y))
    for at_once, later in zip(*found, strict=True):
        np.testing.assert_array_equal(at_once, later)
    assert (found[1][0] < found[1][1]).any()


def test_what_nobody_asks_for_is_not_computed():
    world = World(lazy=True)
    x = data()
    with world.tracker:
        h = torch.zeros(8)
        for row in x:
            h = torch.sigmoid(row) * h + row.exp()
        assert world.tracker.followed == 0
    lo, hi = world.ends(h)
    assert world.tracker.followed > 6 and (lo < hi).any()


def test_dead_results_are_let_go():
    world = World(lazy=True)
    x = data()
    with world.tracker:
        for _ in range(2000):
            x.exp()
        assert len(world.tracker.deferred._all) < 1000


def test_too_much_memory_is_evaluated(monkeypatch):
    monkeypatch.setattr("render.interpreter.deferred.LIMIT", 500)
    world = World(lazy=True)
    x = data()
    with world.tracker:
        y = x.exp().sin()
    assert world.tracker.followed and not world.tracker.deferred
    lo, hi = world.ends(y)
    exact = np.sin(np.exp(x.double().numpy()))
    assert ((lo <= exact) & (exact <= hi)).all()


def test_a_tensor_that_a_launch_takes_is_settled():
    world = World(lazy=True)
    x = data()
    with world.tracker:
        y = x.half()
    assert world.tracker.deferred
    world.memory.register(y)
    assert not world.tracker.deferred and (world.ends(y)[0] < world.ends(y)[1]).any()


@pytest.mark.parametrize("launched", [False, True])
def test_what_was_made_before_a_launch_is_not_prepared_for_the_next(launched):
    """A result that rounds nothing is an ordinary tensor again if the host made it since the last launch."""
    world = World(lazy=True)
    x = data().double()
    with world.tracker:
        y = x.float()
        if launched:
            with world.tracker.paused():
                pass
        world.tracker.settle(y)
        world.memory.carry(y, y.double().numpy(), y.double().numpy(), frozenset(), fresh=False)
        z = y * 1.0
    assert (world.memory.host_envelope(z) is None) == (not launched)
