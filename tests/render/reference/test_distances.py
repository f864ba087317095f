"""R of losses and functions whose kernels round each step to a narrow type, where the steps are subnormal, too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle_zoo import oracle

F = torch.nn.functional
LOSSES = {
    "mse": F.mse_loss,
    "huber": lambda x, y, reduction: F.huber_loss(x, y, reduction, 0.01),
    "wide huber": lambda x, y, reduction: F.huber_loss(x, y, reduction, 300.0),
    "smooth": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.01),
    "wide smooth": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=300.0),
    "l1": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.0),
    "after a product": lambda x, y, reduction: F.mse_loss(x * 1.7, y * y, reduction=reduction),
}
STEPS = {
    "xlogy": lambda x, y: torch.xlogy(x, y.abs()),
    "logit": lambda x, y: torch.logit(x.abs().clamp(0, 1)),
    "cube": lambda x, y: x**3,
    "kl": lambda x, y: F.kl_div(x, y.abs(), reduction="none"),
}
SCALES = (1.0, 1e-2, 3e-4, 1e-5)


def given(dtype, scale, n):
    g = torch.Generator().manual_seed(n)
    return [(torch.randn(n, generator=g) * scale).to(dtype) for _ in range(2)]


def within(fn, dtype, scale, n):
    """Whether what torch computes lies within R of E, and R within reason."""
    known = oracle(fn, *given(dtype, scale, n))
    exact = known.exact()
    (radius,) = known.radius(exact)
    gap = np.abs(known.native[0][1].double().numpy() - exact.values[0])
    finite = np.isfinite(gap)
    assert (gap[finite] <= radius[finite] * (1 + 1e-12)).all()
    return radius, exact.values[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_lie_within_their_rounding(name, reduction, dtype):
    for scale in SCALES:
        for n in (7, 64):
            within(lambda x, y: LOSSES[name](x, y, reduction=reduction), dtype, scale, n)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_functions_in_steps(name, dtype):
    for scale in SCALES:
        within(STEPS[name], dtype, scale, 300)


def test_it_stays_narrow_and_is_no_estimate():
    x, y = given(torch.float32, 1.0, 64)
    known = oracle(lambda x, y: F.mse_loss(x, y, reduction="none"), x, y)
    exact = known.exact()
    (radius,) = known.radius(exact)
    assert (radius <= 8 * 2.0**-24 * exact.values[0] + 2.0**-140).all()
    assert exact.proved(0).all()
