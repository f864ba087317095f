"""Programs for the foreign adversary whose kernels spell instructions, and whose host does much of the work between
launches: statistics and tables in other dtypes, numbers that leave torch as lists, quantisers, folded weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from foreign.attack import Foreign

SIGMOID = """{ .reg .f32 a, b;
    mul.f32 a, $1, 0fBFB8AA3B;
    ex2.approx.ftz.f32 b, a;
    add.f32 b, b, 1.0;
    rcp.approx.ftz.f32 $0, b; }"""
GELU = """{ .reg .f32 a, b;
    mul.f32 a, $1, $1;
    fma.rn.f32 a, a, 0f3D372713, 1.0;
    mul.f32 a, a, $1;
    mul.f32 a, a, 0f3F4C422A;
    tanh.approx.f32 b, a;
    add.f32 b, b, 1.0;
    mul.f32 b, b, 0.5;
    mul.f32 $0, b, $1; }"""
LENGTH = """{ .reg .f32 a;
    mul.f32 a, $1, $1;
    fma.rn.f32 a, $2, $2, a;
    sqrt.approx.f32 $0, a; }"""
ANGLE = "{ .reg .f32 a, b; sin.approx.f32 a, $1; cos.approx.f32 b, $2; div.full.f32 $0, a, b; }"
NORM = "{ .reg .f32 a; fma.rn.f32 a, $1, $1, 1.0; rsqrt.approx.ftz.f32 a, a; lg2.approx.f32 a, a; mul.f32 $0, a, $2; }"
DIRECTED = "{ .reg .f32 a; mul.rz.f32 a, $1, $2; add.rm.f32 a, a, $1; fma.rp.f32 $0, a, $2, $1; }"
PAIR = "{ .reg .b32 a; fma.rn.HALFx2 a, $1, $2, $1; tanh.approx.HALFx2 $0, a; }"
POWER = "{ .reg .b32 a; ex2.approx.HALFx2 a, $1; mul.HALFx2 $0, a, $2; }"


@triton.jit
def inline_kernel(X, Y, Out, n, TEXT: tl.constexpr, HOW: tl.constexpr, PACK: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=1.0)
    y = tl.load(Y + i, mask=i < n, other=1.0)
    to: tl.constexpr = Out.dtype.element_ty
    z = tl.inline_asm_elementwise(TEXT, HOW, [x, y], dtype=to, is_pure=True, pack=PACK)
    tl.store(Out + i, z, mask=i < n)


@triton.jit
def rotate_kernel(X, Cos, Sin, Out, n, H: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, H)
    a, b = tl.load(X + r * 2 * H + i), tl.load(X + r * 2 * H + H + i)
    c, s = tl.load(Cos + r * H + i), tl.load(Sin + r * H + i)
    tl.store(Out + r * 2 * H + i, a * c - b * s)
    tl.store(Out + r * 2 * H + H + i, b * c + a * s)


@triton.jit
def split_kernel(A, W, Out, K, PART: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    """One slice of K of a product, added to what the other programs add."""
    i = tl.program_id(0) * PART + tl.arange(0, PART)
    r, c = tl.arange(0, 16), tl.arange(0, N)
    a = tl.load(A + r[:, None] * K + i[None, :])
    w = tl.load(W + i[:, None] * N + c[None, :])
    tl.atomic_add(Out + r[:, None] * N + c[None, :], tl.dot(a, w, input_precision=HOW))


@triton.jit
def saturate_kernel(X, S, Out, n, B: tl.constexpr):
    """Beyond the largest number of the format, and below its smallest."""
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * n + i, mask=i < n, other=0.0).to(tl.float32) * tl.load(S + r)
    tl.store(Out + r * n + i, x.to(tl.float8e4nv).to(tl.float32), mask=i < n)


@triton.jit
def bias_kernel(X, Bias, Out, slope, n, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    x = x + slope * tl.load(Bias + i, mask=i < n, other=0.0)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(Out + r * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def wide_kernel(X, Out, n, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * n + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(Out + r * n + i, tl.exp(x * 0.9) * x - x * x * 0.37, mask=i < n)


@triton.jit
def shares_kernel(X, Out, n, B: tl.constexpr):
    """Quotients by own sums, of values that are made of each other."""
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * n + i).to(tl.float32)
    e, a, p = tl.exp(x - tl.max(x)), tl.abs(x), x * x
    y = e / tl.sum(e) + x / (tl.sum(a) + 1e-6) + p / tl.sum(p) + x * tl.math.rsqrt(tl.sum(p) / n + 1e-5)
    tl.store(Out + r * n + i, y)
    tl.store(Out + (r + tl.num_programs(0)) * n + i, x * 1.3 - tl.max(x * 1.3))


def shares(to: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    def entry(x: torch.Tensor) -> torch.Tensor:
        rows, n = x.shape
        narrow, out = torch.empty_like(x, dtype=to), torch.empty(2 * rows, n)
        wide_kernel[(rows,)](x, narrow, n, n)
        shares_kernel[(rows,)](narrow, out, n, n)
        return out

    return entry


def inline(text: str, how: str = "=f,f,f", pack: int = 1) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def entry(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out, again = torch.empty_like(x), torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 64),)
        inline_kernel[grid](x, y, out, x.numel(), text, how, pack, 64)
        mixed = (out.float().clamp(-2, 2) * 0.7 + x.float() / 5).to(x.dtype)
        inline_kernel[grid](mixed, y, again, x.numel(), text, how, pack, 64)
        return again

    return entry


def rotary(x: torch.Tensor) -> torch.Tensor:
    """Tables in float64 and in the input's dtype; the number of a norm leaves torch and comes back."""
    n, h = len(x), x.shape[1] // 2
    angles = torch.arange(n).double()[:, None] * 10000.0 ** (-torch.arange(h).double() / h)
    freqs = torch.exp(torch.arange(h).float() * (-math.log(500.0) / h))
    out = torch.empty_like(x)
    rotate_kernel[(n,)](x, angles.cos().to(x.dtype), angles.sin().to(x.dtype), out, n, h)
    scale = 1.0 / max(out.float().norm().item(), 1e-6)
    turned = torch.empty_like(x, dtype=torch.float32)
    rotate_kernel[(n,)](out.float() * scale, torch.cos(freqs).expand(n, h).contiguous(),
                        torch.sin(freqs).expand(n, h).contiguous(), turned, n, h)  # fmt: skip
    return turned


def folded(how: str) -> Callable[..., torch.Tensor]:
    """Batch norm folded into the weights of a product in slices of K, and its moments in half precision."""

    def entry(a: torch.Tensor, w: torch.Tensor, gamma: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        gain = gamma * torch.rsqrt(var + 1e-5)
        weight = (w.float() * gain).to(w.dtype)
        out = torch.zeros(16, w.shape[1])
        split_kernel[(a.shape[1] // 32,)](a, weight, out, a.shape[1], 32, w.shape[1], how)
        half = out.half()
        mean, mask = half.mean(0), (half > 0).float()
        again = torch.zeros_like(out)
        back = (F.softplus(out - mean.float()) * mask).to(w.dtype) @ w.t()
        split_kernel[(a.shape[1] // 32,)](back, weight, again, a.shape[1], 32, w.shape[1], how)
        return again

    return entry


def quantised(x: torch.Tensor) -> torch.Tensor:
    """Scales of rows, too small for some, and the mean of what came back as a number."""
    scales = 300.0 / x.float().abs().amax(-1)
    scales[::2] *= 4.0
    out = torch.empty_like(x, dtype=torch.float32)
    saturate_kernel[(len(x),)](x, scales, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    wide = out / scales[:, None]
    level = wide.abs().mean().item()
    second = torch.empty_like(out)
    saturate_kernel[(len(x),)](wide, torch.full((len(x),), 1.0 / level), second, x.shape[1], 64)
    return second * level


def slopes(x: torch.Tensor) -> torch.Tensor:
    """Each head has a slope that a list hands over, and a table of distances; what comes out feeds the next head."""
    n = x.shape[1]
    distance = -torch.arange(n).flip(0).to(torch.bfloat16).float() / 3
    total = x.float()
    for slope in torch.pow(2.0, -torch.arange(1, 4).float() * 8 / 3).tolist():
        out = torch.empty_like(total)
        bias_kernel[(len(x),)](total, distance, out, slope, n, triton.next_power_of_2(n))
        total = torch.logit(out.clamp(1e-4, 1 - 1e-4)) * 0.5 + out.cumsum(-1)
    return total


def sequences() -> Iterator[Foreign]:
    torch.manual_seed(29)

    def normal(*shape: int, to: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape).to(to)

    for name, text in (("sigmoid", SIGMOID), ("gelu", GELU), ("length", LENGTH), ("angle", ANGLE), ("norm", NORM),
                       ("directed", DIRECTED)):  # fmt: skip
        yield Foreign(f"inline {name}", inline(text), (normal(150), normal(150).clamp(-1.4, 1.4)))
    for half, to in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        flush = ".ftz" if half == "bf16" else ""
        for name, text in (("pair", PAIR), ("power", POWER.replace("approx.", f"approx{flush}."))):
            args = normal(128, to=to), normal(128, to=to)
            yield Foreign(f"inline {name} {half}", inline(text.replace("HALF", half), "=r,r,r", 2), args)
    for to in (torch.float32, torch.float16, torch.bfloat16):
        kind = str(to).rpartition(".")[2]
        yield Foreign(f"rotary {kind}", rotary, (normal(6, 32, to=to),))
        yield Foreign(f"slopes {kind}", slopes, (normal(4, 40, to=to),))
        yield Foreign(f"quantised {kind}", quantised, (normal(4, 50, to=to),))
    for to in (torch.bfloat16, torch.float8_e5m2):
        yield Foreign(f"shares {str(to).rpartition('.')[2]}", shares(to), (normal(8, 32),))
    for to, how in ((torch.float32, "tf32"), (torch.float16, "ieee"), (torch.bfloat16, "ieee")):
        args = normal(16, 128, to=to), normal(128, 32, to=to), normal(32), torch.rand(32)
        yield Foreign(f"folded {str(to).rpartition('.')[2]}", folded(how), args)
