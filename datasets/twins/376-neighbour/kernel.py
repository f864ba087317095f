"""Each row is multiplied by the weight after the one that its index names."""

import torch
import triton
import triton.language as tl


@triton.jit
def indexed_matmul_kernel(x_ptr, w_ptr, index_ptr, y_ptr, stride_row, stride_w, D: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, D)
    which = tl.load(index_ptr + row)
    same = tl.zeros((D,), dtype=tl.int32)
    x = tl.load(x_ptr + row * stride_row + same[:, None] + offs[None, :])
    w = tl.load(w_ptr + (which + 1) % 10 * stride_w + offs[:, None] * D + offs[None, :])
    y = tl.dot(x, w)
    # D equal rows: every lane of a column stores the same number to the same address
    tl.store(y_ptr + row * stride_row + same[:, None] + offs[None, :], y)


def indexed_matmul(x: torch.Tensor, w: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    rows = x.shape[0] * x.shape[1]
    indexed_matmul_kernel[(rows,)](x, w, index, y, x.stride(1), w.stride(0), D=x.shape[2])
    return y


def make_inputs(rows: int = 128, weights: int = 10, d: int = 64):
    x = torch.randn(1, rows, d)
    w = torch.randn(weights, d, d)
    index = torch.randint(0, weights, (1, rows), dtype=torch.int32)
    return x, w, index


def reference(x: torch.Tensor, w: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    for batch in range(x.shape[0]):
        for row in range(x.shape[1]):
            y[batch, row] = torch.matmul(x[batch, row], w[index[batch, row]])
    return y
