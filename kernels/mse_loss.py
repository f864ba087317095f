"""Mean squared error of two tensors, reduced to one scalar by an atomic add per program."""

import torch
import triton
import triton.language as tl


@triton.jit
def mse_kernel(x_ptr, y_ptr, loss_ptr, n, scale, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    tl.static_assert(BLOCK_ROWS > 1 and BLOCK_COLS > 1)
    rows = tl.arange(0, BLOCK_ROWS)[:, None]
    offsets = tl.program_id(0) * BLOCK_ROWS * BLOCK_COLS + rows * BLOCK_COLS + tl.arange(0, BLOCK_COLS)[None, :]
    mask = not (offsets >= n)
    difference = tl.load(x_ptr + offsets, mask=mask, other=0.0) - tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.atomic_add(loss_ptr, tl.sum(difference * difference, axis=None) * scale, sem="relaxed")


def mse_loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = x.numel()
    loss = torch.zeros((), dtype=torch.float32, device=x.device)
    mse_kernel[[triton.cdiv(n, 32 * 8)]](x, y, loss, n, 1.0 / n, BLOCK_ROWS=32, BLOCK_COLS=8)
    return loss


def make_inputs(n: int = 3001):
    return torch.randn(n), torch.randn(n)


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(x, y)
