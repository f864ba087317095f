"""Kernels with accumulators of several kinds."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a, b, c, N, K, B: tl.constexpr, ACC: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=ACC)
    for k in range(0, K, B):
        inner = k + tl.arange(0, B)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        y = tl.load(b + inner[:, None] * N + columns[None, :])
        acc += tl.dot(x, y, out_dtype=ACC)
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(tl.float16))


def matmul(a, b, acc=tl.float32):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=torch.float16, device=a.device)
    matmul_kernel[(a.shape[0] // 16, b.shape[1] // 16)](a, b, c, b.shape[1], a.shape[1], 16, acc)
    return c


@triton.jit
def lanes_kernel(x, o, N, B: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((B,), dtype=tl.float16)
    for k in range(0, N, B):
        acc += tl.load(x + row * N + k + tl.arange(0, B))
    tl.store(o + row, tl.sum(acc, 0))


def lanes(x):
    o = torch.empty(x.shape[0], dtype=torch.float16)
    lanes_kernel[(x.shape[0],)](x, o, x.shape[1], 16)
    return o


@triton.jit
def serial_kernel(x, o, N, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros((B,), tl.float16)
    for k in range(N):
        acc = acc - tl.load(x + row * N + k) * 0.5
    tl.store(o + row, acc)


def serial(x):
    o = torch.empty(x.shape[0], dtype=torch.float16)
    serial_kernel[(x.shape[0] // 4,)](x, o, x.shape[1], 4)
    return o


@triton.jit
def atomic_kernel(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o, tl.sum(tl.load(x + i), 0))


def atomic(x):
    o = torch.zeros(1)
    atomic_kernel[(x.numel() // 16,)](x, o, 16)
    return o


@triton.jit
def plain_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) * 2 + 1)


def plain(x):
    o = torch.empty_like(x)
    plain_kernel[(1,)](x, o, x.numel())
    return o


@triton.jit
def rescaled_kernel(x, o, n, B: tl.constexpr, ACC: tl.constexpr):
    row, top = tl.program_id(0), -float("inf")
    total = tl.zeros((1,), ACC)
    for at in range(0, n, B):
        v = tl.load(x + row * n + at + tl.arange(0, B))
        most = tl.maximum(top, tl.max(v, 0))
        part = tl.sum(tl.exp(v - most), 0)
        total = (total * tl.exp(top - most) + part).to(ACC)
        top = most
    tl.store(o + row + tl.arange(0, 1), total.to(tl.float32) + 1.0)


def rescaled(x, acc=tl.float32):
    """Sum of exponentials below the largest, plus one: the sum of an online softmax."""
    o = torch.empty(x.shape[0])
    rescaled_kernel[(x.shape[0],)](x, o, x.shape[1], 16, acc)
    return o


@triton.jit
def squares_kernel(x, o, n):
    row, mean, spread = tl.program_id(0), 0.0, 0.0
    for k in range(n):
        v = tl.load(x + row * n + k)
        d = v - mean
        mean += d / (k + 1.0)
        spread += d * (v - mean)
    tl.store(o + row, spread / n - mean)


def welford(x):
    o = torch.empty(x.shape[0])
    squares_kernel[(x.shape[0],)](x, o, x.shape[1])
    return o


@triton.jit
def polynomial_kernel(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o + tl.arange(0, B), 1.0 + v * (0.5 + v * (0.25 + v * (0.125 + v * (0.0625 + v * (0.03125 + v))))))


def polynomial(x):
    o = torch.empty_like(x)
    polynomial_kernel[(1,)](x, o, x.numel())
    return o
