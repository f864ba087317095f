"""One element that may be any number of its type says nothing of the others, and no program is right because of it."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.classify import classify


@triton.jit
def quantised(X, Out, n, scale, CLAMP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + i, mask=i < n) * scale
    tl.store(Out + i, (tl.clamp(x, -128.0, 127.0) if CLAMP else x).to(tl.int8), mask=i < n)


def quantise(scale, clamp=False):
    def run(x):
        out = torch.empty(x.shape, dtype=torch.int8)
        quantised[(1,)](x, out, x.numel(), scale, clamp, 64)
        return out

    return run


def reference(x):
    return (x * 10.0).clamp(-128, 127).to(torch.int8)


@pytest.mark.parametrize("largest", [12.8, float("inf"), 3.0])
def test_only_what_cannot_be_held_is_open(largest):
    x = torch.randn(50, generator=torch.Generator().manual_seed(5))
    x[7] = largest
    fits = largest * 10 < 128
    right = classify(quantise(10.0), x, ref=reference, budget=False)
    assert (right.label, right.code) == (("Type-I", "RND100") if fits else ("Inconclusive", "RND316"))
    assert classify(quantise(10.0, True), x, ref=reference, budget=False).label == "Type-I"
    wrong = classify(quantise(11.0), x, ref=reference, budget=False)
    assert (wrong.label, wrong.code) == ("Type-II", "RND201")
