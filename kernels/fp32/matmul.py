"""Matrix multiplication in fp32, with a scale and a bias behind it."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(A, B, BIAS, C, n, k, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a = tl.load(A + row[:, None] * k + inner[None, :])
        b = tl.load(B + inner[:, None] * n + column[None, :])
        total += tl.dot(a, b, input_precision="ieee")
    bias = tl.load(BIAS + column)
    scaled = total * scale
    out = scaled + bias[None, :]
    tl.store(C + row[:, None] * n + column[None, :], out)


def matmul(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    matmul_kernel[(m // 16, n // 16)](a, b, bias, c, n, k, 0.125, BLOCK=16)
    return c


def make_inputs(m: int = 32, n: int = 32, k: int = 64):
    return torch.rand(m, k), torch.rand(k, n), torch.rand(n)


def reference(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return (a @ b) * 0.125 + bias
