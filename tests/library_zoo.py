"""Kernels that call one library function each, named by a constant."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice


@triton.jit
def one(x, out, NAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, getattr(cuda_libdevice, NAME)(tl.load(x + i)))


@triton.jit
def two(x, y, out, NAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, getattr(cuda_libdevice, NAME)(tl.load(x + i), tl.load(y + i)))


@triton.jit
def three(x, y, z, out, NAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, getattr(cuda_libdevice, NAME)(tl.load(x + i), tl.load(y + i), tl.load(z + i)))


@triton.jit
def four(x, y, z, w, out, NAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, d = tl.load(x + i), tl.load(y + i), tl.load(z + i), tl.load(w + i)
    tl.store(out + i, getattr(cuda_libdevice, NAME)(a, b, c, d))


@triton.jit
def of_order(x, out, NAME: tl.constexpr, ORDER: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, getattr(cuda_libdevice, NAME)(ORDER, tl.load(x + i)))


@triton.jit
def generic_names(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.pow(v, 2.0) + tl.extra.cuda.libdevice.pow(v, 3) + libdevice.tanh(v))


@triton.jit
def guarded_division(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    q = tl.load(x + i) / tl.load(y + i)
    tl.store(out + i, tl.where(libdevice.isnan(q) | libdevice.isinf(q), 0.0, q))


@triton.jit
def isnan_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.exp(tl.load(x + i))
    tl.store(out + i, tl.where(libdevice.isnan(v), 1.0, 2.0))
    tl.store(out + N + i, tl.where(libdevice.isinf(v), 1.0, 2.0))
    tl.store(out + 2 * N + i, tl.where(libdevice.finitef(v), 1.0, 2.0))


@triton.jit
def scalar_call(out):
    tl.store(out, libdevice.sqrt(2.0))


@triton.jit
def selu_scalar(x, alpha):
    if x > 0:
        return x
    else:
        return alpha * (tl.exp(x) - 1)


@triton.jit
def selu_kernel(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(selu_scalar, tl.load(x + i), 1.67))


@triton.jit
def collatz_scalar(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps, n


@triton.jit
def collatz_kernel(x, out, last, N: tl.constexpr):
    i = tl.arange(0, N)
    steps, end = tl.map_elementwise(collatz_scalar, tl.load(x + i))
    tl.store(out + i, steps)
    tl.store(last + i, end)


@triton.jit
def open_branch_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.exp(tl.load(x + i)) - 1.0
    tl.store(out + i, tl.map_elementwise(selu_scalar, v, 2.0))


@triton.jit
def packed_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(selu_scalar, tl.load(x + i), 1.0, pack=2))
