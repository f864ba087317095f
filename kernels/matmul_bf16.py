"""bf16 linear layer: x @ w.T + bias, the inner loop without masks where K is a multiple of the block."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def linear_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_wn, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    EVEN_K: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    pid_m, pid_n = tl.swizzle2d(pid_m, pid_n, tl.num_programs(0), tl.num_programs(1), GROUP_M)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    row_mask = rows[:, None] < M
    col_mask = cols[:, None] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        if EVEN_K:
            x = tl.load(x_ptr + rows[:, None] * stride_xm + ks[None, :], mask=row_mask, other=0.0)
            w = tl.load(w_ptr + cols[:, None] * stride_wn + ks[None, :], mask=col_mask, other=0.0)
        else:
            k_mask = ks[None, :] < K
            x = tl.load(x_ptr + rows[:, None] * stride_xm + ks[None, :], mask=row_mask & k_mask, other=0.0)
            w = tl.load(w_ptr + cols[:, None] * stride_wn + ks[None, :], mask=col_mask & k_mask, other=0.0)
        acc += tl.dot(x, tl.trans(w))
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]
    mask = row_mask & (cols[None, :] < N)
    tl.store(y_ptr + rows[:, None] * stride_ym + cols[None, :], acc.to(tl.bfloat16), mask=mask)


def linear(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    (M, K), N = x.shape, w.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    linear_kernel[grid](
        x, w, bias, y, M, N, K, x.stride(0), w.stride(0), y.stride(0), BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP_M=2
    )
    return y


def make_inputs(m: int = 75, n: int = 100, k: int = 104):
    x = torch.randn(m, k, dtype=torch.bfloat16)
    w = torch.randn(n, k, dtype=torch.bfloat16)
    return {"x": x, "w": w, "bias": torch.randn(n, dtype=torch.bfloat16)}


def reference(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return torch.nn.functional.linear(x, w, bias)
