"""fp8 (e5m2) matmul with one scale per tensor, fp32 result."""

import torch
import triton
import triton.language as tl


@triton.jit
def fp8_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, scale_a, scale_b,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK_K % 32 == 0, "fp8 tensor cores want K in steps of 32")
    tl.static_assert(a_ptr.dtype.element_ty == tl.float8e5)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak,
            mask=(rows[:, None] < M) & (ks[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            b_ptr + ks[:, None] * stride_bk + cols[None, :] * stride_bn,
            mask=(ks[:, None] < K) & (cols[None, :] < N),
            other=0.0,
        )
        acc = tl.dot(a, b, acc)
    c = acc * (scale_a * scale_b)
    tl.store(
        c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn,
        c,
        mask=(rows[:, None] < M) & (cols[None, :] < N),
    )


def matmul_fp8(a: torch.Tensor, b: torch.Tensor, scale_a: float, scale_b: float) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=torch.float32, device=a.device)
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    fp8_matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), scale_a, scale_b, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32
    )
    return c


def make_inputs(m: int = 70, n: int = 60, k: int = 112):
    a = torch.randn(m, k).to(torch.float8_e5m2)
    b = torch.randn(n, k).to(torch.float8_e5m2).t()
    return a, b, 0.5, 0.03125


def reference(a: torch.Tensor, b: torch.Tensor, scale_a: float, scale_b: float) -> torch.Tensor:
    if a.dtype == torch.float8_e5m2:
        a, b = a.float(), b.float()
    return torch.matmul(a, b) * (scale_a * scale_b)
