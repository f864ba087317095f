"""Interval inputs: bounds of kernels and models hold for every input between the ends."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from torch import nn

import render
from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.result.errors import RenderError


@triton.jit
def _square_kernel(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x * x - x)


def square(x):
    y = torch.empty_like(x)
    _square_kernel[(1,)](x, y, x.numel())
    return y


def test_a_kernel_holds_every_input_between_the_ends():
    torch.manual_seed(0)
    lo = torch.randn(64)
    hi = lo + torch.rand(64)
    out = Entry(square, of_call(square, (render.interval(lo, hi),), {})).run().outputs[0]
    for _ in range(50):
        x = (lo + torch.rand(64) * (hi - lo)).double().numpy()
        y = x * x - x
        assert ((out.lo <= y) & (y <= out.hi)).all()
    assert (out.hi - out.lo > 0.1 * (hi - lo).numpy()).all()
    verdict = render.classify(square, render.interval(lo, hi), ref=lambda x: x * x - x)
    assert verdict.label == "Type-I"


def test_a_model_holds_every_input_between_the_ends():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16))
    x = torch.randn(4, 8)
    near = x + 1e-3 * torch.randn(4, 8)
    found = render.compare_models(net, net, render.hull(x, near))
    point = render.compare_models(net, net, x)
    assert found.label == point.label == "Type-I"
    assert found["0"].width > 1e-5 and point["0"].width == 0
    assert not any(r.target_out_target for r in found.leaves)


def test_hull_is_x_with_the_ends_of_both():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([1.5, -1.0])
    assert torch.equal(render.hull(x, y), x)
    with pytest.raises(RenderError, match="lo <= hi"):
        render.interval(x, y)
    with pytest.raises(RenderError, match="finite"):
        render.hull(x, torch.tensor([1.0, float("nan")]))
