"""One step of Gaussian elimination: every row below the pivot loses its multiple of the pivot row."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_kernel(A, B, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) + 1
    column = tl.arange(0, BLOCK)
    mask = column < n
    pivot = tl.load(A)
    lead = tl.load(A + row * n)
    factor = lead / pivot
    top = tl.load(A + column, mask=mask, other=0.0)
    own = tl.load(A + row * n + column, mask=mask, other=0.0)
    product = factor * top
    new = own - product
    tl.store(B + (row - 1) * n + column, new, mask=mask)


def gaussian_row(a: torch.Tensor) -> torch.Tensor:
    n = a.shape[1]
    b = torch.empty((a.shape[0] - 1, n), dtype=a.dtype, device=a.device)
    row_kernel[(a.shape[0] - 1,)](a, b, n, BLOCK=triton.next_power_of_2(n))
    return b


def make_inputs(n: int = 12):
    return 1 + torch.rand(n, n)


def reference(a: torch.Tensor) -> torch.Tensor:
    return a[1:] - (a[1:, :1] / a[0, 0]) * a[:1]
