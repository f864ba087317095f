"""Products whose operands are off by equal parts of their elements: the movement of two evaluations, from one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from render.reference import shares as module
from render.reference.local_error import Unit
from render.reference.running_error import Movable, error_of
from render.reference.shadow import default_dtype
from render.reference.shares import growth

aten = torch.ops.aten
MOVES = Unit(native=False, casts=False, inputs=2.0**-24, cancelling=2.0**-24, constants=2.0**-24)


def operands(name: str) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(3)
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    if name == "convolution":
        weight = torch.randn(4, 3, 3, 3, dtype=torch.float64)
        return aten.convolution.default, (x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    return aten.bmm.default, (x.view(6, 9, 8), torch.randn(6, 8, 5, dtype=torch.float64))


def movement(name: str, parts: tuple[float, float]) -> tuple[torch.Tensor, float | None]:
    func, args = operands(name)
    errors = [t.abs() * s for t, s in zip(args[:2], parts, strict=True)]
    op = Movable(func, args, {}, errors, default_dtype)
    (found,) = error_of(op, op.run(), [torch.float64], MOVES, False)
    assert found is not None
    return found, growth(op)


@pytest.mark.parametrize("name", ["convolution", "bmm"])
def test_one_evaluation_gives_what_two_do(name, monkeypatch):
    found, more = movement(name, (2.0**-24, 2.0**-23))
    assert more == (1 + 2.0**-24) * (1 + 2.0**-23)
    monkeypatch.setattr(module, "growth", lambda op: None)
    other, _ = movement(name, (2.0**-24, 2.0**-23))
    assert (found >= other * (1 - 2.0**-20)).all()
    assert torch.allclose(found, other, rtol=2.0**-12, atol=0.0)


@pytest.mark.parametrize("name", ["convolution", "bmm"])
def test_moved_operands_stay_within(name):
    found, _ = movement(name, (2.0**-24, 2.0**-24))
    func, args = operands(name)
    exact = func(*args)
    for seed in range(8):
        torch.manual_seed(seed)
        moved = [t * (1 + 2.0**-24 * torch.randint(0, 2, t.shape).mul(2).sub(1)) for t in args[:2]]
        assert ((func(*moved, *args[2:]) - exact).abs() <= found + 1e-15 * exact.abs().max()).all()


def test_other_errors_have_no_growth():
    func, (a, b) = operands("bmm")
    one, two = a.abs() * 2.0**-24, b.abs() * 2.0**-24
    other = two.clone()
    other[0, 0, 0] *= 2
    for args, errors in (((a, b), [one]), ((a, b), [one, other]), ((a * 0, b), [one * 0, two])):
        assert growth(Movable(func, args, {}, errors, default_dtype)) is None
    assert growth(Movable(aten.add.Tensor, (a, a), {}, [one, one], default_dtype)) is None
