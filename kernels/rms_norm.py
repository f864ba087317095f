"""RMS normalisation of fp16 rows with an optional residual that is added first."""

import torch
import triton
import triton.language as tl
from triton.language.math import rsqrt


@triton.jit
def rms_norm_kernel(
    X, Residual, W, Y, stride_x, stride_r, stride_y, n_cols, eps: tl.float32, offset: "tl.constexpr",
    BLOCK_SIZE: "tl.constexpr",
):  # fmt: skip
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    x = tl.load(X + row_idx * stride_x + col_offsets, mask=mask, other=0).to(tl.float32)
    if Residual is not None:
        x += tl.load(Residual + row_idx * stride_r + col_offsets, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + col_offsets, mask=mask, other=0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=None) / n_cols
    tl.device_assert(mean_square >= 0.0, "sum of squares is negative")
    rstd = rsqrt(mean_square + eps)
    y = x * rstd * (offset + w)
    tl.store(Y + row_idx * stride_y + col_offsets, y.to(Y.dtype.element_ty), mask=mask)


def rms_norm(x, weight, residual=None, eps=1e-6):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rms_norm_kernel[(n_rows,)](
        x,
        residual,
        weight,
        y,
        x.stride(0),
        0 if residual is None else residual.stride(0),
        y.stride(0),
        n_cols,
        eps,
        offset=1.0,
        BLOCK_SIZE=triton.next_power_of_2(n_cols),
    )
    return y


def make_inputs(rows: int = 40, cols: int = 120):
    x = torch.randn(rows, cols).half()
    x[5] = 0.0  # an empty row (padding): 0 / 0 without eps
    return {"x": x, "weight": 0.1 * torch.randn(cols).half(), "residual": None, "eps": 1e-6}


def reference(x, weight, residual=None, eps=1e-6):
    h = x if x.dtype == torch.float64 else x.float()
    h = h if residual is None else h + residual
    y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * (1.0 + weight)
    return y.to(x.dtype)
