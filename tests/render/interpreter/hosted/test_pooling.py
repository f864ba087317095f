"""Gradients of pools: inside their bounds lie those of every input of a box, whichever element of a window it makes the
largest, in any order of the sums; and a gradient that goes to another element does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from render.interpreter.session import Session

POOLS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, stride=1, padding=1),
    "max, spread": lambda x: F.max_pool2d(x, 2, stride=2, dilation=2, ceil_mode=True),
    "max, uneven": lambda x: F.max_pool2d(x, (3, 2), stride=(2, 1), padding=(1, 0), ceil_mode=True),
    "max, 1 d": lambda x: F.max_pool1d(x[:, 0], 3, stride=2),
    "max, 3 d": lambda x: F.max_pool3d(x[:, :, None].expand(-1, -1, 4, -1, -1), 2),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "average": lambda x: F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False),
    "average, ceil": lambda x: F.avg_pool2d(x, 2, stride=2, ceil_mode=True, divisor_override=3),
    "average, 3 d": lambda x: F.avg_pool3d(x[:, :, None].expand(-1, -1, 4, -1, -1).float(), 2, stride=1).to(x.dtype),
    "adaptive average": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
}


def gradient(pool, x, weights):
    x = x.clone().requires_grad_()
    out = pool(x * 1)
    (out * weights[: out.numel()].reshape(out.shape)).sum().backward()
    return x.grad


def bounded(pool, box, weights):
    x = ((box[0] + box[1]) / 2).clone()
    session = Session(device="torch-cpu", redirect=False)
    with session:
        session.memory.carry(x, box[0].double().numpy(), box[1].double().numpy(), frozenset(), None)
        leaf = x.requires_grad_()
        out = pool(leaf * 1)
        (out * weights[: out.numel()].reshape(out.shape)).sum().backward()
        found = session.envelope(leaf.grad)
    assert found is not None and not found.taints
    return found


def box_of(ties: bool, dtype):
    torch.manual_seed(2)
    x = torch.randint(0, 3, (2, 2, 6, 6)).float() if ties else torch.randn(2, 2, 6, 6)
    return (x - 0.05).to(dtype), (x + 0.05).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "ties"), list(itertools.product(POOLS, (False, True))))
def test_every_choice_is_inside(name, ties, dtype):
    box, pool = box_of(ties, dtype), POOLS[name]
    weights = torch.randn(1000).to(dtype)
    found = bounded(pool, box, weights)
    for draw in range(30):
        part = torch.rand(box[0].shape, generator=torch.Generator().manual_seed(draw))
        part = part.round() if draw % 2 else part
        x = (box[0].float() + part * (box[1].float() - box[0].float())).to(dtype).clamp(*box)
        mine = gradient(pool, x, weights).double().numpy()
        exact = gradient(pool, x.double(), weights.double()).numpy()
        for y in (mine, exact):
            assert ((found.lo <= y) & (y <= found.hi)).all()


@pytest.mark.parametrize("name", [n for n in POOLS if "max" in n and "3 d" not in n])  # there are ties
def test_what_the_box_decides_is_decided(name):
    """Far apart elements: the bound has no width but that of the sums, and a gradient one place further is outside."""
    x = torch.randperm(144, generator=torch.Generator().manual_seed(1)).reshape(2, 2, 6, 6).float()
    weights = torch.arange(1.0, 1001.0)
    found = bounded(POOLS[name], (x - 0.1, x + 0.1), weights)
    right = gradient(POOLS[name], x, weights).double().numpy()
    assert np.allclose(found.lo, right, rtol=1e-5) and np.allclose(found.hi, right, rtol=1e-5)
    wrong = np.roll(right, 1, -1)
    assert ((wrong < found.lo) | (wrong > found.hi)).any()
