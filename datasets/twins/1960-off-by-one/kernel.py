"""Sum of an fp16 matrix over one axis that reads one row too many."""

import torch
import triton
import triton.language as tl


@triton.jit
def block_of(start, length, stride, BLOCK: tl.constexpr):
    index = start + tl.arange(0, BLOCK)
    return index * stride, index <= length


@triton.jit
def axis_sum_kernel(inp_ptr, out_ptr, n_rows, n_cols, AXIS: tl.constexpr, BLOCK: tl.constexpr):
    line = tl.program_id(0)
    if AXIS == 0:
        length, stride, line_stride = n_rows, n_cols, 1
    else:
        length, stride, line_stride = n_cols, 1, n_cols
    acc = 0.0
    for start in range(0, length, BLOCK):
        offsets, mask = block_of(start, length, stride, BLOCK)
        x = tl.load(inp_ptr + line * line_stride + offsets, mask=mask, other=0.0)
        acc += tl.sum(x, axis=0)
    tl.store(out_ptr + line, acc)


def axis_sum(inp: torch.Tensor, axis: int = 0) -> torch.Tensor:
    n_rows, n_cols = inp.shape
    lines = n_cols if axis == 0 else n_rows
    out = torch.empty(lines, device=inp.device, dtype=inp.dtype)
    axis_sum_kernel[(lines,)](inp, out, n_rows, n_cols, AXIS=axis, BLOCK=4)
    return out


COLUMNS = [
    [30.6875, 21.5469, 28.6406, 5.3281, 20.1406],
    [-40.4375, 11.3438, -30.1094, -75.1875, -33.4375],
    [-29.1719, 14.0, 22.6406, -13.3828, -50.3438],
    [81.1875, 33.7188, -35.875, -39.9688, -25.2812],
    [23.3125, 13.4844, 3.541, -59.9062, 69.625],
    [3.6348, -18.0938, -66.125, 14.7812, 2.209],
    [6.0508, 27.5156, 15.6016, -23.0625, 18.9062],
    [-100.5, -29.0625, -22.4375, -3.4336, 16.375],
    [-6.0273, -1.7559, 50.0625, -34.8125, -7.9922],
    [11.6562, 20.8594, 39.6562, 32.7812, 27.1562],
]


def make_inputs():
    return torch.tensor(COLUMNS, dtype=torch.float16).t().contiguous()


def reference(inp: torch.Tensor, axis: int = 0) -> torch.Tensor:
    return torch.sum(inp, axis)
