"""A third of a tensor by a kernel, whose reference `x * (1 / 3)` rounds otherwise; at will with a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def third(x, y, n, F, AT, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n) / 3
    tl.store(y + i, tl.where((i == AT) | (AT < 0), v * F, v), mask=i < n)


def kernel(x: torch.Tensor, factor: float, at: int = -1) -> torch.Tensor:
    """At most 64 elements; `factor` other than 1 is a fault, of element `at` or of all."""
    y = torch.empty_like(x)
    third[(1,)](x, y, x.numel(), factor, at, B=64)
    return y
