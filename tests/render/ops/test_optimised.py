"""Fused steps of optimisers: the bounds of the steps that are followed hold what torch gives."""

from __future__ import annotations

import pytest
import torch

from render.interpreter.session import Session

RULES = {
    "adam": lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.1, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True, fused=True),
    "plain sgd": lambda p: torch.optim.SGD(p, 0.1, maximize=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, lr_decay=0.1, fused=True),
}


def stepped(rule, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    params = [torch.randn(n, generator=generator).to(dtype).requires_grad_() for n in (37, 5)]
    optimiser = rule(params)
    for _ in range(3):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(dtype)
        optimiser.step()
    return params, optimiser


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", RULES)
def test_kernels_lie_in_the_bounds_of_the_steps(name, seed):
    dtype = torch.float32
    (native, optimiser), session = stepped(RULES[name], dtype, seed), Session(device="torch-cpu", redirect=False)
    with session:
        followed, other = stepped(RULES[name], dtype, seed)
        bounds = [session.envelope(p) for p in followed]
        states = [{k: session.envelope(v) for k, v in other.state[p].items() if torch.is_tensor(v)} for p in followed]
    pairs = list(zip(bounds, native, strict=True))
    for known, p in zip(states, native, strict=True):
        pairs += [(known[k], v) for k, v in optimiser.state[p].items() if torch.is_tensor(v)]
    for bound, y in pairs:
        assert bound is None or not bound.taints
        if bound is not None:
            value = y.detach().double().numpy()
            assert ((bound.lo <= value) & (value <= bound.hi)).all()
            assert (bound.hi - bound.lo).max() <= 256 * torch.finfo(dtype).eps * max(1.0, abs(value).max())
    assert all(b is not None for b in bounds)
