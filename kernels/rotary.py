"""Rotary position embedding; the angles are computed in the kernel, which lives in a class."""

import math

import torch
import triton
import triton.language as tl


class Rotary:
    def __init__(self, base: float = 10000.0):
        self.base = base

    @staticmethod
    @triton.jit
    def kernel(x_ptr, out_ptr, stride_n, n_ctx, log2_base, HALF: tl.constexpr, BLOCK_N: tl.constexpr):
        positions = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
        pairs = tl.arange(0, HALF)
        frequency = tl.exp2(-pairs.to(tl.float32) * (log2_base / HALF))
        angle = positions[:, None].to(tl.float32) * frequency[None, :]
        cos, sin = tl.cos(angle), tl.sin(angle)
        first = positions[:, None] * stride_n + pairs[None, :]
        second = first + HALF
        mask = positions[:, None] < n_ctx
        x1 = tl.load(x_ptr + first, mask=mask)
        x2 = tl.load(x_ptr + second, mask=mask)
        tl.store(out_ptr + first, x1 * cos - x2 * sin, mask=mask)
        tl.store(out_ptr + second, x2 * cos + x1 * sin, mask=mask)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        n_ctx, dim = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(n_ctx, 16),)
        self.kernel[grid](x, out, x.stride(0), n_ctx, math.log2(self.base), HALF=dim // 2, BLOCK_N=16)
        return out


def rotary(x: torch.Tensor) -> torch.Tensor:
    return Rotary()(x)


def make_inputs(n_ctx: int = 50, dim: int = 32):
    return (torch.randn(n_ctx, dim),)


def reference(x: torch.Tensor) -> torch.Tensor:
    n_ctx, dim = x.shape
    frequency = 10000.0 ** (-torch.arange(dim // 2, dtype=torch.float64) / (dim // 2))
    angle = torch.arange(n_ctx, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)
