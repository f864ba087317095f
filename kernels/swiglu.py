"""SwiGLU, silu(gate) * up, and its backward pass, on fp16 rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def swiglu_forward_kernel(a_ptr, b_ptr, c_ptr, row_stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    a_ptr += row * row_stride
    b_ptr += row * row_stride
    c_ptr += row * row_stride
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    a = tl.load(a_ptr + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0)
    tl.store(c_ptr + cols, silu(a).cast(b.dtype) * b, mask=mask)


@triton.jit
def swiglu_backward_kernel(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, row_stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    offs = row * row_stride + cols
    mask = cols < n_cols
    dc = tl.load(dc_ptr + offs, mask=mask, other=0).to(tl.float32)
    a = tl.load(a_ptr + offs, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + offs, mask=mask, other=0).to(tl.float32)
    sig_a = tl.sigmoid(a)
    db = dc * (a * sig_a)
    da = dc * (sig_a + a * sig_a * (1 - sig_a)) * b
    tl.store(da_ptr + offs, da, mask=mask)
    tl.store(db_ptr + offs, db, mask=mask)


def swiglu(gate: torch.Tensor, up: torch.Tensor, dc: torch.Tensor):
    """Output, gradient of gate, gradient of up."""
    n_rows, n_cols = gate.shape
    out, d_gate, d_up = torch.empty_like(gate), torch.empty_like(gate), torch.empty_like(up)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    swiglu_forward_kernel[(n_rows,)](gate, up, out, gate.stride(0), n_cols=n_cols, BLOCK_SIZE=BLOCK_SIZE)
    swiglu_backward_kernel[(n_rows,)](dc, gate, up, d_gate, d_up, gate.stride(0), n_cols=n_cols, BLOCK_SIZE=BLOCK_SIZE)
    return out, d_gate, d_up


def make_inputs(rows: int = 21, cols: int = 90):
    return tuple(torch.randn(rows, cols, dtype=torch.float16) for _ in range(3))


def reference(gate: torch.Tensor, up: torch.Tensor, dc: torch.Tensor):
    sig = torch.sigmoid(gate)
    out = gate * sig * up
    return out, dc * up * (sig + gate * sig * (1 - sig)), dc * gate * sig
