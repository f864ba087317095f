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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("most", [1.0, float("inf")])
def test_scaled_gradients(dtype, most):
    def scaled(record):
        generator = torch.Generator().manual_seed(1)
        scale, tracker, out = torch.tensor(1536.0), torch.tensor(0, dtype=torch.int32), []
        for turn in range(4):
            grads, found = [torch.randn(n, generator=generator).to(dtype) * 2 for n in (9, 3)], torch.tensor(0.0)
            grads[1][0] = most if turn == 2 else 1.0
            record(grads[0])
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, scale.reciprocal())
            torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 2)
            out += [*(g.clone() for g in grads), found.clone(), scale.clone(), tracker.clone()]
        return out

    drawn: list = []
    session, native = Session(device="torch-cpu", redirect=False), scaled(lambda x: drawn.append(x.double().numpy()))
    with session:

        def given(x):
            v = drawn.pop(0)
            session.memory.carry(x, v - 1e-3, v + 1e-3, frozenset())

        followed = scaled(given)
        bounds = [session.envelope(x) for x in followed]
    for x, y, bound in zip(followed, native, bounds, strict=True):
        assert torch.equal(x, y)
        value = y.double().numpy()
        assert bound is None or (not bound.taints and ((bound.lo <= value) & (value <= bound.hi)).all())
    assert bounds[0] is not None
    assert (bounds[0].hi > bounds[0].lo).all()
