"""Quotients by zero and powers with numbers for exponents, against torch's own on ends and points between."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support import rng, trials

from render.interpreter.session import Session

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def bounds(function, v, lo, hi):
    with Session(device="torch-cpu") as session:
        session.memory.carry(v, lo, hi, frozenset())
        found = session.envelope(function(v))
    assert found is not None and not found.taints
    return found


def test_a_quotient_by_zero_has_the_sign_of_what_is_divided():
    lo, hi = np.array([1.0, -2.0, 0.0, -1.0, -1.0]), np.array([2.0, -1.0, 1.0, 0.0, 1.0])
    for zero, sign in ((0.0, 1.0), (-0.0, -1.0)):
        found = bounds(lambda x, z=zero: x / z, torch.tensor([1.5, -1.5, 0.5, -0.5, 0.0]), lo, hi)
        assert found.lo[:2].tolist() == [sign * math.inf, -sign * math.inf] == found.hi[:2].tolist()
        assert np.isnan(found.lo[2:]).all() and np.isnan(found.hi[2:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.0, 2.0, 3.0, -1.0, -2.0, 4.0, 5.0, 1.7, 0.0])
def test_powers_hold_what_torch_makes_of_points(dtype, exponent):
    g = rng(5)
    n = trials(200)
    base = np.exp(g.uniform(-2.0, 2.0, n)) * (g.choice([-1.0, 1.0], n) if exponent == round(exponent) else 1.0)
    v = torch.from_numpy(base).to(dtype)
    x, wide = v.double().numpy(), g.choice([0.0, 1e-3, 0.05], n)
    reach = wide * np.abs(x)
    found = bounds(lambda t: t**exponent, v, x - reach, x + reach)
    for part in (-1.0, -0.4, 0.0, 0.7, 1.0):
        point = x + part * reach
        exact = point**exponent
        assert ((found.lo <= exact) & (exact <= found.hi)).all()
        held = torch.from_numpy(point).to(dtype)
        within = np.abs(held.double().numpy() - x) <= reach
        made = [held**exponent, *([held * held * held] if exponent == 3.0 else []),
                *([held.sqrt().reciprocal()] if exponent == -0.5 else [])]  # fmt: skip
        for y in (m.double().numpy() for m in made):
            assert ((found.lo <= y) & (y <= found.hi))[within].all()
    assert ((found.hi - found.lo)[wide == 0] <= 64 * torch.finfo(dtype).eps * np.abs(x**exponent)[wide == 0]).all()
