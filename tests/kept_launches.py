"""Cases of `kept_bounds`: launches of many programs, integers that bounds leave open, reductions of every type, and
host code around kernels. As `kept_kernels`."""

# ruff: noqa: E741
from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from kept_bounds import Cases
from kept_kernels import TARGETS, WAYS, N, Run, _data, _kept, _launch, _linear, _with_bounds, products

from render.interpreter.session import Session


@triton.jit
def _either(a, b):
    return a | b


@triton.jit
def _last(a, b):
    return b


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def kinds(X, O, I, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    k = (x * 2).to(tl.int32)
    positive = x > 0.25
    tl.store(O, tl.sum(positive.to(tl.int32)) + tl.max(k) - tl.min(k) + tl.sum(k))
    tl.store(O + 1, tl.reduce(positive, 0, _either).to(tl.float32))
    tl.store(O + 2, tl.reduce(x * 0.25 + 1.0, 0, _times))
    tl.store(O + 3, tl.argmax(k, 0) + tl.argmin(positive.to(tl.int32), 0))
    tl.store(O + 4 + tl.arange(0, N // 2), tl.sum(tl.reshape(x, (N // 2, 2)), 1))
    tl.store(O + N + i, tl.associative_scan(x * 0.25 + 1.0, 0, _times, reverse=True))
    a, b = tl.associative_scan((x * 0.125, x), 0, _linear, reverse=True)
    tl.store(O + 2 * N + i, a - b)
    tl.store(O + 3 * N + i, tl.cumsum(k) + tl.cumprod((k & 1) + 1, reverse=True))
    tl.store(O + 4 * N + i, tl.associative_scan(positive.to(tl.int32), 0, _either))
    tl.store(O + 5 * N + i, tl.associative_scan(k, 0, _last))
    half = x.to(tl.float16)
    tl.store(O + 6 * N + i, tl.cumsum(half) + tl.sum(half.to(tl.float64)))
    tl.store(O + 7 * N + i, tl.sort(k) + tl.max(tl.reshape(k, (N // 4, 4)), 1, keep_dims=True).to(tl.float32).sum())
    tl.store(I + i % 8, k + (k // 3) * 2 - k % 5, mask=i < 8)


@triton.jit
def open_integers(X, O, I, N: tl.constexpr):
    """Some x lie about an integer or a half: what they become is open."""
    i = tl.arange(0, N)
    x = tl.load(X + i)
    k = tl.floor(x + 0.5).to(tl.int32)
    tl.store(O + i, k)
    tl.store(O + N + i, k * 2 + 1 - (k // 2) % 3)
    tl.store(O + 2 * N + i, tl.where(k > 0, x, -x))
    tl.store(O + 3 * N + i, tl.load(X + tl.maximum(tl.minimum(k, 7), 0)))
    tl.store(O + 4 * N + tl.maximum(tl.minimum(k, 7), 0) * 4 + i % 4, x)
    tl.store(O + 6 * N + i, (k & 3 | 4) ^ 1, mask=k < 2)
    tl.store(O + 7 * N + i, tl.abs(k) + (k << 1) - (k >> 1) + (-k) + (~k) + (k == 1).to(tl.int32) + k.to(tl.int8))
    tl.store(O + 8 * N + i, tl.load(X + i, mask=k >= 0, other=0.5))
    tl.store(O + 9 * N + i, (x > 0) & (x < 1) | (x == 2.0))
    tl.store(O + 10 * N + i, k.to(tl.float32) / 3.0 + tl.cast(k, tl.float16))
    tl.atomic_add(I + tl.maximum(tl.minimum(k, 7), 0), 1)
    if tl.sum(k) > 3:
        tl.store(O + 12 * N + i, x)
    tl.store(O + 13 * N + i, tl.where(x > 0, i, k) * 0.5)


@triton.jit
def many(X, Y, O, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    width = tl.num_programs(1) * BLOCK
    i = column * BLOCK + tl.arange(0, BLOCK)
    best = -float("inf")
    total = tl.zeros((BLOCK,), tl.float32)
    norm = 0.0
    for start in range(n):
        x = tl.load(X + (start * 3 + row) % 8 + i % 8)
        top = tl.maximum(best, tl.max(x))
        share = tl.exp(best - top)
        e = tl.exp(x - top)
        norm = norm * share + tl.sum(e)
        total = total * share + e * tl.load(Y + i % 16)
        best = top
    tl.store(O + row * width + i, total / norm, mask=i < width - 1)
    if column == 0:
        tl.store(O + 8 * 32 + row, best + tl.log(norm))


@triton.jit
def statistics(X, O, N: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    x = tl.load(X + p + i % 8)
    mean = tl.sum(x, 0) / N
    square = tl.sum(x * x, 0) / N - mean * mean
    d = x - mean
    var = tl.sum(d * d, 0) / (N - 1)
    tl.store(O + p * N + i, d / tl.sqrt(var + 1e-3) * 0.5 + 0.25)
    tl.store(O + 8 * N + p, tl.maximum(square, 0.0))
    s = 0.0
    c = 0.0
    for k in range(8):
        y = tl.load(X + p + k) - c
        t = s + y
        c = (t - s) - y
        s = t
    tl.store(O + 9 * N + p, s)
    tl.store(O + 10 * N + p * 4 + tl.arange(0, 4), tl.cumsum(tl.reshape(x, (4, N // 4)).sum(1)) / s)


@triton.jit
def narrow(X, O, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    for_bytes = (x * 20).to(tl.int8)
    tl.store(O + i, x.to(tl.float8e4nv).to(tl.float32) + for_bytes)
    tl.store(O + N + i, (x * 100).to(tl.float8e4nv).to(tl.float16))
    tl.store(O + 2 * N + i, (x * 3e4).to(tl.float16).to(tl.float32) * 0.5)
    tl.store(O + 3 * N + i, tl.exp(x.to(tl.float16).to(tl.float32)).to(tl.bfloat16))
    tl.store(O + 4 * N + i, (x.to(tl.bfloat16) * 1.5 + 0.1).to(tl.float32))
    tl.store(O + 5 * N + i, tl.math.rsqrt(tl.abs(x.to(tl.float64)) + 1) + tl.math.exp(x.to(tl.float64)))
    tl.store(O + 6 * N + i, tl.sqrt_rn(tl.abs(x)) + (x / 7).to(tl.float16) - 1.0 / 3)
    tl.store(O + 7 * N + i, (x * 1e38) * 10 - x.to(tl.uint8) + float("inf") * (i > 40))


def _both(session: Session, dtype: torch.dtype, precision: str) -> list[torch.Tensor]:
    """Either operand with bounds, and both."""
    outs = []
    for which in ("a", "b", "ab"):
        a, b = (((torch.arange(16 * 32) * k % 31 - 15) / 8).to(dtype) for k in (7, 5))
        _with_bounds(session, *(t for name, t in (("a", a.view(16, 32)), ("b", b.view(32, 16))) if name in which))
        outs.append(torch.empty(16, 16))
        products[(1,)](a, b, outs[-1], tl.float32, precision, 32)
    return outs


def _around(session: Session) -> list[torch.Tensor]:
    """Tensors as people make them for a device, numbers that leave, results taken up again."""
    x, y, out = _data()
    _with_bounds(session, x)
    drawn = torch.rand(4, generator=torch.Generator("cuda").manual_seed(3))
    made = [torch.ones(N, device="cuda") * 0.3, drawn * 0, torch.arange(N, device="cuda:0") / 7]
    made += [torch.zeros_like(x).cuda(), x.to("cuda", torch.float16).cpu()]
    scale = 1.0 / max(float(x.abs().max()), 1e-6)
    statistics[(4,)](x * scale, out, N)
    again = torch.empty(8 * N)
    many[2, 2](out, y, again, 5, 16)
    picked = again[: 2 * N][out[: 2 * N] > 0.2]
    again[:4] += out[:4] / scale
    index = out[:8].argsort()
    return [*made, out, again, picked.sum(), again[index], again.view(8, N).softmax(1) @ out.view(16, N)[:8].T]


RUNS: dict[str, Run] = {
    "kinds": lambda s: _launch(s, kinds, 1, "X", "O", "I", N),
    "kinds of points": lambda s: _launch(s, kinds, 1, "Y", "O", "I", N),
    "open integers": lambda s: _launch(s, open_integers, 1, "X", "O", "I", N),
    "integers": lambda s: _launch(s, open_integers, 1, "Y", "O", "I", N),
    "statistics": lambda s: _launch(s, statistics, 4, "X", "O", N),
    "narrow": lambda s: _launch(s, narrow, 1, "X", "O", N),
    "around": _around,
    "either operand": partial(_both, dtype=torch.float32, precision="tf32"),
    "either operand in fp16": partial(_both, dtype=torch.float16, precision="ieee"),
}


def _many(session: Session) -> list[torch.Tensor]:
    x, y, out = _data()
    _with_bounds(session, x[:16])
    many[3, 2](x, y, out, 4, 16)
    return [out]


RUNS["many"] = _many
WITHOUT: dict[str, dict[str, Any]] = (
    TARGETS | WAYS | {"any with no contraction": {"device": "any", "fp_contraction": "off"}}
)
WITHIN = dict.fromkeys(("either operand", "either operand in fp16", "around"), 2.0**-18)
"""Where products of float32 are bounded in float32: the order of their sums is the processor's."""
CASES: Cases = {
    f"{name} on {target}": (
        partial(_kept, run, options),
        WITHIN.get(name, 2.0**-36),
    )
    for name, run in RUNS.items()
    for target, options in WITHOUT.items()
}
