"""Small kernels that each use one language feature the way real code does."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language import arange, program_id
from triton.language.math import exp as imported_exp


@triton.heuristics({"EVEN": lambda args: args["N"] % 4 == 0})
@triton.jit
def heuristic_kernel(out, N, EVEN: tl.constexpr):
    tl.store(out, 1 if EVEN else 2)


@triton.jit
def logic_kernel(out, N: tl.constexpr):
    i = tl.arange(0, N)
    m = i >= 1 and i < 5
    odd = not (i % 2 == 0)  # noqa: SIM201
    between = 0 < i < 7
    tl.store(out + i, ((m or odd) and between).to(tl.int32))


@triton.jit
def double_assign_kernel(out):
    a = b = 0
    a += 3
    tl.store(out, a)
    tl.store(out + 1, b)


@triton.jit
def helper_pair(x, y):
    return x + y, x - y


@triton.jit
def nested_kernel(x, out, N: tl.constexpr):
    i = arange(0, N) + program_id(0) * N
    v = tl.load(x + i)
    s, d = helper_pair(v, v * 2)
    tl.store(out + i, s * d + imported_exp(v * 0))


@triton.autotune(configs=[triton.Config({"B": 16}), triton.Config({"B": 32})], key=["n"], reset_to_zero=["out"])
@triton.jit
def tuned_kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))


@triton.jit
def mul_kernel(x, w, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) * tl.load(w + i, mask=m), mask=m)


class Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        o = torch.empty_like(x)
        mul_kernel[(triton.cdiv(x.numel(), 64),)](x, w, o, x.numel(), 64)
        ctx.save_for_backward(x, w)
        return o

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        a = torch.empty_like(x)
        mul_kernel[(triton.cdiv(x.numel(), 64),)](g.contiguous(), w, a, x.numel(), 64)
        return a, None


@triton.jit
def ragged_kernel(x, offsets, out, B: tl.constexpr):
    p = tl.program_id(0)
    start, end = tl.load(offsets + p), tl.load(offsets + p + 1)
    acc = tl.zeros([B], tl.float32)
    for i in range(start, end, B):
        j = i + tl.arange(0, B)
        acc += tl.load(x + j, mask=j < end, other=0.0)
    if end - start > 5:
        acc = acc * 2.0
    tl.store(out + p, tl.sum(acc, 0))


@triton.jit
def parting_kernel(x, out):
    """The bits of a rounded product are not bounded; after them, even and odd programs part."""
    p = tl.program_id(0)
    bits = (tl.load(x + p) * 1.1).to(tl.int32, bitcast=True)
    if p % 2 == 0:
        bits = bits + 1
    tl.store(out + p, bits)


@triton.jit
def prefix_chain_kernel(x, out):
    """Program p reads what program p - 1 stored."""
    p = tl.program_id(0)
    before = 0.0
    if p > 0:
        before = tl.load(out + p - 1)
    tl.store(out + p, before + tl.load(x + p))


@triton.jit
def in_place_scan_kernel(x, stride, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(x + row * stride + i, tl.cumsum(tl.load(x + row * stride + i), 0))


@triton.jit
def shift_left_kernel(x, n):
    """Program p overwrites what program p - 1 read: an anti-dependence between programs."""
    p = tl.program_id(0)
    v = tl.load(x + p + 1)
    tl.store(x + p, v)


@triton.jit
def lock_kernel(x, out, lock, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.sum(tl.load(x + i), 0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + s)
    tl.atomic_xchg(lock, 0)


@triton.jit
def persistent_kernel(x, out, n_tiles, B: tl.constexpr, NP: tl.constexpr):
    for tile in tl.range(tl.program_id(0), n_tiles, NP):
        i = tile * B + tl.arange(0, B)
        tl.store(out + i, tl.load(x + i) * 2.0)


@triton.jit
def pointer_table_kernel(table, sizes, out, B: tl.constexpr):
    p = tl.program_id(0)
    base = tl.load(table + p).to(tl.pointer_type(tl.float32))
    n = tl.load(sizes + p)
    i = tl.arange(0, B)
    tl.store(out + p * B + i, tl.load(base + i, mask=i < n, other=0.0))


@triton.jit
def argmax_kernel(x, values, places, N: tl.constexpr):
    r = tl.program_id(0)
    v = tl.load(x + r * N + tl.arange(0, N))
    best, where = tl.max(v, 0, return_indices=True)
    tl.store(values + r, best)
    tl.store(places + r, where)


@triton.jit
def dropout_kernel(x, out, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=m)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=m)


@triton.jit
def block_pointer_kernel(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    src = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    dst = tl.make_block_ptr(out, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(tl.cdiv(N, BN)):
        v = tl.load(src, boundary_check=(0, 1), padding_option="zero")
        tl.store(dst, v + 1.0, boundary_check=(0, 1))
        src = tl.advance(src, (0, BN))
        dst = tl.advance(dst, (0, BN))


@triton.jit
def descriptor_kernel(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    src = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    dst = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    dst.store(at, src.load(at) * 3.0)


@triton.jit
def method_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + i[None, :])
    tl.store(out + i, v.sum(axis=1) + v.T.max(axis=0) + tl.sum(v, axis=None))


@triton.jit
def unsupported_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    v = tl.inline_asm_elementwise("prmt.b32 $0, $1;", "=r,r", [v], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + i, v)


@triton.jit
def none_kernel(x, bias, out, HAS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if bias is not None:
        v += tl.load(bias + i)
    if not HAS:
        v = -v
    tl.store(out + i, v)
