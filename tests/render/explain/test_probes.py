"""What a wrong output is instead of the reference, asked of arrays."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render
from render.explain import guilty


@pytest.fixture(autouse=True)
def without_repairs(monkeypatch):
    monkeypatch.setattr(guilty, "RUNS", 0)


@triton.jit
def copy_kernel(X, Y, Out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(Out + i, tl.load(X + i, mask=m) * 2.0 + tl.load(Y + i, mask=m), mask=m)


def run(x, y):
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 128),)](x.contiguous(), y.contiguous(), out, x.numel(), 128)
    return out


def right(x, y):
    return 2 * x + y


@pytest.mark.parametrize(("ref", "said"), [
    (lambda x, y: right(x, y).T.contiguous(), "transposed"),
    (lambda x, y: right(x, y) * 0.75, "times 1.33333"),
    (lambda x, y: right(x, y) - 3, "plus 3"),
    (lambda x, y: -right(x, y), "times -1"),
    (lambda x, y: right(x, y).flip(1), "reversed along axis 1"),
    (lambda x, y: right(x, y).roll(1, 0), "moved by -1 along axis 0"),
])  # fmt: skip
def test_arrays(ref, said):
    torch.manual_seed(0)
    v = render.classify(run, torch.randn(12, 12), torch.randn(12, 12), ref=ref, device="sm_90")
    assert v.label == "Type-II" and any(said in text for text in v.resembles), v.resembles


def test_an_input_that_is_left_out():
    torch.manual_seed(0)

    def biased(x, y, z):
        return run(x, y)

    given = [torch.randn(10, 12) for _ in range(3)]
    v = render.classify(biased, *given, ref=lambda x, y, z: 2 * x + y + z, device="sm_90")
    assert any("without z (as if it were 0)" in text for text in v.resembles)


def test_a_mask_moved_by_one():
    torch.manual_seed(0)
    x = torch.randn(12, 12).tril()
    v = render.classify(run, x, x.clone(), ref=lambda x, y: (2 * x + y).tril(-1), device="sm_90")
    assert any("mask moved by +1" in text for text in v.resembles), v.resembles


def test_where_the_wrong_elements_are():
    torch.manual_seed(0)

    def ref(x, y):
        out = right(x, y)
        out[8:] = out[8:] ** 2 + 1
        return out

    v = render.classify(run, torch.randn(12, 12), torch.randn(12, 12), ref=ref, device="sm_90")
    assert "wrong are only out[8:12, :]" in v.resembles
