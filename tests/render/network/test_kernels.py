"""Modules that launch Triton kernels, against torch's: no scope around them is needed, and their E has no rounding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import nn

import render
from render.result.errors import UnsupportedOp

N = 48


@triton.jit
def silu_kernel(X, Y, n, SCALE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(Y + i, x * tl.sigmoid(x * SCALE), mask=i < n)


@triton.jit
def norm_kernel(X, W, Y, n, SCALE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=0.0).to(tl.float32)
    w = tl.load(W + i, mask=i < n, other=0.0)
    y = x * tl.rsqrt(tl.sum(x * x) / (n * SCALE) + 1e-6) * w
    tl.store(Y + tl.program_id(0) * n + i, y, mask=i < n)


@triton.jit
def softmax_kernel(X, n, SCALE: tl.constexpr, B: tl.constexpr):
    """In place."""
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp((x - tl.max(x, 0)) * SCALE)
    tl.store(X + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def sine_kernel(P, n, SCALE: tl.constexpr, B: tl.constexpr):
    """Of a tuple, row by row from its first."""
    i = tl.arange(0, B)
    x = tl.load(P[0] + tl.program_id(0) * n + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(P[1] + tl.program_id(0) * n + i, tl.sin(x * SCALE), mask=i < n)


@triton.jit
def table_kernel(P, n, B: tl.constexpr):
    x = tl.load(P).to(tl.pointer_type(tl.float32))
    y = tl.load(P + 1).to(tl.pointer_type(tl.float32))
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.sin(tl.load(x + i, mask=i < n)), mask=i < n)


class Silu(nn.Module):
    scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        silu_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), SCALE=self.scale, B=64)
        return y


class Norm(nn.RMSNorm):
    scale = 1.0

    def __init__(self) -> None:
        super().__init__(N, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        norm_kernel[(len(x),)](x, self.weight, y, N, SCALE=self.scale, B=64)
        return y


class Softmax(nn.Module):
    scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        softmax_kernel[(len(x),)](y, N, SCALE=self.scale, B=64)
        return y


class Sine(nn.Module):
    """Views of the first row stand for all."""

    scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        sine_kernel[(len(x),)]((x[0], y[0]), N, SCALE=self.scale, B=64)
        return y


class Sines(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


class Table(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        table_kernel[(triton.cdiv(x.numel(), 64),)](torch.tensor([x.data_ptr(), y.data_ptr()]), x.numel(), B=64)
        return y


PAIRS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "silu": (Silu, nn.SiLU),
    "norm": (Norm, lambda: nn.RMSNorm(N, eps=1e-6)),
    "softmax": (Softmax, lambda: nn.Softmax(1)),
    "sine": (Sine, Sines),
}


def net(middle: nn.Module, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(N, N), middle, nn.Linear(N, 5)).to(dtype)


@pytest.mark.parametrize("kernel_first", [True, False])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_kernel_in_a_module(name: str, dtype: torch.dtype, kernel_first: bool) -> None:
    kernel, torchs = (make() for make in PAIRS[name])
    x = torch.randn(6, N, generator=torch.Generator().manual_seed(2)).to(dtype)
    for scale, label in ((1.0, "Type-I"), (1.001 if dtype == torch.float32 else 1.05, "Type-II")):
        kernel.scale = scale
        sides = [net(kernel, dtype), net(torchs, dtype)]
        found = render.compare_models(*(sides if kernel_first else sides[::-1]), x)
        assert (found.label, found.first) == (label, None if label == "Type-I" else "1"), found.code


def test_what_is_reached_through_a_table_of_addresses_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="pointer made of an integer"):
        render.compare_models(net(Table(), torch.float32), net(Sines(), torch.float32), torch.randn(6, N))
