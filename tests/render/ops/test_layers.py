"""Layers that are one operation in torch are followed as steps: bounds hold what the layer itself gives."""

from __future__ import annotations

import copy

import pytest
import torch

from render.interpreter.session import Session
from render.reference.shadow import ShadowMode


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("told", [{}, {"bias": False}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_a_layer_of_an_lstm_is_its_recurrence(told, dtype):
    """oneDNN's layer is one operation; followed are the steps, and what the layer itself gives lies in their bounds."""
    torch.manual_seed(3)
    layer = torch.nn.LSTM(5, 4, **told).to(dtype).eval()
    x = torch.randn(3, 2, 5, dtype=dtype)
    with torch.no_grad():
        whole = layer(x)[0]
        exact = layer.to(torch.float64)(x.to(torch.float64))[0]
        layer.to(dtype)
        session = Session(device="torch-cpu", redirect=False)
        with session:
            out = layer(x)[0]
        with ShadowMode() as mode:
            followed = layer(x)[0]
    bound = session.envelope(out)
    assert bound is not None and not bound.taints
    for inside in (whole.double().numpy(), exact.numpy()):
        assert ((bound.lo <= inside) & (inside <= bound.hi)).all()
    assert (mode.value(followed) - exact).abs().max() < 1e-12 and not mode.notes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_what_an_lstm_in_bfloat16_gives_is_inside(scale, seed):
    """oneDNN takes the sum of both biases, which was rounded to their type: seen where a gate's sum nearly vanishes."""
    torch.manual_seed(seed)
    layer, x = torch.nn.LSTM(24, 16).to(torch.bfloat16).eval(), (torch.randn(2, 4, 24) * scale).to(torch.bfloat16)
    with torch.no_grad():
        whole, (_, cell) = layer(x)
        with (session := Session(device="torch-cpu", redirect=False)):
            out, (_, last) = layer(x.clone())
            bounds = [session.envelope(t) for t in (out, last)]
    for y, bound in zip((whole, cell), bounds, strict=True):
        assert ((bound.lo <= y.double().numpy()) & (y.double().numpy() <= bound.hi)).all()


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.nn.BatchNorm2d, torch.nn.InstanceNorm2d])
def test_running_statistics_have_bounds(kind, dtype, momentum):
    """The schema of the norm does not say that it writes there; every input of a box leaves statistics in the bound."""
    torch.manual_seed(5)
    norm = kind(3, affine=True, track_running_stats=True, momentum=0.2 if momentum is None else momentum)
    norm.running_mean.normal_()
    x = torch.randn(4, 3, 5, 5)
    low, high = (x - 0.01).to(dtype), (x + 0.01).to(dtype)
    followed = copy.deepcopy(norm)
    session = Session(device="torch-cpu", redirect=False)
    given = x.to(dtype)
    with torch.no_grad(), session:
        session.memory.carry(given, low.double().numpy(), high.double().numpy(), frozenset(), None)
        followed(given)
    bounds = [session.envelope(b) for b in (followed.running_mean, followed.running_var)]
    for draw in range(40):
        mine = copy.deepcopy(norm)
        part = torch.rand(x.shape, generator=torch.Generator().manual_seed(draw))
        part = part.round() if draw % 2 else part
        with torch.no_grad():
            mine((low.float() + part * (high.float() - low.float())).to(dtype).clamp(low, high))
        for bound, found in zip(bounds, (mine.running_mean, mine.running_var), strict=True):
            assert not bound.taints
            assert ((bound.lo <= found.double().numpy()) & (found.double().numpy() <= bound.hi)).all()
    assert all((b.hi > b.lo).all() for b in bounds)


def test_running_statistics_in_float64():
    norm, x = torch.nn.BatchNorm1d(3), torch.randn(6, 3)
    wide = copy.deepcopy(norm).double()
    wide(x.double())
    with torch.no_grad(), ShadowMode() as mode:
        norm(x)
    for kept, exact in zip((norm.running_mean, norm.running_var), (wide.running_mean, wide.running_var), strict=True):
        assert (mode.value(kept) - exact).abs().max() < 1e-8  # the momentum is a number of Python's on both sides


@pytest.mark.parametrize("told", [{}, {"bias": False}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_gradients_of_an_lstm_are_those_of_its_recurrence(told):
    """The layer's own backward pass and float64's lie inside; what a layer without one of its gates gives does not."""
    torch.manual_seed(3)
    layer = torch.nn.LSTM(5, 4, **told)
    x, state = torch.randn(3, 2, 5), None
    if not told:
        state = torch.randn(1, 2, 4), torch.randn(1, 2, 4)

    def gradients(module, given):
        module.zero_grad()
        given = given.clone().requires_grad_()
        start = None if state is None else tuple(t.to(given.dtype) for t in state)
        out, (h, c) = module(given, start)
        (out.sin().sum() + (h * c).sum()).backward()
        return [given.grad, *(p.grad for p in module.parameters())]

    native = gradients(copy.deepcopy(layer), x)
    exact = gradients(copy.deepcopy(layer).double(), x.double())
    session = Session(device="torch-cpu", redirect=False)
    with session:
        found = [session.envelope(g) for g in gradients(copy.deepcopy(layer), x)]
    for bound, own, wide in zip(found, native, exact, strict=True):
        assert bound is not None and not bound.taints
        assert (bound.hi - bound.lo).max() < 1e-3 * wide.abs().max()
        for inside in (own.double().numpy(), wide.numpy()):
            assert ((bound.lo <= inside) & (inside <= bound.hi)).all()
        assert ((1.01 * wide.numpy() < bound.lo) | (1.01 * wide.numpy() > bound.hi)).any()


def test_the_backward_pass_of_an_lstm_may_run_when_nobody_follows():
    layer, x = torch.nn.LSTM(5, 4), torch.randn(3, 2, 5)
    expected = torch.autograd.grad(layer(x)[0].sum(), layer.weight_ih_l0)[0]
    with Session(device="torch-cpu", redirect=False):
        out = layer(x)[0].sum()
    assert torch.allclose(torch.autograd.grad(out, layer.weight_ih_l0)[0], expected)
