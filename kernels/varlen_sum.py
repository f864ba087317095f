"""Sums of ragged segments, one program per segment, and the number of blocks each one took."""

import itertools

import torch
import triton
import triton.language as tl


@triton.jit
def varlen_sum_kernel(
    x_ptr, cu_seqlens_ptr, out_ptr, steps_ptr, n_cols, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr
):
    segment = tl.program_id(0)
    start, end = tl.load(cu_seqlens_ptr + segment), tl.load(cu_seqlens_ptr + segment + 1)
    cols = tl.arange(0, BLOCK_COLS)
    acc = tl.zeros((BLOCK_COLS,), dtype=tl.float32)
    row = start
    steps, empty = 0, 0
    while row < end:
        rows = row + tl.arange(0, BLOCK_ROWS)
        mask = (rows < end)[:, None] and (cols < n_cols)[None, :]
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * n_cols + cols[None, :], mask=mask, other=0.0)
        acc += tl.sum(x, axis=0)
        row += BLOCK_ROWS
        steps += 1
    if not steps > empty:
        acc = tl.full((BLOCK_COLS,), -1.0, dtype=tl.float32)
    tl.store(out_ptr + segment * n_cols + cols, acc, mask=cols < n_cols)
    tl.store(steps_ptr + segment, steps)


def varlen_sum(x: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Column sums of x[cu_seqlens[i]:cu_seqlens[i + 1]]; -1 where the segment is empty."""
    n_segments, n_cols = cu_seqlens.numel() - 1, x.shape[1]
    out = torch.empty((n_segments, n_cols), dtype=torch.float32, device=x.device)
    steps = torch.empty((n_segments,), dtype=torch.int32, device=x.device)
    varlen_sum_kernel[(n_segments,)](
        x, cu_seqlens, out, steps, n_cols, BLOCK_ROWS=8, BLOCK_COLS=triton.next_power_of_2(n_cols)
    )
    return out


def make_inputs(lengths=(5, 0, 40, 17, 8, 1, 23), cols: int = 20):
    cu_seqlens = torch.tensor((0, *lengths)).cumsum(0).to(torch.int32)
    return torch.randn(sum(lengths), cols) + 0.5, cu_seqlens


def reference(x: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    bounds = cu_seqlens.tolist()
    sums = [x[lo:hi].sum(0) if hi > lo else x.new_full((x.shape[1],), -1.0) for lo, hi in itertools.pairwise(bounds)]
    return torch.stack(sums)
