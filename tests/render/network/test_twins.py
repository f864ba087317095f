"""One module on both sides: its bound holds every legal sum of the hull, and is the dot rule's own where both agree."""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import render
from interval_ops.profiles.profile import load_profile
from render.interpreter.hosted.call import Bounds, Call
from render.interpreter.hosted.products import added
from render.network.capture import Key
from render.network.layered import LinearTwin
from render.network.pairs import Pair
from render.network.twins import one_module
from render.network.walks import UNIT

from .models import build, inputs

CPU = load_profile("torch-cpu")


def twin(layer: nn.Linear, x: torch.Tensor, other: torch.Tensor) -> LinearTwin:
    key = Key("", 0, "out")
    entry, out = Pair(key, key, "", [x], [other]), Pair(key, key, "", [layer(x).detach()], [layer(other).detach()])
    found = LinearTwin.of(layer, entry, out)
    assert found is not None
    return found


def bounds_of(found: LinearTwin) -> Bounds:
    parts = [part.bounds(CPU) for _, part in found.parts("target")]
    return Bounds(*(np.concatenate([getattr(p, end) for p in parts], -1) for end in ("lo", "hi")))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
def test_every_order_of_any_operand_of_the_hull_is_inside(dtype, bias):
    torch.manual_seed(3)
    layer = nn.Linear(40, 7, bias=bias).to(dtype)
    x = (torch.randn(5, 40) * 10.0 ** torch.randint(-3, 3, (5, 40))).to(dtype)
    other = (x * (1 + 0.01 * torch.randn(5, 40))).to(dtype)
    found = twin(layer, x, other)
    bounds = bounds_of(found)
    generator = np.random.default_rng(5)
    w, own = layer.weight.detach().float(), 0 if layer.bias is None else layer.bias.detach().float()
    for _ in range(40):
        corner = torch.where(torch.from_numpy(generator.integers(0, 2, (5, 40)) > 0), x, other).float()
        total = torch.zeros(5, 7)
        for k in generator.permutation(40):
            total = total + corner[:, k, None] * w[:, k]
        for product in (total, total.to(dtype).float()):  # the bias is added to a product that was rounded, too
            y = (product + own).to(dtype).double().numpy()
            assert ((bounds.lo <= y) & (y <= bounds.hi)).all()
    for i, j in ((0, 0), (4, 6)):  # the exact value, by rationals
        terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x[i], layer.weight[j].detach(), strict=True)]
        total = sum(terms) + (0 if layer.bias is None else Fraction(float(layer.bias.detach()[j])))
        assert bounds.lo[i, j] <= total <= bounds.hi[i, j]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_a_layer_makes_of_another_layout_is_inside(dtype):
    """Of these torch adds the bias after the product was rounded."""
    torch.manual_seed(9)
    layer, x = nn.Linear(16, 32).to(dtype), torch.randn(8, 16, 12).to(dtype).transpose(1, 2)
    bounds, y = bounds_of(twin(layer, x, x)), layer(x).detach().reshape(-1, 32).double().numpy()
    assert ((bounds.lo <= y) & (y <= bounds.hi)).all()


@pytest.mark.parametrize("apart", [0.0, 1e-7, 1e-5, 1.0])
def test_the_reference_of_its_own_operand_by_the_difference(apart):
    """Off by less than half of what the layer moves by; where operands differ by much it is not told."""
    torch.manual_seed(10)
    layer, x = nn.Linear(200, 30), torch.randn(10, 200)
    other = x * (1 + apart * torch.randn(10, 200))
    found = twin(layer, x, other)
    exact = nn.functional.linear(other.double(), layer.weight.double(), layer.bias.double()).detach()
    for at, part in found.parts("target"):
        own = part.of_other()
        assert (own is None) == (apart == 1.0)
        if own is not None:
            assert ((own - exact[:, at[0]]).abs() <= part.moved(UNIT) / 2).all()
    assert torch.equal(x, found.entry.target[0])


def test_of_one_operand_it_is_the_bound_of_the_product():
    torch.manual_seed(4)
    layer, x = nn.Linear(300, 50), torch.randn(20, 300)
    found = twin(layer, x, x)
    bounds = bounds_of(found)
    plain = added(Call(torch.ops.aten.addmm.default, (layer.bias.detach(), x, layer.weight.detach().t()), {}, {}, CPU))
    ratio = (bounds.hi - bounds.lo) / (plain.hi - plain.lo)
    assert ratio.min() > 0.999 and ratio.max() < 1.001


@pytest.mark.parametrize("apart", [0.0, 1e-7, 1e-4, 1.0])
def test_a_coarse_reach_is_above_and_adds_little(apart):
    torch.manual_seed(6)
    layer = nn.Linear(200, 30)
    x = torch.randn(10, 200) * 10.0 ** torch.randint(-3, 4, (10, 1))
    other = x * (1 + apart * torch.randn(10, 200))
    found = twin(layer, x, other)
    w, d = layer.weight.detach().abs(), (other - x).abs()
    ((_, part),) = found.parts("target")
    reach, sums = part._reach().double(), part.sums.double()
    exact = d.double() @ w.double().t()
    assert (reach * (1 + 2.0**-12) >= exact).all()
    assert reach.mean() <= exact.mean() * (1 + 2.0**-12) + 2.0**-5 * 200 * 2.0**-24 * sums.mean()


@pytest.mark.parametrize("apart", [1e-7, 1.0])
def test_weights_are_read_in_parts_and_left_alone(apart, monkeypatch):
    torch.manual_seed(8)
    layer, x = nn.Linear(50, 30), torch.randn(6, 50)
    found, before = [], layer.weight.detach().clone()
    for part in (1 << 20, 7 * 50, 1):
        monkeypatch.setattr("render.network.layered.PART", part)
        one = twin(layer, x, x * (1 + apart))
        exact, moved = one.exact(UNIT)
        found.append((exact, moved, bounds_of(one)))
    assert torch.equal(layer.weight, before)
    for exact, moved, bounds in found[1:]:
        assert torch.allclose(exact, found[0][0], rtol=0, atol=1e-13)
        assert torch.allclose(moved, found[0][1], rtol=1e-5)
        assert np.allclose(bounds.lo, found[0][2].lo, rtol=1e-5) and np.allclose(bounds.hi, found[0][2].hi, rtol=1e-5)


def test_lengths_of_squares_that_underflow_are_above_these():
    layer, x = nn.Linear(50, 3, bias=False), torch.zeros(2, 50)
    layer.weight.data.fill_(1e-6)
    x[:, 0] = 1e3
    other = torch.where(x == 0, torch.full_like(x, 1e-25), x)
    ((_, part),) = twin(layer, x, other).parts("target")
    reach = part._reach().double()
    assert (reach >= 49 * 1e-31).all() and (reach < 1e-20).all()


def test_the_movement_is_that_of_moved_operands():
    torch.manual_seed(5)
    layer, x = nn.Linear(64, 9), torch.randn(3, 64)
    exact, moved = twin(layer, x, x).exact(UNIT)
    wide = copy.deepcopy(layer).double()
    for _ in range(20):
        signs = [1 + UNIT * (2.0 * torch.randint(0, 2, t.shape) - 1) for t in (x, layer.weight, layer.bias)]
        y = nn.functional.linear(x.double() * signs[0], wide.weight * signs[1], wide.bias * signs[2])
        assert ((y - exact).abs() <= moved * (1 + 1e-4)).all()


def test_what_makes_two_modules_one():
    assert one_module(nn.LayerNorm(8).eval(), nn.LayerNorm(8).eval())
    assert not one_module(nn.LayerNorm(8).eval(), nn.LayerNorm(8, eps=1e-6).eval())
    assert not one_module(nn.LayerNorm(8).eval(), nn.LayerNorm(8))
    assert not one_module(nn.GELU().eval(), nn.GELU("tanh").eval())
    a, b = nn.Linear(4, 4).eval(), nn.Linear(4, 4).eval()
    assert not one_module(a, b)
    b.load_state_dict(a.state_dict())
    assert one_module(a, b)
    b.forward = lambda x: x
    assert not one_module(a, b)


def test_bounds_where_they_are_asked_give_the_same_answer():
    """Most borders differ by round-off alone: no bound is asked there."""
    right, x = build("decoder"), inputs("decoder")
    other = build("decoder", "plain")
    other.load_state_dict(right.state_dict())
    every, asked = (render.compare_models(other, right, x, bounds=b) for b in ("all", "asked"))
    assert (every.label, every.first) == (asked.label, asked.first) == ("Type-I", None)
    assert "first-order" in {r.kind for r in asked.leaves if r.differing}
    assert {r.kind for r in every.leaves} == {"rigorous"}
    other.blocks[1].mlp.down.weight.data[0, 0] *= 1.01
    found = [render.compare_models(other, right, x, bounds=b) for b in ("all", "asked")]
    assert [v.first for v in found] == ["blocks.1.mlp.down"] * 2


def test_a_sum_may_begin_with_the_bias():
    torch.manual_seed(4)
    layer = nn.Linear(40, 7)
    with torch.no_grad():
        layer.bias.mul_(1e4)
    x = torch.randn(5, 40)
    bounds = bounds_of(twin(layer, x, x))
    total = layer.bias.detach().expand(5, 7)
    for k in range(40):
        total = total + x[:, k, None] * layer.weight.detach()[:, k]
    y = total.double().numpy()
    assert ((bounds.lo <= y) & (y <= bounds.hi)).all()
    assert (np.abs(y - (x.double() @ layer.weight.detach().double().T + layer.bias.detach()).numpy()) > 2.0**-12).any()
