"""Programs for the foreign adversary, with what random programs lack: constants that divide, functions of the language,
sums in half precision, matrix units, fp8, atomics, numbers that leave torch, tables and statistics made by the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from foreign.attack import Foreign
from foreign.zoo_sequences import sequences

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def functions_kernel(X, Y, Out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(X + i, mask=m, other=1.0).to(tl.float32)
    y = tl.load(Y + i, mask=m, other=1.0).to(tl.float32)
    a = tl.log(tl.abs(x) + 0.25) + tl.sin(y) * tl.cos(x)
    b = tl.exp2(tl.minimum(x, 3.0)) + tl.log2(tl.abs(y) + 0.5) - tl.erf(x * y)
    c = tl.sqrt(tl.abs(x)) + tl.rsqrt(tl.abs(y) + 0.125) + tl.exp(-tl.abs(x))
    tl.store(Out + i, tl.where(x > y, a * b, tl.fma(b, c, a)), mask=m)


@triton.jit
def divisions_kernel(X, Y, Out, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(X + i, mask=m, other=1.0)
    y = tl.load(Y + i, mask=m, other=1.0)
    tl.store(Out + i, x / 3.0, mask=m)
    tl.store(Out + n + i, x / 7, mask=m)
    tl.store(Out + 2 * n + i, x / B, mask=m)
    tl.store(Out + 3 * n + i, x / y, mask=m)
    tl.store(Out + 4 * n + i, x / s, mask=m)
    tl.store(Out + 5 * n + i, 1.0 / y, mask=m)


@triton.jit
def rows_kernel(X, Out, S, n, B: tl.constexpr):
    """Sums in the format of X: a total, one of products, prefixes."""
    r = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(X + r * n + i, mask=i < n, other=0.0)
    tl.store(S + 2 * r, tl.sum(x, 0))
    tl.store(S + 2 * r + 1, tl.sum(x * x, 0))
    tl.store(Out + r * n + i, tl.cumsum(x, 0), mask=i < n)


@triton.jit
def product_kernel(A, W, Out, K, ACC: tl.constexpr, HOW: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * 16 + tl.arange(0, 16)
    c = tl.arange(0, N)
    acc = tl.zeros((16, N), ACC)
    for k in range(0, K, B):
        i = k + tl.arange(0, B)
        a = tl.load(A + r[:, None] * K + i[None, :])
        w = tl.load(W + i[:, None] * N + c[None, :])
        acc += tl.dot(a, w, out_dtype=ACC, input_precision=HOW)
    tl.store(Out + r[:, None] * N + c[None, :], acc)


@triton.jit
def spread_kernel(X, At, Out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.atomic_add(Out + tl.load(At + i, mask=m, other=0), tl.load(X + i, mask=m, other=0.0), mask=m)


@triton.jit
def scale_kernel(X, Out, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i, mask=i < n) * s, mask=i < n)


@triton.jit
def quantise_kernel(X, Out, T, n, B: tl.constexpr):
    """Through fp8 and back, with the scale of the row."""
    r = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(X + r * n + i, mask=i < n, other=0.0)
    s = tl.max(tl.abs(x), 0) / 448.0 + 1e-6
    tl.store(Out + r * n + i, (x / s).to(tl.float8e5).to(tl.float32) * s, mask=i < n)
    tl.store(T + r, s)


def functions(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    functions_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), 64)
    half = torch.tanh(out) * 0.5 + torch.log1p(out.abs()) / 3
    functions_kernel[(triton.cdiv(x.numel(), 64),)](half, y.flip(0), out, x.numel(), 64)
    return out


def divisions(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = torch.empty(6, x.numel(), dtype=x.dtype), torch.empty(6, x.numel(), dtype=x.dtype)
    divisions_kernel[(triton.cdiv(x.numel(), 64),)](x, y, first, x.numel(), 1.7, 64)
    divisions_kernel[(triton.cdiv(x.numel(), 64),)](first.mean(0) / 6, y, second, x.numel(), 0.3, 64)
    return first, second


def rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, sums = torch.empty_like(x), torch.empty(len(x), 2, dtype=x.dtype)
    rows_kernel[(len(x),)](x, out, sums, x.shape[1], triton.next_power_of_2(x.shape[1]))
    out = out - out.mean(-1, keepdim=True)
    rows_kernel[(len(x),)](out, out, sums, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out, sums


def product(acc: tl.constexpr, how: str) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    wide = {"fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}

    def entry(a: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(a), w.shape[1], dtype=wide[str(acc)])
        product_kernel[(len(a) // 16,)](a, w, out, a.shape[1], acc, how, w.shape[1], 32)
        mixed = torch.softmax(out.float(), -1).to(a.dtype) @ v  # back to K columns
        again = torch.empty_like(out)
        product_kernel[(len(a) // 16,)](mixed, w, again, a.shape[1], acc, how, w.shape[1], 32)
        return again

    return entry


def spread(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Sums by group, their largest as a Python number, and a kernel that takes it."""
    sums, out = torch.zeros(8), torch.empty_like(x)
    spread_kernel[(triton.cdiv(len(x), 32),)](x, at, sums, len(x), 32)
    scale_kernel[(triton.cdiv(len(x), 64),)](x, out, 1.0 / (sums.abs().max().item() + 1.0), len(x), 64)
    return F.silu(out) + sums[at]


def tables(x: torch.Tensor) -> torch.Tensor:
    """Frequencies as a wrapper makes them, statistics of its own, and a normalisation between launches."""
    n = x.shape[1]
    angle = torch.outer(torch.arange(len(x)).float(), 10000.0 ** (-torch.arange(n).float() / n))
    table = torch.sin(angle) * torch.exp(-angle / 5) + torch.linspace(0.1, 0.9, n)
    out = torch.empty_like(x)
    functions_kernel[(triton.cdiv(x.numel(), 64),)](x, table.to(x.dtype), out, x.numel(), 64)
    out = F.layer_norm(out, (n,), torch.linspace(0.5, 1.5, n).to(x.dtype))
    out = F.gelu(out) / out.float().var(-1, keepdim=True, correction=0).add(0.01).sqrt().to(x.dtype)
    scale_kernel[(triton.cdiv(x.numel(), 64),)](out, out, 1 / 3, x.numel(), 64)
    return torch.log_softmax(out, -1) + torch.sigmoid(out).cumsum(-1)


def quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, scales = torch.empty_like(x), torch.empty(len(x))
    quantise_kernel[(len(x),)](x, out, scales, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out, scales


def zoo() -> Iterator[Foreign]:
    torch.manual_seed(13)

    def normal(*shape: int, to: torch.dtype = torch.float32, by: float = 1.0) -> torch.Tensor:
        return (torch.randn(*shape) * by).to(to)

    for to in FLOATS:
        name = str(to).rpartition(".")[2]
        yield Foreign(f"functions {name}", functions, (normal(150, to=to), normal(150, to=to)))
        yield Foreign(f"divisions {name}", divisions, (normal(150, to=to), normal(150, to=to, by=3.0)))
        yield Foreign(f"rows {name}", rows, (normal(5, 48, to=to),))
        yield Foreign(f"tables {name}", tables, (normal(6, 24, to=to),))
    for kind, acc, how in ((torch.float16, tl.float32, "ieee"), (torch.bfloat16, tl.float32, "ieee"),
                           (torch.float16, tl.float16, "ieee"), (torch.float32, tl.float32, "tf32"),
                           (torch.float32, tl.float32, "ieee"), (torch.float64, tl.float64, "ieee")):  # fmt: skip
        args = normal(32, 64, to=kind), normal(64, 32, to=kind), normal(32, 64, to=kind)
        yield Foreign(f"product {kind} {acc} {how}", product(acc, how), args)
    yield Foreign("spread", spread, (normal(100), torch.randint(0, 8, (100,), dtype=torch.int32)))
    yield Foreign("quantise", quantise, (normal(4, 50, by=2.0),))
    yield from sequences()
