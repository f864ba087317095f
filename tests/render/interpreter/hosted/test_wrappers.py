"""Wrapper code before, between and after kernels: correct programs are round-off, faulty twins are not.

Programs are made of a kernel and of what wrappers commonly compute in torch: tables, norms, scatters, attention. The
reference is the same program with a formula in the kernel's place, so whatever the wrapper rounds is on both sides.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from tests.verdicts import classify

ROWS, COLUMNS = 8, 16


@triton.jit
def _product_and_sum(x_ptr, t_ptr, y_ptr, n, fault, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(x_ptr + i, m, other=0.0).to(tl.float32)
    t = tl.load(t_ptr + i, m, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, (x * t + x) * (1.0 + fault * (i % 3)), m)


@triton.jit
def _shift(x_ptr, y_ptr, n, k, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(y_ptr + i, tl.load(x_ptr + (i + k) % n, m, other=0.0), m)


class Kernel:
    """x t + x, or a movement of elements; with a fault of 5 % in two of three elements, or by another step."""

    def __init__(self, faulty: bool) -> None:
        self.faulty = faulty

    def product(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x, t = x.contiguous(), t.to(x.dtype).expand_as(x).contiguous()
        y = torch.empty_like(x)
        _product_and_sum[(triton.cdiv(x.numel(), 64),)](x, t, y, x.numel(), 0.05 if self.faulty else 0.0, 64)
        return y

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        _shift[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), 2 if self.faulty else 1, 64)
        return y


class Formula:
    def product(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return x * t.to(x.dtype) + x

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1).roll(-1).reshape(x.shape)


def drawn(*shape: int, seed: int = 7) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


W, FILTER = drawn(COLUMNS, COLUMNS), drawn(ROWS, ROWS, 3)
PLACES = torch.randint(0, ROWS, (ROWS,), generator=torch.Generator().manual_seed(3))
EVERYWHERE = PLACES[:, None].expand(ROWS, COLUMNS)


def rotary(x: torch.Tensor) -> torch.Tensor:
    inverse = 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))
    angle = torch.outer(torch.arange(ROWS).float(), inverse)
    return torch.cat([angle.cos(), angle.sin(), angle.cos(), angle.sin()], -1)


def sinusoidal(x: torch.Tensor) -> torch.Tensor:
    place, table = torch.arange(ROWS)[:, None], torch.zeros(ROWS, COLUMNS)
    divisor = torch.exp(torch.arange(0, COLUMNS, 2) * (-math.log(10000.0) / COLUMNS))
    table[:, 0::2], table[:, 1::2] = torch.sin(place * divisor), torch.cos(place * divisor)
    return table


def gradient(x: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(leaf.softmax(-1).pow(2).sum(), leaf)[0]


TABLES: dict[str, Callable[..., torch.Tensor]] = {
    "rotary": rotary, "sinusoidal": sinusoidal, "linspace": lambda x: torch.linspace(0, 1, COLUMNS),
    "logspace": lambda x: torch.logspace(-2, 1, COLUMNS), "hann": lambda x: torch.hann_window(COLUMNS),
    "over": lambda x: torch.arange(COLUMNS) / 7, "decay": lambda x: 0.9 ** torch.arange(COLUMNS),
    "steps": lambda x: torch.arange(0, 1.6, 0.1), "powers": lambda x: torch.cumprod(torch.full((COLUMNS,), 0.9), 0),
    "numpy": lambda x: torch.from_numpy(np.cos(np.arange(COLUMNS) / 3).astype(np.float32)),
    "roots": lambda x: torch.arange(1, COLUMNS + 1).sqrt(), "waves": lambda x: torch.arange(COLUMNS).sin(),
}  # fmt: skip
"""Made of no input."""
STEPS: dict[str, Callable[..., torch.Tensor]] = {
    "exp": torch.exp, "softmax": lambda x: x.softmax(-1), "cumsum": lambda x: x.cumsum(0), "tanh": torch.tanh,
    "sqrt": lambda x: x.abs().sqrt(), "pow": lambda x: x.abs() ** 1.7, "cube": lambda x: x**3, "gelu": F.gelu,
    "layer_norm": lambda x: F.layer_norm(x, (COLUMNS,)), "matmul": lambda x: x @ W.to(x.dtype), "erf": torch.erf,
    "rsqrt": lambda x: torch.rsqrt(x * x + 1e-5), "sigmoid": torch.sigmoid, "tenth": lambda x: x * 0.1,
    "third": lambda x: x / 3.0, "half": lambda x: x.half().to(x.dtype), "lerp": lambda x: torch.lerp(x, x.flip(0), 0.3),
    "mean": lambda x: x - x.mean(-1, keepdim=True), "norm": lambda x: F.normalize(x, dim=-1),
    "std": lambda x: (x - x.mean(0)) / x.std(0), "rms": lambda x: F.rms_norm(x, (COLUMNS,), eps=1e-6),
    "index_add": lambda x: torch.zeros_like(x).index_add_(0, PLACES, x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(0, EVERYWHERE, x),
    "index_put": lambda x: torch.zeros_like(x).index_put_((PLACES,), x, accumulate=True),
    "scatter_mean": lambda x: torch.zeros_like(x).scatter_reduce(0, EVERYWHERE, x, "mean"),
    "scatter_max": lambda x: x.scatter_reduce(0, EVERYWHERE, x, "amax"), "log": lambda x: (x.abs() + 0.1).log(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None])[0], "gradient": gradient,
    "logsumexp": lambda x: x - x.logsumexp(-1, keepdim=True),
    "conv": lambda x: F.conv1d(x[None], FILTER.to(x.dtype), padding=1)[0],
    "absmax": lambda x: x / x.abs().amax(-1, keepdim=True),
    "linear": lambda x: F.linear(x, W.to(x.dtype), W[0].to(x.dtype)),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, W.to(x.dtype)), "polynomial": lambda x: (x * 0.1 + 0.2) * x + 0.3,
    "interpolate": lambda x: F.interpolate(x[None], scale_factor=2, mode="linear")[0][:, ::2],
    "atan2": lambda x: torch.atan2(x, x + 1), "prod": lambda x: x * (x * 0.5).prod(0),
    "var": lambda x: x - x.var(-1, keepdim=True),
    "smooth": lambda x: F.smooth_l1_loss(x, x.flip(0), reduction="none"),
    "logit": lambda x: torch.logit(x.sigmoid() * 0.8 + 0.1),
}  # fmt: skip
"""(8, 16) to (8, 16)."""
UNRULED = {
    "singular": lambda x: x * torch.linalg.svdvals(x.float())[0].to(x.dtype),
    "inverse": lambda x: x @ torch.linalg.inv(W + 8 * torch.eye(COLUMNS)).to(x.dtype),
    "digamma": lambda x: torch.digamma(x.float().abs() + 1).to(x.dtype),
    "zeta": lambda x: torch.special.zeta(x.float().abs() + 2, torch.ones(())).to(x.dtype),
}
"""No sound rule: never a verdict that rests on their results."""


def before(step: Any) -> Callable[[Any], Callable[..., torch.Tensor]]:
    return lambda k: lambda x: k.product(x, step(x))


def between(step: Any) -> Callable[[Any], Callable[..., torch.Tensor]]:
    return lambda k: lambda x: k.product(x, step(k.shifted(x)))


def after(step: Any) -> Callable[[Any], Callable[..., torch.Tensor]]:
    return lambda k: lambda x: step(k.product(x, x))


def after_a_movement(step: Any) -> Callable[[Any], Callable[..., torch.Tensor]]:
    return lambda k: lambda x: step(k.shifted(x))


PLACEMENTS = {"before": before, "between": between, "after": after, "moved": after_a_movement}


def judged(program: Any, dtype: torch.dtype, faulty: bool = False, seed: int = 1) -> Any:
    x = drawn(ROWS, COLUMNS, seed=seed).to(dtype)
    return classify(program(Kernel(faulty)), x, ref=program(Formula()), budget=False)


def chain(seed: int) -> Callable[[Any], Callable[..., torch.Tensor]]:
    """A program of two kernels with two steps before, one between and one after them."""
    choose = random.Random(seed).choice
    mild = [n for n in STEPS if n not in ("cube", "exp", "prod", "std", "gradient", "logit", "log", "rsqrt")]
    one, two, three, last = (STEPS[choose(mild)] for _ in range(4))
    table = TABLES[choose(list(TABLES))]

    def program(k: Any) -> Callable[..., torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            y = k.product(one(x), table(x))
            return last(k.product(three(y), two(x)))

        return run

    return program


def programs() -> list[Any]:
    """Every step in every place, a sample of it quick."""
    every = [(f"{place}-{name}", put(step)) for place, put in PLACEMENTS.items() for name, step in STEPS.items()]
    every += [(f"before-{name}", before(step)) for name, step in TABLES.items()]
    return [pytest.param(p, id=n, marks=[] if i % 9 == 0 else pytest.mark.slow) for i, (n, p) in enumerate(every)]


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("program", programs())
def test_a_correct_program_is_round_off_and_a_faulty_one_is_not(program, dtype):
    verdict = judged(program, dtype)
    assert verdict.label == "Type-I", verdict
    assert judged(program, dtype, faulty=True).label != "Type-I"


@pytest.mark.parametrize("place", PLACEMENTS)
@pytest.mark.parametrize("name", UNRULED)
def test_what_has_no_rule_is_a_taint(name, place):
    program = PLACEMENTS[place](UNRULED[name])
    verdict = judged(program, torch.float32)
    assert (verdict.label, verdict.code) == ("Inconclusive", "RND302")
    assert judged(program, torch.float32, faulty=True).label != "Type-I"


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[] if s < 3 else pytest.mark.slow) for s in range(40)])
def test_a_chain_of_steps(seed):
    program = chain(seed)
    verdict = judged(program, torch.float32, seed=seed)
    assert verdict.label != "Type-II", verdict
    assert judged(program, torch.float32, faulty=True, seed=seed).label != "Type-I"


@triton.jit
def polar_kernel(r, a, out, sign, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(r + i, mask=i < n, other=0.0), tl.load(a + i, mask=i < n, other=0.0)
    tl.store(out + 2 * i, x * tl.cos(y), mask=i < n)
    tl.store(out + 2 * i + 1, sign * x * tl.sin(y), mask=i < n)


@pytest.mark.parametrize("complex_first", [False, True])
@pytest.mark.parametrize(("sign", "label"), [(1.0, "Type-I"), (-1.0, "Type-II")])
def test_a_complex_result_of_a_kernel_is_judged_by_both_parts(sign, label, complex_first):
    def polar(r, a):
        pairs = torch.empty(r.numel(), dtype=torch.complex64) if complex_first else torch.empty(r.numel(), 2)
        polar_kernel[(1,)](r, a, torch.view_as_real(pairs) if complex_first else pairs, sign, r.numel(), 64)
        return pairs if complex_first else torch.view_as_complex(pairs)

    verdict = classify(polar, torch.rand(50), torch.rand(50) + 0.1, ref=torch.polar)
    assert verdict.label == label
