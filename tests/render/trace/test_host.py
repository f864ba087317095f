"""Host operations as they were written down: the shape that an operand had then."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.verdicts import classify


@triton.jit
def third(X, Y, N: tl.constexpr, F: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i) / 3 * F)


def thirds(x, factor):
    y = torch.empty_like(x)
    third[(1,)](x, y, N=64, F=factor)
    return y


X = torch.linspace(-2, 3, 64)
AFTER = {
    "linear of a vector": lambda z: torch.nn.functional.linear(X[:8], z.view(8, 8)),
    "vector times matrix": lambda z: X[:8] @ z.view(8, 8),
    "squeezed in place": lambda z: (z.view(1, 64) * 2).squeeze_(0) + X,
    "transposed in place": lambda z: (z.view(4, 16) * 2).t_() @ X[:4],
    "unsqueezed in place": lambda z: (z * 2).unsqueeze_(1) * X[:2],
}


@pytest.mark.parametrize("name", AFTER)
def test_operands_that_change_their_shape_afterwards_are_followed(name):
    after = AFTER[name]
    right = classify(lambda x: after(thirds(x, 1.0)), X, ref=lambda x: after(x / 3), device="any")
    wrong = classify(lambda x: after(thirds(x, 1.01)), X, ref=lambda x: after(x / 3), device="any")
    assert (right.label, wrong.label) == ("Type-I", "Type-II"), (right, wrong)
