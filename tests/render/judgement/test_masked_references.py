"""Kernels against references with -inf inside: a mask that is off by one is a bug, whatever spells the mask."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.verdicts import classify

F = torch.nn.functional
INF = float("inf")


@triton.jit
def attending(Q, K, V, Out, scale, OFF: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, d = tl.arange(0, N), tl.arange(0, D)
    at = tl.program_id(0) * N * D + i[:, None] * D + d[None, :]
    q, k, v = tl.load(Q + at), tl.load(K + at), tl.load(V + at)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    s = tl.where(i[:, None] >= i[None, :] + OFF, s, float("-inf"))
    p = tl.exp(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(Out + at, tl.dot(p.to(v.dtype), v, input_precision="ieee").to(v.dtype))


def attention(off=0, scale=1.0):
    def run(q, k, v):
        out = torch.empty_like(q)
        n, d = q.shape[-2:]
        attending[(q.numel() // (n * d),)](q, k, v, out, scale * d**-0.5, off, n, d)
        return out

    return run


def fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def filled(q, k, v):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -INF), -1) @ v


def added(q, k, v):
    mask = torch.full((q.shape[-2],) * 2, -INF, dtype=q.dtype).triu(1)
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + mask, -1) @ v


def inputs(dtype):
    return [torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(i)).to(dtype) for i in range(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("ref", [fused, filled, added])
def test_causal_attention(ref, dtype):
    args = inputs(dtype)
    assert classify(attention(), *args, ref=ref, budget=False).label == "Type-I"
    assert classify(attention(off=-1), *args, ref=ref, budget=False).label == "Type-II"
    assert classify(attention(scale=1.05), *args, ref=ref, budget=False).label == "Type-II"


@triton.jit
def softmaxes(X, M, Out, FILL: tl.constexpr, GAIN: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.where(tl.load(M + at) != 0, tl.load(X + at), FILL)
    e = tl.exp((x - tl.max(x, 0)) * GAIN)
    tl.store(Out + at, e / tl.sum(e, 0))


@pytest.mark.parametrize(
    ("fill", "gain", "code"), [(-1e30, 1.0, ""), (-3e38, 1.0, ""), (-1e30, 1.02, "RND201"), (-INF, 1.0, "RND204")]
)
def test_a_row_that_is_masked_as_a_whole_by_a_large_number(fill, gain, code):
    """All of it is one number, whatever that rounds to: each element is 1 / n, and no NaN."""

    def run(x, mask):
        out = torch.empty_like(x)
        softmaxes[(len(x),)](x, mask, out, fill, gain, x.shape[1])
        return out

    g = torch.Generator().manual_seed(5)
    mask = (torch.rand(5, 8, generator=g) > 0.4).int()
    mask[2] = 0
    x = torch.randn(5, 8, generator=g)
    v = classify(run, x, mask, ref=lambda x, mask: torch.softmax(x.masked_fill(mask == 0, -1e30), -1))
    assert v.label == ("Type-II" if code else "Type-I") and v.code.startswith(code), v
