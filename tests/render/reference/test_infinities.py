"""References with infinities in them have an exact value with a finite, proved margin; mpmath knows the value."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from oracle_zoo import oracle

from render.reference.oracle import BOUNDED

F = torch.nn.functional
INF = float("inf")
ROWS, COLS, SEEN = 4, 24, 17
X = torch.randn(ROWS, COLS, generator=torch.Generator().manual_seed(0)) * 3
Q, K, V = (torch.randn(8, 4, generator=torch.Generator().manual_seed(i)) for i in (1, 2, 3))


def mask(x):
    return torch.where(torch.arange(COLS) < SEEN, 0.0, -INF).to(x.dtype)


def online(x):
    x = x + mask(x)
    m, s = (torch.full((ROWS,), v, dtype=x.dtype) for v in (-INF, 0.0))
    for part in x.split(6, 1):
        new = torch.maximum(m, part.amax(1))
        s = s * torch.exp(m - new) + torch.exp(part - new[:, None]).sum(1)
        m = new
    return m + torch.log(s)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def masked_attention(q, k, v):
    s = (q @ k.T / 2).masked_fill(torch.ones(8, 8, dtype=torch.bool).triu(1), -INF)
    return torch.softmax(s, -1) @ v


def exp_log(x):
    return torch.exp(torch.log(torch.relu(x)))


def soft(x, weight=1):
    rows = [[mpmath.exp(weight * mpmath.mpf(float(v))) for v in row[:SEEN]] for row in x]
    return [[e / mpmath.fsum(row) for e in row] + [mpmath.mpf(0)] * (COLS - SEEN) for row in rows]


def log_sum(x):
    return [mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(float(v))) for v in row[:SEEN])) for row in x]


def causal():
    found = []
    q, k, v = (t.double().numpy() for t in (Q, K, V))
    for i in range(8):
        weights = [mpmath.exp(mpmath.fdot(q[i], k[j]) / 2) for j in range(i + 1)]
        total = mpmath.fsum(weights)
        found.append([mpmath.fsum(w * v[j, d] for j, w in enumerate(weights)) / total for d in range(4)])
    return found


CASES = {
    "softmax + mask": (lambda x: torch.softmax(x + mask(x), -1), (X,), lambda: soft(X)),
    "masked_fill, then a scale": (
        lambda x: torch.softmax(x.masked_fill(mask(x) < 0, -INF) * 0.5, -1), (X,), lambda: soft(X, mpmath.mpf(0.5))),
    "logsumexp": (lambda x: torch.logsumexp(x + mask(x), -1), (X,), lambda: log_sum(X)),
    "online maximum": (online, (X,), lambda: log_sum(X)),
    "exp(log(0))": (exp_log, (X,), lambda: [[max(float(v), 0.0) for v in row] for row in X]),
    "causal attention": (attention, (Q, K, V), causal),
    "masked attention": (masked_attention, (Q, K, V), causal),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_margins_are_finite_proved_and_hold_the_value(name):
    fn, args, expected = CASES[name]
    exact = oracle(fn, *args).exact()
    lo, hi = exact.ends(0)
    assert exact.assumption.endswith(BOUNDED) and exact.proved(0).all()
    assert (hi - lo < 1e-6).all()
    with mpmath.workdps(60):
        flat = np.array(expected(), dtype=object).ravel()
        assert all(a <= e <= b for a, e, b in zip(lo.ravel(), flat, hi.ravel(), strict=True))


def test_an_overflow_of_float64_is_no_infinity_of_the_reference():
    """exp(1e4 x) is finite: what hangs on it has no known margin."""
    exact = oracle(lambda x: 1 / (1 + torch.exp(x * 1e4)), X).exact()
    lo, hi = exact.ends(0)
    assert np.isinf(hi - lo)[(X.numpy() > 0.1)].all()


def rows():
    return [[mpmath.mpf(float(v)) for v in row] for row in X]


def variance(row, less=1):
    mean = mpmath.fsum(row) / len(row)
    return mpmath.fsum((v - mean) ** 2 for v in row) / (len(row) - less)


def normed(row):
    scale = mpmath.sqrt(variance(row, 0) + mpmath.mpf(1e-5))
    return [(v - mpmath.fsum(row) / COLS) / scale for v in row]


def entropy(row, i):
    return mpmath.log(mpmath.fsum(mpmath.exp(v) for v in row)) - row[i]


def gelu_slope(v):
    return (1 + mpmath.erf(v / mpmath.sqrt(2))) / 2 + v * mpmath.npdf(v)


COMPOSITES = {
    "layer_norm": (lambda x: F.layer_norm(x, (COLS,)), lambda: [normed(r) for r in rows()]),
    "var": (lambda x: x.var(-1), lambda: [variance(r) for r in rows()]),
    "var biased": (lambda x: torch.var(x, 1, False), lambda: [variance(r, 0) for r in rows()]),
    "std of all": (lambda x: x.std(), lambda: [mpmath.sqrt(variance([v for r in rows() for v in r]))]),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, torch.arange(ROWS)),
        lambda: [mpmath.fsum(entropy(r, i) for i, r in enumerate(rows())) / ROWS]),
    "norm": (lambda x: x.norm(dim=-1), lambda: [mpmath.sqrt(mpmath.fsum(v * v for v in r)) for r in rows()]),
    "gradient": (
        lambda x: torch.autograd.grad(F.gelu(z := x.detach().requires_grad_()).sum(), z)[0],
        lambda: [[gelu_slope(v) for v in r] for r in rows()]),
    "index_put": (
        lambda x: torch.zeros(2, COLS, dtype=x.dtype).index_put_((torch.tensor([0, 1, 0, 0]),), x, True),
        lambda: [[mpmath.fsum(rows()[i][j] for i in at) for j in range(COLS)] for at in ((0, 2, 3), (1,))]),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites_are_proved_by_their_definition(name):
    fn, expected = COMPOSITES[name]
    exact = oracle(fn, X).exact()
    lo, hi = exact.ends(0)
    assert exact.proved(0).all() and (hi - lo < 1e-5).all()
    with mpmath.workdps(60):
        flat = np.array(expected(), dtype=object).ravel()
        assert all(a <= e <= b for a, e, b in zip(lo.ravel(), flat, hi.ravel(), strict=True))
