"""Two runs leave one trail exactly where they are one computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from render.reference.shadow import default_dtype
from render.reference.trail import Trail

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).half()
ONE = {
    "matmul": lambda x: x @ x.T, "norm": lambda x: F.layer_norm(x, (8,)), "softmax": lambda x: x.softmax(-1),
    "a cast up": lambda x: x.float().exp().to(x.dtype), "zeros": lambda x: torch.zeros(8, dtype=x.dtype) + x,
    "numbers": lambda x: x * 0.1 + torch.arange(8), "whole": lambda x: x + torch.tensor([1.0, 2.0]).repeat(4),
}  # fmt: skip
OTHER = {
    "eps": lambda x: x + torch.finfo(x.dtype).eps, "bits": lambda x: x * x.element_size(),
    "item": lambda x: x * x.sum().item(),
    "branch": lambda x: x * 2 if x.dtype == torch.float64 else x + x, "tenth": lambda x: x * torch.tensor([0.1]),
    "numpy": lambda x: x + torch.from_numpy(np.exp(x.numpy())).to(x.dtype), "inf": torch.nan_to_num,
    "list": lambda x: x * torch.tensor(x.cumsum(0).tolist()),
    "lowest": lambda x: x.masked_fill(x > 0, torch.finfo(x.dtype).min),
}  # fmt: skip


def digests(function):
    found = []
    for x, default in ((X, torch.float32), (X.double(), torch.float64)):
        with default_dtype(default), Trail() as trail:
            trail.restart([x])
            function(x)
        found.append(trail.digest)
    return found


@pytest.mark.parametrize("name", ONE)
def test_wider_inputs_change_nothing(name):
    narrow, wide = digests(ONE[name])
    assert narrow == wide


@pytest.mark.parametrize("name", OTHER)
def test_wider_inputs_make_another_function_of_it(name):
    narrow, wide = digests(OTHER[name])
    assert narrow != wide
