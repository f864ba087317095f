"""Products of matrices of half precision: four implementations of one function."""

import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(A, B, P, n, k, share, BLOCK: tl.constexpr, STORE: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(2)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, share, BLOCK):
        inner = part * share + start + tl.arange(0, BLOCK)
        a = tl.load(A + row[:, None] * k + inner[None, :])
        b = tl.load(B + inner[:, None] * n + column[None, :])
        total += tl.dot(a, b)
    rows = tl.num_programs(0) * BLOCK
    tl.store(P + (part * rows + row[:, None]) * n + column[None, :], total.to(STORE))


@triton.jit
def add_kernel(P, C, size, parts, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(P + part * size + i).to(tl.float32)
    tl.store(C + i, total.to(C.dtype.element_ty))


def _split(a, b, parts, dtype, store):
    (m, k), n = a.shape, b.shape[1]
    p = torch.empty((parts, m, n), dtype=dtype, device=a.device)
    c = torch.empty((m, n), dtype=torch.float16, device=a.device)
    split_kernel[(m // 32, n // 32, parts)](a, b, p, n, k, k // parts, BLOCK=32, STORE=store)
    add_kernel[(m * n // 128,)](p, c, m * n, parts, BLOCK=128)
    return c


def split_half(a, b):
    return _split(a, b, 16, torch.float16, tl.float16)


def split_single(a, b):
    return _split(a, b, 16, torch.float32, tl.float32)


@triton.jit
def plain_kernel(A, B, C, n, k, BLOCK: tl.constexpr, ACC: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=ACC)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a = tl.load(A + row[:, None] * k + inner[None, :])
        b = tl.load(B + inner[:, None] * n + column[None, :])
        total += tl.dot(a, b, out_dtype=ACC)
    tl.store(C + row[:, None] * n + column[None, :], total.to(tl.float16))


def _plain(a, b, k, acc):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=torch.float16, device=a.device)
    plain_kernel[(a.shape[0] // 32, b.shape[1] // 32)](a, b, c, b.shape[1], k, BLOCK=32, ACC=acc)
    return c


def single(a, b):
    return _plain(a, b, a.shape[1], tl.float32)


def half_acc(a, b):
    return _plain(a, b, a.shape[1], tl.float16)


@triton.jit
def dropped_kernel(A, B, C, n, k, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a = tl.load(A + row[:, None] * k + inner[None, :], mask=inner[None, :] < k - 1, other=0.0)
        b = tl.load(B + inner[:, None] * n + column[None, :])
        total += tl.dot(a, b)
    tl.store(C + row[:, None] * n + column[None, :], total.to(tl.float16))


def dropped(a, b):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=torch.float16, device=a.device)
    dropped_kernel[(a.shape[0] // 32, b.shape[1] // 32)](a, b, c, b.shape[1], a.shape[1], BLOCK=32)
    return c


def reference(a, b):
    return a @ b


def make_inputs():
    return torch.randn(32, 4096).half(), torch.randn(4096, 32).half()
