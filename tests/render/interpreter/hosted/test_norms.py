"""Batch norm of narrow types in the steps of PyTorch's CPU kernels, which keep a factor and a shift of each channel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import rng, trials

from render.interpreter.session import Session


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_factors_and_shifts_that_are_kept_in_the_narrow_type_lie_inside(dtype):
    g = rng(3)
    seen = 0
    for _ in range(trials(40)):
        x, mean, weight = (torch.from_numpy(g.standard_normal(n)).to(dtype) for n in ((6, 3), 3, 3))
        bias = torch.from_numpy(g.standard_normal(3) * 10.0 ** g.integers(0, 3)).to(dtype)
        var = torch.from_numpy(g.uniform(0.5, 2.0, 3)).to(dtype)
        with Session(device="torch-cpu") as session:
            session.memory.carry(x, x.double().numpy() - 1e-9, x.double().numpy() + 1e-9, frozenset())
            found = session.envelope(F.batch_norm(x, mean, var, weight, bias))
        factor = (weight.float() / torch.sqrt(var.float() + 1e-5)).to(dtype)
        for product in ((mean.float() * factor.float()).to(dtype).float(), mean.float() * factor.float()):
            shift = (bias.float() - product).to(dtype)
            y = (x.float() * factor.float() + shift.float()).to(dtype).double().numpy()
            assert ((found.lo <= y) & (y <= found.hi)).all()
            exact = (x.double() - mean.double()) / torch.sqrt(var.double() + 1e-5) * weight.double() + bias.double()
            seen += int((y != exact.to(dtype).double().numpy()).any())
    assert seen and np.isfinite(found.hi).all()
