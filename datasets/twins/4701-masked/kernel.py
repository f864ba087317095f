"""Batched a @ b + c in fp16, fp32 inside: a fraction of one tile per batch, stored under its mask."""

import torch
import triton
import triton.language as tl


@triton.jit
def baddbmm_kernel(
    a_ptr, b_ptr, c_ptr, o_ptr,
    M, N, K,
    stride_ab, stride_am, stride_ak,
    stride_bb, stride_bk, stride_bn,
    stride_cb, stride_cm, stride_cn,
    stride_ob, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0)
    pid = tl.program_id(1)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * num_n
    first_m = (pid // in_group) * GROUP_M
    size_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + ((pid % in_group) % size_m)
    pid_n = (pid % in_group) // size_m

    rm = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    rn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    rk = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch * stride_ab + rm[:, None] * stride_am + rk[None, :] * stride_ak
    b_ptrs = b_ptr + batch * stride_bb + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=rk[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < K - k * BLOCK_K, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    om = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    on = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (om[:, None] < M) & (on[None, :] < N)
    c = tl.load(c_ptr + batch * stride_cb + om[:, None] * stride_cm + on[None, :] * stride_cn, mask=mask, other=0.0)
    out = (acc + c.to(tl.float32)).to(tl.float16)
    tl.store(o_ptr + batch * stride_ob + om[:, None] * stride_om + on[None, :] * stride_on, out, mask=mask)


def baddbmm(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    (B, M, K), N = a.shape, b.shape[2]
    out = torch.empty((B, M, N), device=a.device, dtype=a.dtype)
    grid = (B, triton.cdiv(M, 32) * triton.cdiv(N, 64), 1)
    baddbmm_kernel[grid](
        a, b, c, out, M, N, K, *a.stride(), *b.stride(), *c.stride(), *out.stride(),
        BLOCK_M=32, BLOCK_N=64, BLOCK_K=32, GROUP_M=4,
    )  # fmt: skip
    return out


def make_inputs(batches: int = 3, m: int = 4, n: int = 4, k: int = 3):
    a = torch.randn(batches, m, k, dtype=torch.float16)
    b = torch.randn(batches, k, n, dtype=torch.float16)
    c = torch.empty(batches, m, n, dtype=torch.float16).uniform_(-1, 1)
    return a, b, c


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return a @ b + c
