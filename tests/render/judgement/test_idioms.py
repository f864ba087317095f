"""A hundred ways to write a reference, and four wrong outputs against each: none is Type-I, the right one is no bug.

The host computes the idiom and a kernel hands it on: as it is, or zeros, turned around, shifted by one, 1 % larger.
"""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from tests.verdicts import classify

F = torch.nn.functional
INF = float("inf")
ROWS, COLS = 6, 20
WRONG = {"zeros": 1, "permuted": 2, "off by one": 3, "scaled by 1.01": 4}


@triton.jit
def handing(Y, Out, n, HOW: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = n - 1 - i if HOW == 2 else (i + 1) % n if HOW == 3 else i
    y = tl.load(Y + at, mask=i < n, other=0.0).to(tl.float32)
    if HOW == 1:
        y = y * 0
    if HOW == 4:
        y = y * 1.01
    tl.store(Out + i, y.to(Out.dtype.element_ty), mask=i < n)


def handed(idiom, how):
    def entry(*args):
        y = idiom(*args).contiguous()
        out = torch.empty_like(y)
        handing[(1,)](y, out, y.numel(), how, triton.next_power_of_2(y.numel()))
        return out

    return entry


def mask(x):
    return torch.where(torch.arange(x.shape[-1]) < 13, 0.0, -INF).to(x.dtype)


def causal(x):
    return torch.full((x.shape[0],) * 2, -INF, dtype=x.dtype).triu(1)


def online(x):
    m, s = (torch.full((len(x),), v, dtype=x.dtype) for v in (-INF, 0.0))
    for part in (x + mask(x)).split(5, 1):
        new = torch.maximum(m, part.amax(1))
        s, m = s * torch.exp(m - new) + torch.exp(part - new[:, None]).sum(1), new
    return m + torch.log(s)


def welford(x):
    mean, square = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
    for i in range(x.shape[1]):
        d = x[:, i] - mean
        mean = mean + d / (i + 1)
        square = square + d * (x[:, i] - mean)
    return square / x.shape[1]


def rotated(x):
    a, b = x.chunk(2, -1)
    turn = torch.arange(a.shape[-1], dtype=x.dtype) / 10
    return torch.cat([a * turn.cos() - b * turn.sin(), b * turn.cos() + a * turn.sin()], -1)


def attended(q, k, **how):
    return F.scaled_dot_product_attention(q[None, None], k[None, None], k[None, None], **how)[0, 0]


def slope(fn):
    def run(x):
        z = x.detach().requires_grad_(True)
        return torch.autograd.grad(fn(z).sum(), z)[0]

    return run


ONE = {
    "exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus, "relu": torch.relu, "elu": F.elu,
    "mish": F.mish, "erf": torch.erf, "log1p abs": lambda x: torch.log1p(x.abs()), "sin": torch.sin,
    "rsqrt": lambda x: torch.rsqrt(x * x + 1), "power": lambda x: x**3 + x, "clamp": lambda x: x.clamp(-1, 1) + x,
    "leaky": lambda x: F.leaky_relu(x, 0.1), "hardswish": F.hardswish, "logsigmoid": F.logsigmoid, "exp2": torch.exp2,
    "where": lambda x: torch.where(x > 0, x * 2, x.exp()), "exp log relu": lambda x: (x.relu().log()).exp() + x,
    "softmax": lambda x: torch.softmax(x, -1), "softmax 0": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, -1), "softmax + mask": lambda x: torch.softmax(x + mask(x), -1) + x,
    "masked_fill": lambda x: torch.softmax(x.masked_fill(mask(x) < 0, -INF) * 0.5, -1) + x,
    "by hand": lambda x: (lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x - x.amax(-1, keepdim=True))),
    "logsumexp": lambda x: torch.logsumexp(x, -1), "logsumexp mask": lambda x: torch.logsumexp(x + mask(x), -1),
    "online": online, "welford": welford, "var": lambda x: x.var(-1), "std": lambda x: x.std(-1, correction=0),
    "mean": lambda x: x.mean(-1), "sum": lambda x: x.sum(-1), "sum 0": lambda x: x.sum(0), "amax": lambda x: x.amax(-1),
    "norm": lambda x: x.norm(dim=-1), "normalize": lambda x: F.normalize(x, dim=-1), "cumsum": lambda x: x.cumsum(-1),
    "prod": lambda x: (1 + x / 10).prod(-1), "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]), "group_norm": lambda x: F.group_norm(x[None], 2)[0],
    "by hand norm": lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt(),
    "rotary": rotated, "glu": F.glu, "matmul": lambda x: x @ x.T, "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "bmm": lambda x: torch.bmm(x[None], x.T[None])[0], "linear": lambda x: F.linear(x, x[:4], x[:4, 0]),
    "outer": lambda x: x[:, :1] * x[:1], "cross": lambda x: F.cross_entropy(x, torch.arange(len(x)), reduction="none"),
    "huber": lambda x: F.huber_loss(x, x.flip(0), reduction="none") + x, "sdpa": lambda x: attended(x, x),
    "mse": lambda x: F.mse_loss(x, x.roll(1, 0) * 2, reduction="none"),
    "sdpa causal": lambda x: attended(x, x.flip(1), is_causal=True),
    "sdpa mask": lambda x: attended(x, x, attn_mask=causal(x)),
    "attention": lambda x: torch.softmax(x @ x.T / math.sqrt(COLS) + causal(x), -1) @ x,
    "tril": lambda x: (x @ x.T).tril() @ x, "conv": lambda x: F.conv1d(x[:, None], x[:1, None, :3])[:, 0],
    "pool": lambda x: F.avg_pool1d(x[None], 2)[0], "slope of gelu": slope(F.gelu), "slope of silu": slope(F.silu),
    "slope of softmax": slope(lambda z: torch.softmax(z, -1)[:, :3] * 7),
    "double": lambda x: (x.double() * 2).to(x.dtype),
    "slope of layer_norm": slope(lambda z: F.layer_norm(z, z.shape[-1:]) ** 3),
    "stack": lambda x: torch.stack([x, -x], 1),
    "index": lambda x: x[torch.tensor([5, 1, 1, 0])], "scatter": lambda x: x.scatter_add(1, (x > 0).long(), x),
    "lerp": lambda x: torch.lerp(x, x.flip(1), 0.3), "addcmul": lambda x: torch.addcmul(x, x, x.flip(0), value=0.5),
    "sort": lambda x: x.sort(-1).values, "triangular": lambda x: torch.tril(x[:, :6] + 1) + x[:, :6],
    "item": lambda x: x * float(x.shape[1]),
    "kl": lambda x: F.kl_div(x.log_softmax(-1), x.softmax(0), reduction="none"),
}  # fmt: skip
HALF = [name for name in ONE if not name.startswith(("slope", "conv", "prod", "kl", "sort", "cumsum"))][:25]
IDIOMS = {**ONE, **{f"{name}, bfloat16()": lambda x, fn=ONE[name]: fn(x).bfloat16() for name in HALF}}
FEW = ("sdpa causal", "layer_norm", "gelu, bfloat16()", "matmul", "online", "welford")


def data():
    return torch.randn(ROWS, COLS, generator=torch.Generator().manual_seed(0)) + 0.1


def check(name):
    x, idiom = data(), IDIOMS[name]
    assert classify(handed(idiom, 0), x, ref=idiom, budget=False).label != "Type-II"
    for wrong, how in WRONG.items():
        v = classify(handed(idiom, how), x, ref=idiom, budget=False)
        assert v.label != "Type-I", (wrong, v.code, v.message)


@pytest.mark.parametrize("name", FEW)
def test_a_sample(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in IDIOMS if n not in FEW])
def test_the_rest(name):
    check(name)


def test_there_are_a_hundred():
    assert len(IDIOMS) >= 100
