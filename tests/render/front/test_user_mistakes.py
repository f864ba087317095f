"""Mistakes of host code that only torch or Python notices, in calls that are followed: they are the user's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.result.errors import KernelError

N = 16


@triton.jit
def doubled(X, Y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(Y + i, tl.load(X + i) * 2)


MISTAKES = {
    "item": lambda y: y.item(),
    "int": lambda y: int(y),
    "float": lambda y: float(y),
    "bool": lambda y: bool(y),
    "index": lambda y: y[99],
    "numpy": lambda y: y.requires_grad_().numpy(),
    "array": lambda y: np.array(y.requires_grad_()),
    "ragged": lambda y: torch.tensor([y, y]),
    "text": lambda y: torch.tensor("x"),
    "new text": lambda y: y.new_tensor("a"),
    "math": lambda y: math.sqrt(-1.0),
    "type": lambda y: y.type("abc"),
    "range": lambda y: range(y),
    "device": lambda y: torch.empty(3, device="nope"),
    "size": lambda y: y.size(9),
    "list": lambda y: torch.from_numpy([1]),
    "shape": lambda y: y.view(3, 3),
    "product": lambda y: y @ y.new_zeros(3),
    "places": lambda y: y.scatter_(0, torch.tensor([88]), 1.0),
    "grid": lambda y: doubled[("a",)](y, y, N),
    "grid of nothing": lambda y: doubled[lambda: 1](y, y, N),
    "warps": lambda y: doubled[(1,)](y, y, N, num_warps="a"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_line(name: str) -> None:
    def launch(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        doubled[(1,)](x, y, N)
        MISTAKES[name](y)
        return y

    with pytest.raises(KernelError) as error:
        render.classify(launch, torch.randn(N), ref=lambda x: x * 2)
    assert any(frame[0] == __file__ for frame in error.value.frames)
