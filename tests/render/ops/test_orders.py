"""torch.cond, while_loop, map, scan and flex_attention: host code sees what their functions do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from render.interpreter.cuda_redirect import cuda_on_cpu
from render.interpreter.session import Session


def gradient(x):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(checkpoint(lambda y: y.exp() * y, x, use_reentrant=False).sum(), x)[0]


def causal(b, h, i, j):
    return i >= j


def attention(x, **named):
    q = x[None, None].repeat(1, 2, 1, 4)
    return flex_attention(q, q[:, :1], q[:, 1:], lambda s, b, h, i, j: s + (i - j) / 8, enable_gqa=True, **named)[
        0, :, :, :4
    ]


def slope(function, x):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


ORDERS = {
    "cond": lambda x: torch.cond(x.sum() > 100, lambda y: y * 2, lambda y: y * 3, (x,)),
    "while": lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), x))[1],
    "map": lambda x: mapped(lambda row, by: row * by, x, torch.tensor(2.0)),
    "map of two": lambda x: mapped(lambda row: (row * 2, row - 1), x)[1],
    "scan": lambda x: torch.cat([y.reshape(-1, 4) for y in scan(lambda c, r: (c * r, c + r), x[0], x[1:])]),
    "attention": lambda x: attention(x),
    "blocks of attention": lambda x: attention(x, block_mask=create_block_mask(causal, None, None, 3, 3, "cpu")),
    "checkpoint": gradient,
    "gradient of cond": lambda x: slope(lambda y: torch.cond(y.sum() > 100, lambda z: z * 2, lambda z: z * z, (y,)), x),
    "gradient of map": lambda x: slope(lambda y: mapped(lambda row: row * row, y), x),
}


@pytest.mark.parametrize("name", ORDERS)
def test_what_its_functions_do_is_followed(name):
    rng, function = np.random.default_rng(5), ORDERS[name]
    x = torch.from_numpy(rng.normal(size=(3, 4)))
    lo, hi = x.numpy() - 0.1, x.numpy() + 0.1
    with Session() as session:
        session.memory.carry(x, lo, hi, frozenset())
        found = session.envelope(function(x))
    assert found is not None and not found.taints and (found.hi > found.lo).all()
    for _ in range(8):
        out = function(torch.from_numpy(np.where(rng.random(lo.shape) < 0.5, lo, hi))).numpy()
        assert ((found.lo <= out) & (out <= found.hi)).all()


def test_an_open_condition_is_a_branch():
    x = torch.ones(2, dtype=torch.float64)
    with Session() as session:
        session.memory.carry(x, x.numpy() - 0.1, x.numpy() + 0.1, frozenset())
        found = session.envelope(torch.cond(x.sum() > 2, lambda y: y * 2, lambda y: y * 3, (x,)))
    assert "RND303" in {session.taints[t].code for t in found.taints}


def test_a_reference_of_functions_is_followed():
    from render.reference.local_error import Unit
    from render.reference.shadow import ShadowMode

    x = torch.linspace(0.1, 1.0, 12).reshape(3, 4)
    for name in ("cond", "while", "map", "scan", "attention", "blocks of attention"):
        bounded = "attention" not in name  # logsumexp beside it has an estimate
        with cuda_on_cpu(), ShadowMode(Unit(native=True)) as mode:
            out = ORDERS[name](x)
        exact = ORDERS[name](x.double())
        assert ((mode.value(out) - exact).abs() <= mode.error(out)).all()
        assert not (mode.estimated and bounded)
        assert ((out.double() - exact).abs() <= mode.error(out)).all()
