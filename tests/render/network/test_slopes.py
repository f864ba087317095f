"""Slopes against what roundings really do: attained by signs, never beaten by chance, silent beyond a kink."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import render
from render.network.slopes import linearised


def test_a_product_has_the_bound_of_its_formula():
    a = torch.tensor([[1.5, -2.0, 3.25]])
    w = torch.tensor([[2.0], [0.5], [-1.0]])
    found = linearised(lambda x, y: x @ y, (a, w), [0])[0]
    size = float((a.abs() @ w.abs()).double())
    assert found.exact == float(a.double() @ w.double())
    assert 3 * 2**-24 * size <= found.first_order <= 6 * 2**-24 * size
    assert found.conditioning == pytest.approx(2 * 2**-24 * size, rel=1e-12)


def test_signs_are_kept():
    """x s - x s: the slopes of the inputs cancel, those of the two roundings do not."""
    found = linearised(lambda x: x * 0.7 - x * 0.7, (torch.tensor([1e6]),), [0])[0]
    assert found.conditioning == 0
    assert found.first_order == pytest.approx(2 * 0.7e6 * 2**-24, rel=0.5)


def test_chains_of_products_do_not_grow_as_intervals_do():
    torch.manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(16, 16))
    x = torch.randn(1, 16)

    def chain(h):
        for _ in range(64):
            h = h @ q
        return h

    found = linearised(chain, (x,), [0])[0]
    actual = float((chain(x).double() - x.double() @ torch.linalg.matrix_power(q.double(), 64))[0, 0].abs())
    assert actual <= found.probabilistic <= found.first_order < 1e-2  # an interval is 10^31 wide here


def test_what_happens_is_below_both_bounds():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 16))
    x = torch.randn(4, 32)
    places = [0, 17, 40, 63]
    exact = net.double()(x.double()).reshape(-1).detach()
    y = net.float()(x).reshape(-1).double().detach()
    for p, found in zip(places, linearised(net, (x,), places), strict=True):
        gap = float((y[p] - exact[p]).abs())
        assert found.exact == pytest.approx(float(exact[p]), rel=1e-9)
        assert gap <= found.probabilistic
        assert gap <= found.first_order


def test_a_jump_within_the_error_leaves_no_slope():
    """At x = -.001223 half of all roundings of x - tanh x turn the sign, and atan2 jumps by pi."""

    def f(x):
        y = x - torch.tanh(x)
        return torch.atan2(y, y)

    near, far = linearised(f, (torch.tensor([-0.001223, 1.0]),), [0, 1])
    assert not near.valid and not near.bands()
    assert far.valid and set(far.bands()) == {"first-order", "probabilistic"}


def test_a_cancellation_that_only_signs_can_see_is_unstable():
    """exp(m - x s) with m = x s: contracted to one rounding it is exp of the product's error."""

    def plain(x):
        m = x * 0.1803369
        return torch.exp(m - x * 0.1803369)

    def contracted(x):
        m = x * 0.1803369
        return torch.exp((m.double() - x.double() * 0.1803369).float())

    found = render.compare_models(contracted, plain, torch.tensor([1134139801600.0]))
    assert (found.label, found.code, found.paper_rule) == ("Type-II", "RND206", "Type-I")
    assert found.leaves[0].operation == "sub" and found.leaves[0].kind == "first-order"
    assert math.isfinite(found.leaves[0].eta_target)


def test_the_operation_is_named_where_a_formula_cancels():
    x = 1e-5 * torch.randn(100)
    found = render.compare_models(lambda x: torch.exp(x) - 1, torch.expm1, x)
    assert found.leaves[0].operation == "sub" and "sub" in found.message
