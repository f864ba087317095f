"""A witness without rounding evaluates to the formula in exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.trace import slice_of
from render.witness.check import evaluated
from render.witness.make import Claim, document
from render.witness.unrounded import unrounded

N = 16


@triton.jit
def attending(Q, K, V, Out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    q, k, v = tl.load(Q + i * N + j), tl.load(K + j * N + i), tl.load(V + i * N + j)
    s = tl.dot(q, k) * 0.25
    p = tl.exp(s - tl.max(s, 1)[:, None])
    out = tl.dot(p.to(tl.float16), v) / tl.sum(p, 1)[:, None]
    tl.store(Out + i * N + j, out.to(tl.float16))


@triton.jit
def mixing(Q, K, V, Out, N: tl.constexpr):
    i = tl.arange(0, N * N)
    x, y = tl.load(Q + i).to(tl.float32), tl.load(K + i).to(tl.float8e5).to(tl.float32)
    z = tl.sqrt(tl.abs(x * y + 0.1)) + tl.log(2.5 + tl.sin(x))
    tl.store(Out + i, (z * tl.load(V + i)).to(tl.float16))


def entry_of(kernel):
    def run(q, k, v):
        out = torch.empty(N, N, dtype=torch.float16)
        kernel[(1,)](q, k, v, out, N)
        return out

    return run


def exact_attention(q, k, v):
    q, k, v = (x.double() for x in (q, k, v))
    return torch.softmax(q @ k.T * 0.25, -1) @ v


def exact_mix(q, k, v):
    q, k, v = (x.double() for x in (q, k, v))
    return ((q * k + 0.1).abs().sqrt() + (2.5 + q.sin()).log()) * v


@pytest.mark.parametrize("device", ["any", "sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize(("kernel", "exact"), [(attending, exact_attention), (mixing, exact_mix)])
def test_the_formula_and_nothing_else(kernel, exact, device):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(N, N, generator=generator).half() for _ in range(3))
    entry = Entry(entry_of(kernel), of_call(entry_of(kernel), (q, k, v), {}), device)
    run = entry.run()
    for place in [(0, 0), (7, 3), (15, 15)]:
        found = slice_of(entry, run, "out", place)
        want = float(exact(q, k, v)[place])
        bound = evaluated(document(found, Claim("reference", want, want))).enclosure
        free = evaluated(unrounded(document(found, Claim("reference", want, want)))).enclosure
        low, high = (float.fromhex(x) for x in free)
        assert low - 1e-12 * abs(want) <= want <= high + 1e-12 * abs(want)
        # A literal is the hull of the double and its rounding to float32: nothing else has width.
        assert high - low <= 1e-6 * abs(want)
        assert high - low < 1e-2 * np.subtract(*(float.fromhex(x) for x in reversed(bound)))
