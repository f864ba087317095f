"""A linear layer in int8: activations are quantized row by row, multiplied with int8 weights and scaled back."""

import torch
import triton
import triton.language as tl


@triton.jit
def quantize_kernel(x_ptr, q_ptr, scale_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-6)
    scaled = x * (127.0 / largest)
    rounded = tl.where(scaled >= 0, scaled + 0.5, scaled - 0.5).to(tl.int32)
    rounded = tl.minimum(tl.maximum(rounded, -127), 127)
    tl.store(q_ptr + row * n_cols + cols, rounded.to(tl.int8), mask=mask)
    tl.store(scale_ptr + row, largest / 127.0)


@triton.jit
def int8_matmul_kernel(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < K)
        b_mask = (offs_k[:, None] < K) & (offs_n[None, :] < N)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :], mask=a_mask, other=0)
        b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :], mask=b_mask, other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    a_scale = tl.load(a_scale_ptr + offs_m, mask=offs_m < M, other=0.0)
    b_scale = tl.load(b_scale_ptr + offs_n, mask=offs_n < N, other=0.0)
    c = acc.to(tl.float32) * a_scale[:, None] * b_scale[None, :]
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], c.to(c_ptr.dtype.element_ty), mask=mask)


def int8_linear(x: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor):
    """The layer's output, the quantized activations and their scales."""
    (m, k), n = x.shape, weight.shape[1]
    q = torch.empty((m, k), dtype=torch.int8, device=x.device)
    scale = torch.empty(m, dtype=torch.float32, device=x.device)
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    quantize_kernel[(m,)](x, q, scale, k, BLOCK_SIZE=triton.next_power_of_2(k))
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    int8_matmul_kernel[grid](q, weight, out, scale, weight_scale, m, n, k, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    return out, q, scale


def make_inputs(m: int = 64, n: int = 40, k: int = 200):
    weight = torch.randint(-127, 128, (k, n), dtype=torch.int8)
    return torch.randn(m, k, dtype=torch.float16), weight, torch.rand(n) * 0.01 + 0.001


def reference(x: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor):
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = x.abs().amax(1) / 127
    quotient = x / scale[:, None]
    q = torch.trunc(quotient + torch.where(quotient >= 0, 0.5, -0.5))
    out = (q @ weight.to(x.dtype)) * scale[:, None] * weight_scale
    return out, q.to(torch.int8), scale
