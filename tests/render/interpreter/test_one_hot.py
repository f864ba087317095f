"""one_hot while a session lasts: what torch has of it is kept where it is not the scatter of a given width."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def twice_kernel(X, Y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Y + i, 2 * tl.load(X + i, mask=i < n), mask=i < n)


def entry(x):
    assert torch.nn.functional.one_hot(torch.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]], (
        "the width that the indices ask for"
    )
    assert torch.nn.functional.one_hot(torch.empty(0, dtype=torch.int64), 3).shape == (0, 3)
    assert torch.nn.functional.one_hot(torch.tensor([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]
    with pytest.raises(RuntimeError, match="infer"):
        torch.nn.functional.one_hot(torch.empty(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match=r"LongTensor|int64"):
        torch.nn.functional.one_hot(torch.tensor([0, 1], dtype=torch.int32), 3)
    out = torch.empty_like(x)
    twice_kernel[(1,)](x, out, x.numel(), 64)
    return out


def test_one_hot_of_every_kind():
    assert render.classify(entry, torch.ones(8), ref=lambda x: x * 2).label == "Type-I"
