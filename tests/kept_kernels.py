"""Cases of `kept_bounds`: kernels over the features of the language, with what is found, unknown and unwritten.

Of each output its bounds, what is written of it, the codes of what it is called unknown for and those of findings.
"""

# ruff: noqa: E741
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import kept_hosted
import numpy as np
import torch
import triton
import triton.language as tl
from kept_bounds import Cases
from triton.language.extra import libdevice

from interval_ops.profiles.profile import CAUSES
from render.interpreter.session import Session

N = 32


@triton.jit
def functions(X, Y, O, n, N: tl.constexpr):
    i = tl.arange(0, N)
    m = i < n
    x = tl.load(X + i, mask=m, other=1.0)
    y = tl.load(Y + i, mask=m)
    a = tl.abs(x) + 0.5
    tl.store(O + i, tl.exp(x) + tl.log(a) * tl.sqrt(a), mask=m)
    tl.store(O + N + i, tl.sin(x) * tl.cos(y) + tl.rsqrt(a), mask=m)
    tl.store(O + 2 * N + i, tl.exp2(x) / a + tl.log2(a) - tl.erf(x), mask=i < n + 3)
    tl.store(O + 3 * N + i, tl.sigmoid(x) + tl.fma(x, y, a) + tl.math.div_rn(x, a), mask=m)
    tl.store(O + 4 * N + i, tl.maximum(x, y) - tl.minimum(x, 0.25) + tl.clamp(x, -1.0, y), mask=m)
    tl.store(O + 5 * N + i, tl.floor(x) + tl.ceil(y) + tl.where(x > y, x, -y), mask=m)
    tl.store(O + 6 * N + i, libdevice.tanh(x) + libdevice.pow(a, y) + libdevice.atan2(x, a), mask=m)
    tl.store(O + 7 * N + i, x * x - y * x + (x - x) + (x / 3.0) % 0.75 + 2.0 / a)


@triton.jit
def types(X, O, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(O + i, x.to(tl.float16).to(tl.float32) + x.to(tl.bfloat16))
    tl.store(O + N + i, (x.to(tl.float16) * x.to(tl.float16)).to(tl.float32) + x.to(tl.float64))
    tl.store(O + 2 * N + i, x.to(tl.float8e5).to(tl.float32) - x.to(tl.int32))
    tl.store(O + 3 * N + i, x.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True) + (x > 0).to(tl.float32))
    tl.store(O + 4 * N + i, (i * 3 // 2 % 5 + (i << 2) - (i >> 1) + (i ^ 5) + (i & 6 | 1)).to(tl.float32) * 0.1)
    tl.store(O + 5 * N + i, tl.math.umulhi(i.to(tl.uint32) * 123456789, 987654321).to(tl.float32) + tl.cdiv(i, 3))
    tl.store(O + 6 * N + i, tl.floor(x).to(tl.int32) + i)
    tl.store(O + 7 * N + i, x.to(tl.float16, fp_downcast_rounding="rtz"))


@triton.jit
def _larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def _welford(m1, s1, w1, m2, s2, w2):
    d = m2 - m1
    w = w1 + w2
    r = tl.where(w == 0.0, 0.0, w2 / w)
    return m1 + d * r, s1 + s2 + d * d * w1 * r, w


@triton.jit
def _linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def _logsum(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, s1 * tl.exp(m1 - m) + s2 * tl.exp(m2 - m)


@triton.jit
def reductions(X, O, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    z = tl.reshape(x, (4, N // 4))
    tl.store(O, tl.sum(x))
    tl.store(O + 1, tl.max(x) - tl.min(x))
    tl.store(O + 2, tl.argmax(x, 0) + tl.argmin(x, 0))
    tl.store(O + 3, tl.sum(x * x) / N)
    tl.store(O + 4 + tl.arange(0, 4), tl.sum(z, 1))
    tl.store(O + 8 + tl.arange(0, N // 4), tl.max(z, 0))
    tl.store(O + 16, tl.reduce(x, 0, _larger))
    mean, m2, w = tl.reduce((x, x * 0.0, x * 0.0 + 1.0), 0, _welford)
    tl.store(O + 17, mean)
    tl.store(O + 18, m2 / w)
    m, s = tl.reduce((x, x * 0.0 + 1.0), 0, _logsum)
    tl.store(O + 19, m + tl.log(s))
    best, place = tl.max(x, 0, return_indices=True)
    tl.store(O + 20, best + place)
    tl.store(O + 21, tl.xor_sum((i * 7).to(tl.int32)))
    tl.store(O + 22, tl.sum(x.to(tl.float16)))
    tl.store(O + 23, tl.max(x - tl.max(x)))
    e = tl.exp(x - tl.max(x))
    tl.store(O + N + i, e / tl.sum(e))
    tl.store(
        O + 2 * N + i, (x - tl.sum(x) / N) * tl.rsqrt(tl.sum((x - tl.sum(x) / N) * (x - tl.sum(x) / N)) / N + 1e-5)
    )
    tl.store(O + 3 * N + i, tl.reshape(z / tl.sum(z, 0, keep_dims=True), (N,)))


@triton.jit
def scans(X, O, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(O + i, tl.cumsum(x))
    tl.store(O + N + i, tl.cumsum(x, reverse=True))
    tl.store(O + 2 * N + i, tl.cumprod(x * 0.125 + 1.0))
    tl.store(O + 3 * N + i, tl.associative_scan(x, 0, _larger))
    a, b = tl.associative_scan((x * 0.125, x), 0, _linear)
    tl.store(O + 4 * N + i, a + b)
    tl.store(O + 5 * N + i, tl.reshape(tl.cumsum(tl.reshape(x, (4, N // 4)), 1), (N,)))
    tl.store(O + 6 * N + i, tl.sort(x))
    tl.store(O + 7 * N + i, tl.flip(x) + tl.gather(x, (i * 5) % N, 0))


@triton.jit
def shapes(X, Y, O, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    y = tl.load(Y + i)
    j = tl.arange(0, 2 * N)
    tl.store(O + j, tl.interleave(x, y))
    tl.store(O + 2 * N + j, tl.reshape(tl.join(x, y), (2 * N,)))
    left, right = tl.split(tl.join(x, y * 2))
    tl.store(O + 4 * N + i, left - right)
    tl.store(O + 5 * N + i, tl.reshape(tl.trans(tl.reshape(x, (4, N // 4))), (N,)))
    tl.store(
        O + 6 * N + i, tl.reshape(x[:, None] * tl.full((1, 1), 3.0, tl.float32) + tl.zeros((1, 1), tl.float32), (N,))
    )
    tl.store(O + 7 * N + j, tl.cat(x, y, can_reorder=True))
    tl.store(O + 9 * N + tl.arange(0, 8), tl.histogram((i % 8).to(tl.int32), 8))


@triton.jit
def products(A, B, O, ACC: tl.constexpr, PRECISION: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, 16)
    acc = tl.zeros((16, 16), ACC)
    for k in range(0, K, 16):
        a = tl.load(A + i[:, None] * K + k + i[None, :])
        b = tl.load(B + (k + i[:, None]) * 16 + i[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
    acc += tl.load(B + i[None, :])
    tl.store(O + i[:, None] * 16 + i[None, :], acc * 0.5)


@triton.jit
def pointers(X, O, n, N: tl.constexpr):
    p = tl.program_id(0)
    block = tl.make_block_ptr(X, (n, 8), (8, 1), (p * 2, 0), (2, 8), (1, 0))
    x = tl.load(block, boundary_check=(0, 1), padding_option="zero")
    block = tl.advance(block, (1, 0))
    y = tl.load(block, boundary_check=(0,))
    out = tl.make_block_ptr(O, (n, 8), (8, 1), (p * 2, 0), (2, 8), (1, 0))
    tl.store(out, x + 0.1 * y, boundary_check=(0, 1))
    if p == 1:
        d = tl.make_tensor_descriptor(X, (4, 8), (8, 1), (2, 8))
        e = tl.make_tensor_descriptor(O + 8 * N, (4, 8), (8, 1), (2, 8))
        e.store([2, 0], d.load([1, 0]) * 3)


@triton.jit
def control(X, O, n, N: tl.constexpr):
    p = tl.program_id(0)
    s = tl.load(X + p)
    total = 0.0
    for k in range(n):
        total += tl.load(X + k) * s
    k = 0
    while k < n:
        total = total * 0.5 + k
        k += 2
    for k in tl.static_range(3):
        total += k * s
    if s > 1.0:
        total = total * 2
    elif s > 0.0:
        total = -total
    tl.store(O + p, total)
    tl.store(O + N + p, tl.where(s > 0.1, total, 0.0))
    tl.store(O + 2 * N + tl.load(X + p).to(tl.int32) % 4 + 8, s)
    if p < 2:
        tl.store(O + 3 * N + p, tl.load(X + tl.floor(s).to(tl.int32) % 4))


@triton.jit
def atomics(X, O, I, N: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.atomic_add(O + i % 4, x, mask=i < 20)
    tl.atomic_max(O + N + i % 3, x)
    tl.atomic_min(O + 2 * N + p, tl.sum(x))
    old = tl.atomic_add(I, 1)
    tl.store(O + 3 * N + old, tl.max(x) + p)
    tl.atomic_xchg(I + 1, p)
    tl.atomic_cas(I + 2, 0, p + 1)
    tl.atomic_or(I + 3, 1 << p)
    tl.atomic_and(I + 4, 7 - p)
    tl.atomic_add(O + 4 * N + p, 0.1)


@triton.jit
def faults(X, O, n, N: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(O + i, tl.load(X + i) * (p + 1))
    tl.store(O + N + i, tl.load(X + i, mask=i < n) + 1.0)
    tl.store(O + 2 * N + i, tl.load(O + 7 * N + i))
    tl.store(O + 3 * N + p, tl.load(O + 3 * N + 1 - p))
    tl.store(O + 4 * N + i, tl.load(X + i + n, mask=i + n < N, other=0.5))


@triton.jit
def drawn(O, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(O + i, tl.rand(seed, i))
    tl.store(O + N + i, tl.randn(seed, i) * 0.5)
    tl.store(O + 2 * N + i, tl.randint(seed, i) % 7)


def _data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, y = kept_hosted.data(torch.float32)
    return torch.cat([x.view(-1), x.view(-1)[:8]]), torch.cat([y.view(-1), y.view(-1)[:8]]), torch.full((16 * N,), 7.5)


def _with_bounds(session: Session, *tensors: torch.Tensor, width: float = 2.0**-8) -> None:
    for t in tensors:
        v = t.double().numpy()
        session.memory.carry(t, v - width * (np.abs(v) > 0.5), v + width, frozenset())


def _launch(session: Session, kernel: Any, programs: int, *args: Any) -> list[torch.Tensor]:
    x, y, out = _data()
    _with_bounds(session, x[:N])
    given = {"X": x, "Y": y, "O": out, "I": torch.zeros(8, dtype=torch.int32)}
    kernel[(programs,)](*(given.get(a, a) if isinstance(a, str) else a for a in args))
    return [out, given["I"]]


def _product(session: Session, dtype: torch.dtype, acc: Any, precision: str, wide: bool) -> list[torch.Tensor]:
    k = 48
    a = ((torch.arange(16 * k) * 7 % 31 - 15) / 8).view(16, k).to(dtype)
    b = ((torch.arange(16 * k) * 5 % 29 - 14) / 16).view(k, 16).to(dtype)
    if wide:
        _with_bounds(session, a)
    out = torch.empty(16, 16, dtype=torch.float16 if acc == tl.float16 else torch.float32)
    products[(1,)](a, b, out, acc, precision, k)
    return [out, out + 1]


def _pipeline(session: Session) -> list[torch.Tensor]:
    x, y, out = _data()
    functions[(1,)](x, y, out, N - 4, N)
    rows = out.view(16, N)
    middle = (rows[0] + rows[1] * rows[2]).clamp(-4, 4) * 0.3  # what every machine's torch rounds alike
    second = torch.empty(16 * N)
    reductions[(1,)](middle, second, N)
    scans[(1,)](second[N : 2 * N], out, N)
    out[:N] = second[:N] * 2
    types[(1,)](out, second, N)
    return [out, second, middle]


Run = Callable[[Session], list[torch.Tensor]]
RUNS: dict[str, Run] = {
    "functions": lambda s: _launch(s, functions, 1, "X", "Y", "O", N - 5, N),
    "types": lambda s: _launch(s, types, 1, "X", "O", N),
    "reductions": lambda s: _launch(s, reductions, 1, "X", "O", N),
    "reductions of points": lambda s: _launch(s, reductions, 1, "Y", "O", N),
    "scans": lambda s: _launch(s, scans, 1, "X", "O", N),
    "shapes": lambda s: _launch(s, shapes, 1, "X", "Y", "O", N),
    "pointers": lambda s: _launch(s, pointers, 2, "X", "O", 3, N),
    "control": lambda s: _launch(s, control, 4, "X", "O", 5, N),
    "control of points": lambda s: _launch(s, control, 4, "Y", "O", 5, N),
    "atomics": lambda s: _launch(s, atomics, 2, "X", "O", "I", N),
    "faults": lambda s: _launch(s, faults, 2, "X", "O", 5, N),
    "drawn": lambda s: _launch(s, drawn, 1, "O", 7, N),
    "pipeline": _pipeline,
    "product": lambda s: _product(s, torch.float16, tl.float32, "ieee", False),
    "product in fp16": lambda s: _product(s, torch.float16, tl.float16, "ieee", False),
    "product of bf16": lambda s: _product(s, torch.bfloat16, tl.float32, "ieee", True),
    "product of fp32": lambda s: _product(s, torch.float32, tl.float32, "ieee", True),
    "product in tf32": lambda s: _product(s, torch.float32, tl.float32, "tf32", True),
}


def _kept(run: Run, options: dict[str, Any]) -> object:
    found: list[Any] = []
    with Session(**options) as session:
        try:
            outs = run(session)
        except Exception as refusal:
            return [float(sum(map(ord, type(refusal).__name__ + getattr(refusal, "code", ""))))]
        for out in outs:
            found += kept_hosted.told(session, out)
    codes = sorted((f.code, f.count, f.line or 0) for f in session.findings)
    return [*found, *((int(code[3:]), count) for code, count, _ in codes), len(session.causes)]


TARGETS: dict[str, dict[str, Any]] = {
    "any": {"device": "any"}, "sm_90": {"device": "sm_90"}, "gfx942": {"device": "gfx942"},
    "sm_90 in trees": {"device": "sm_90", "sum_order": "tree"},
    "any without arithmetic": {"device": "any", "mute": frozenset({"arith", "accumulation"})},
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "values alone": {"device": "any", "interval": False}, "one program at a time": {"device": "any", "chunk": 1},
    "the other way": {"device": "any", "choice": 1}, "midpoints": {"device": "any", "choice": -1},
    "other numbers in lanes that are off": {"device": "any", "undefined": 3.0},
    "one of the programs": {"device": "any", "programs": 1},
    "nothing rounds": {"device": "any", "mute": frozenset(CAUSES)},
}  # fmt: skip
"""How a session may run, beside its target."""
CASES: Cases = {
    f"{name} on {target}": (partial(_kept, run, options), 2.0**-20 if "product" in name else 2.0**-36)
    for name, run in RUNS.items()
    for target, options in (TARGETS | WAYS).items()
}
