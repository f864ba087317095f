"""Operations that draw: every run of an entry draws the same numbers, whatever is computed beside them."""

from __future__ import annotations

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F
import triton
import triton.language as tl

from interval_ops.profiles.profile import CAUSES
from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.judgement.confirmation import without_rounding
from tests.verdicts import classify


@triton.jit
def scaling(X, Out, N: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i) * 0.7 * BY)


def scaled(x, by=1.0):
    out = torch.empty_like(x)
    scaling[(1,)](x, out, x.numel(), by)
    return out


DRAWING = {
    "dropout": lambda y: F.dropout(y, 0.3), "in place": lambda y: F.dropout(y.clone(), 0.3, inplace=True),
    "bernoulli": lambda y: torch.bernoulli(y.sigmoid()), "normal": lambda y: torch.normal(y, 0.1),
    "like": lambda y: torch.rand_like(y) + y, "multinomial": lambda y: torch.multinomial(y.abs(), 2).float(),
    "rrelu": lambda y: F.rrelu(y, training=True), "gumbel": F.gumbel_softmax,
    "poisson": lambda y: torch.poisson(y.abs()), "alpha": lambda y: F.alpha_dropout(y, 0.3, training=True),
    "filled": lambda y: y.clone().exponential_() + y,
    "attention": lambda y: F.scaled_dot_product_attention(y[None], y[None], y[None], dropout_p=0.2),
    "binomial": lambda y: torch.binomial(torch.full_like(y, 5.0), y.sigmoid()), "order": lambda y: y[torch.randperm(8)],
    "gamma": lambda y: torch._standard_gamma(y.abs() + 0.1), "sample": lambda y: D.Normal(y, 1.0).rsample(),
    "category": lambda y: D.Categorical(logits=y).sample().float(), "beta": lambda y: D.Beta(y.exp(), y.exp()).sample(),
}  # fmt: skip
X = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", DRAWING)
def test_every_run_draws_the_same(name):
    after = []

    def entry(x):
        torch.manual_seed(0)
        out = DRAWING[name](scaled(x))
        after.append((torch.rand(1).item(), out.detach().clone()))
        return out

    torch.manual_seed(0)
    plain, beside = DRAWING[name](X * 0.7), torch.rand(1).item()
    run = Entry(entry, of_call(entry, (X,), {}))
    run.run()
    run.run(CAUSES)
    without_rounding(run).run()
    for drawn, out in after:
        assert drawn == beside
        torch.testing.assert_close(out, plain, rtol=1e-4, atol=1e-5)


def test_samples_of_a_kernel_s_probabilities():
    """Decided as the values do in every run; the draws are no other function."""

    def sampled(probabilities):
        torch.manual_seed(0)
        return probabilities.gather(1, torch.multinomial(probabilities, 1))

    def kernel(x, by=1.0):
        return sampled(torch.softmax(scaled(x), 1) * by)

    def ref(x, *_):
        return sampled(torch.softmax(x * 0.7, 1))

    assert classify(kernel, X, ref=ref, budget=False).label == "Type-I"
    assert classify(kernel, X, 1.01, ref=ref, budget=False).label == "Type-II"
