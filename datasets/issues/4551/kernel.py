"""One tile of A B with TF32 allowed, against A @ B with TF32 allowed: both sides round, and not alike."""

import torch
import triton
import triton.language as tl


@triton.jit
def dot_kernel(A, B, C, D: tl.constexpr, ALLOW_TF32: tl.constexpr):
    rows = tl.arange(0, D)[:, None]
    cols = tl.arange(0, D)[None, :]
    a = tl.load(A + rows * D + cols)
    b = tl.load(B + rows * D + cols)
    c = tl.dot(a, b, allow_tf32=ALLOW_TF32)
    tl.store(C + rows * D + cols, c)


def dot(a: torch.Tensor, b: torch.Tensor, allow_tf32: bool = True) -> torch.Tensor:
    c = torch.empty_like(a)
    dot_kernel[(1,)](a, b, c, a.shape[0], allow_tf32)
    return c


def make_inputs(d: int = 64):
    a = 10 * torch.rand(d, d)
    b = 10 * torch.rand(d, d)
    return a, b


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b
