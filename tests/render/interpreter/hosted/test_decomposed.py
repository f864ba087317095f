"""Operations that are followed through torch's own steps: the exact result and torch's own lie in the bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from render.interpreter.host import HostTracker
from render.interpreter.hosted.decomposed import decomposition
from render.interpreter.memory import Memory
from render.interpreter.session import Session


def data(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gradient(function):
    def run(x):
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad((function(leaf) * data(*function(leaf).shape, seed=5).to(x.dtype)).sum(), leaf)[0]

    return run


OPERATIONS = {
    "attention": lambda x: F.scaled_dot_product_attention(x, x.flip(0), x),
    "softmax'": gradient(lambda x: x.softmax(-1)),
    "causal": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), "gelu'": gradient(F.gelu),
    "layer_norm'": gradient(lambda x: F.layer_norm(x, (8,))), "silu'": gradient(F.silu), "tanh'": gradient(torch.tanh),
    "huber": lambda x: F.huber_loss(x, x.flip(0), reduction="none"),
    "log_softmax'": gradient(lambda x: x.log_softmax(-1)),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="linear"), "sigmoid'": gradient(torch.sigmoid),
    "cross entropy with logits": lambda x: F.binary_cross_entropy_with_logits(x, x.flip(0).sigmoid(), reduction="none"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_exact_result_lies_in_the_bounds(name, dtype):
    x, memory = data(2, 6, 8).to(dtype), Memory()
    with HostTracker(memory):
        out = OPERATIONS[name](x)
    found, exact = memory.envelope(out), OPERATIONS[name](x.double()).detach().numpy()
    assert found is not None
    assert not found.taints
    assert ((found.lo - 1e-13 <= exact) & (exact <= found.hi + 1e-13)).all()
    value = out.detach().double().numpy()
    assert ((found.lo <= value) & (value <= found.hi)).all()
    assert np.median(found.hi - found.lo) <= 128 * torch.finfo(dtype).eps * np.abs(exact).max()


def test_without_steps_there_are_none():
    assert decomposition(torch.ops.aten._fft_r2c.default) is None
    assert decomposition(torch.ops.aten._softmax_backward_data.default) is not None


@pytest.mark.parametrize("told", [{}, {"is_causal": True}, {"scale": 0.5}])
@pytest.mark.parametrize("n", [20, 70, 200])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_attention_in_narrow_types(dtype, n, told):
    _gradients_are_inside(dtype, n, told, (3, 3))


@pytest.mark.parametrize("heads", [(4, 2), (3, 1)])
@pytest.mark.parametrize("n", [20, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_of_attention_with_heads_in_groups(dtype, n, heads):
    _gradients_are_inside(dtype, n, {"is_causal": True, "enable_gqa": True}, heads)


def _gradients_are_inside(dtype, n, told, heads):
    """What torch's fused kernel gives, and float64, of the same operands."""
    torch.manual_seed(4)
    counts = (heads[0], heads[1], heads[1], heads[0])
    q, k, v, weights = ((torch.randn(2, h, n, 16) * s).to(dtype) for h, s in zip(counts, (2, 1, 1, 1), strict=True))

    def gradients(*given):
        given = [x.clone().requires_grad_() for x in given]
        out = torch.nn.functional.scaled_dot_product_attention(*given, **told)
        (out * weights.to(out.dtype)).sum().backward()
        return [x.grad for x in given]

    native, exact = gradients(q, k, v), gradients(q.double(), k.double(), v.double())
    session = Session(device="torch-cpu", redirect=False)
    with session:
        found = [session.envelope(g) for g in gradients(q, k, v)]
    for bound, own, wide in zip(found, native, exact, strict=True):
        assert bound is not None and not bound.taints
        for inside in (own.double().numpy(), wide.numpy()):
            assert ((bound.lo <= inside) & (inside <= bound.hi)).all()
        assert np.median(bound.hi - bound.lo) < 0.2 * wide.abs().max()
        assert ((2 * wide.numpy() < bound.lo) | (2 * wide.numpy() > bound.hi)).any()


def test_the_gradient_of_softmax_may_be_multiplied_last():
    """(g - sum(g y)) y in float32, where the difference is just above a power of two and the products just below."""
    rng, steps = np.random.default_rng(7), np.float32
    y = torch.from_numpy(rng.uniform(0.02, 0.98, (40000, 1))).float()
    g = torch.from_numpy(rng.uniform(-2, 2, (40000, 1))).float()
    y, g = torch.cat([y, 1 - y], 1), torch.cat([g, torch.zeros_like(g)], 1)
    memory = Memory()
    wide = [(x.double().numpy(), np.nextafter(x.numpy(), steps(9)).astype(np.float64)) for x in (g, y)]
    with HostTracker(memory):
        for x, (lo, hi) in zip((g, y), wide, strict=True):
            memory.carry(x, lo, hi, frozenset())
        found = memory.envelope(torch._softmax_backward_data(g, y, -1, torch.float32))
    for k in range(16):
        a, b = (np.where(rng.integers(0, 2, lo.shape) > 0, lo, hi).astype(steps) for lo, hi in wide)
        total = ((a[:, 0] * b[:, 0]).astype(steps) + (a[:, 1] * b[:, 1]).astype(steps)).astype(steps)[:, None]
        value = ((a - total).astype(steps) * b).astype(np.float64)
        assert ((found.lo <= value) & (value <= found.hi)).all(), k


@pytest.mark.parametrize("weighted", [False, True])
def test_the_weights_of_an_unreduced_loss_are_exact_where_there_are_none(weighted):
    x, target = data(6, 4), torch.tensor([0, 1, 2, 3, 3, 1])
    weight = torch.ones(4) if weighted else None
    memory = Memory()
    with HostTracker(memory):
        memory.carry(x, x.double().numpy() - 1e-3, x.double().numpy() + 1e-3, frozenset())
        leaf = x.clone().requires_grad_()
        F.cross_entropy(leaf, target, weight, reduction="none").sum().backward()
        found = memory.envelope(leaf.grad)
    assert found is not None and bool(found.taints) == weighted
    exact = x.double().softmax(-1) - F.one_hot(target, 4)
    assert ((found.lo <= exact.numpy()) & (exact.numpy() <= found.hi)).all() or weighted
