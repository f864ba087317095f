"""Lanes that the language leaves undefined are reported where they reach an output, and only there."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def mean_kernel(x, out, n, GUARDED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if GUARDED:
        v = tl.where(i < n, v, 0.0)
    tl.store(out, tl.sum(v, 0) / n)


@pytest.mark.parametrize("guarded", [True, False])
def test_note(guarded):
    def entry(x):
        out = torch.empty(1)
        mean_kernel[(1,)](x, out, x.numel(), guarded, 64)
        return out

    verdict = render.classify(entry, torch.randn(50), ref=lambda x: x.mean().reshape(1))
    assert verdict.label == "Type-I"
    assert any("undefined" in note for note in verdict.notes) is not guarded
