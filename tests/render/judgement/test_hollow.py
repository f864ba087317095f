"""No Type-I where the bound says nothing at the elements that differ; cancellation alone is no such place."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.verdicts import classify


@triton.jit
def summing(X, Out, N: tl.constexpr):
    row = tl.program_id(0)
    s = tl.sum(tl.load(X + row * N + tl.arange(0, N)), 0)
    tl.store(Out + row, s.to(tl.float32))


def sums(x):
    out = torch.empty(len(x))
    summing[(len(x),)](x, out, x.shape[1])
    return out


def data(n):
    return torch.randn(8, n, generator=torch.Generator().manual_seed(0))


def test_one_hollow_row_among_others_decides():
    """A float16 sum of 4096 terms may lose all digits; rows without rounding do not make up for it."""
    x = data(4096).half()
    x[1:] = 0
    x[1:, 0] = 1.0
    v = classify(sums, x, ref=lambda x: x.double().sum(1).float())
    assert (v.label, v.code, v.subtype) == (
        "Type-I",
        "RND120",
        "probabilistic",
    ) and "bound of out is too wide to say anything" in v.message


def test_cancellation_is_no_hollow_bound():
    """The sum of each row is nearly nothing beside its terms, and the bound is as narrow as rounding is."""
    x = data(32)
    x[:, 16:] = -x[:, :16] * (1 + 2.0**-9)
    v = classify(sums, x, ref=lambda x: x.flip(1).float().cumsum(1)[:, -1])
    assert v.code != "RND301"


def test_one_element_near_nothing_that_differs_is_no_hollow_bound():
    """All rows agree in every bit but the one that cancels, whose bound is narrow beside its terms."""
    x = torch.zeros(8, 32)
    x[:, 0] = 1.0 + torch.arange(8)
    x[3] = data(32)[3]
    x[3, 16:] = -x[3, :16] * (1 + 2.0**-9)
    v = classify(sums, x, ref=lambda x: x.flip(1).float().cumsum(1)[:, -1])
    assert v.label == "Type-I" and v.outputs[0].max_abs_diff > 0, v
