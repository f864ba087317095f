"""x * y + x in fp32: a product and a sum that a compiler may contract; a store and reload between them forbids it."""

import torch
import triton
import triton.language as tl


@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, out_ptr, n_elements, RELOAD: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    product = x * y
    if RELOAD:
        tl.store(out_ptr + offsets, product, mask=mask)
        product = tl.load(out_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, product + x, mask=mask)


def multiply_add(x: torch.Tensor, y: torch.Tensor, reload: bool = False) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    multiply_add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, RELOAD=reload, BLOCK=1024)
    return out


def make_inputs(rows: int = 100, cols: int = 100, reload: bool = False):
    return {"x": torch.randn(rows, cols), "y": torch.randn(rows, cols), "reload": reload}


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y + x
