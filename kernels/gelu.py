"""GELU in its erf and its tanh form, chosen at compile time; the kernel is generated per activation."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_erf(x):
    return 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))


@triton.jit
def gelu_tanh(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + libdevice.tanh(inner))


def make_elementwise(function):
    """A kernel that applies the jitted helper to every element."""

    @triton.jit
    def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
        base = tl.program_id(0) * BLOCK * UNROLL
        for i in tl.static_range(UNROLL):
            offs = base + i * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
            tl.store(out_ptr + offs, function(x), mask=offs < n)

    return kernel


KERNELS = {"erf": make_elementwise(gelu_erf), "tanh": make_elementwise(gelu_tanh)}


def gelu(x: torch.Tensor):
    """Both forms, (erf, tanh)."""
    n = x.numel()
    outs = []
    for kernel in KERNELS.values():
        out = torch.empty_like(x)
        kernel[(triton.cdiv(n, 4 * 256),)](x, out, n, BLOCK=256, UNROLL=4)
        outs.append(out)
    return tuple(outs)


def make_inputs(n: int = 1900):
    return (2.0 * torch.randn(n),)


def reference(x: torch.Tensor):
    return torch.nn.functional.gelu(x), torch.nn.functional.gelu(x, approximate="tanh")
