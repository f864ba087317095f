"""Literals beyond any data are one number wherever they appear; what is near them, or computed from them, is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def online(X, Out, n, FORM: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    m = -1e30
    total = 0.0
    top = tl.zeros((B,), tl.float32) + m
    s = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        j = start + tl.arange(0, B)
        x = tl.load(X + row * n + j, mask=j < n, other=0.0)
        x = tl.where((j >= 2 * B) & (j < n), x, -1e30)
        if FORM == 1:
            x = x * 0.7
        now = tl.maximum(top, x)
        s = s * tl.exp(top - now) + tl.exp(x - now)
        top = now
    if FORM == 2:
        s = s + 1
    best = tl.max(top)
    total = tl.sum(s * tl.exp(top - best))
    tl.store(Out + row, best + tl.log(total))


def program(form):
    def run(x):
        out = torch.empty(x.shape[0])
        online[(x.shape[0],)](x, out, x.shape[1], form, 16)
        return out

    return run


def reference(x):
    return torch.logsumexp(x[:, 32:], -1)


def test_a_maximum_that_starts_at_a_literal():
    torch.manual_seed(0)
    v = render.classify(program(0), torch.randn(4, 64), ref=reference, device="sm_90")
    assert v.label == "Type-I", v.message
    assert v.outputs[0].bound.max_half_width < 1e-3


def test_a_bug_beside_it_is_confirmed():
    torch.manual_seed(0)
    v = render.classify(program(2), torch.randn(4, 64), ref=reference, device="sm_90")
    assert (v.label, v.code) == ("Type-II", "RND201")


def test_products_of_it_are_no_symbols():
    """fma(s, k, -fl(m k)) is not 0: the bound has to stay open."""
    torch.manual_seed(0)
    v = render.classify(program(1), torch.randn(4, 64), ref=lambda x: reference(x * 0.7), device="sm_90")
    assert not np.isfinite(v.outputs[0].bound.hi).any()


@triton.jit
def near(X, Out, FORM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    c = x * 0.0 - 1e30
    if FORM == 0:
        d = (x * 1e15) * 1e15 - 1e30
    elif FORM == 1:
        d = (c + x) - c
    else:
        d = tl.where(c == -1e30, 1.0, 0.0) * tl.where(-c > 1e30, 0.0, 1.0)
    tl.store(Out + i, d)


@pytest.mark.parametrize("form", [0, 1])
def test_numbers_near_it_keep_their_width(form):
    """1 * 1e15 * 1e15 rounds at each step; c + x is absorbed or not: neither difference is exactly 0 in the reals."""
    x = torch.ones(16)

    def run(x):
        out = torch.empty_like(x)
        near[(1,)](x, out, form, 16)
        return out

    exact = np.float64(1e15) * np.float64(1e15) - np.float64(1e30) if form == 0 else 1.0
    v = render.classify(run, x, ref=lambda x: torch.full_like(x, float(exact)), device="sm_90")
    lo, hi = v.outputs[0].bound.lo, v.outputs[0].bound.hi
    assert np.all((lo <= exact) & (exact <= hi)) and np.all(hi > lo)
