"""What a wrapper computes from a kernel's output is judged afterwards: common operations, end to end."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from tests.verdicts import classify

N = 64


@triton.jit
def _activate(x_ptr, y_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    x = tl.load(x_ptr + i).to(tl.float32)
    tl.store(y_ptr + i, 1.0 + tl.exp(-x * x))


def kernel(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _activate[(1,)](x, y, N)
    return y


def reference(x: torch.Tensor) -> torch.Tensor:
    return 1.0 + torch.exp(-x * x)


W = torch.randn(8, 8, generator=torch.Generator().manual_seed(7))
OPERATIONS: dict[str, Any] = {
    "sqrt": torch.sqrt, "exp": torch.exp, "sigmoid": torch.sigmoid, "silu": F.silu, "rsqrt": torch.rsqrt,
    "matmul": lambda y: y @ W.to(y.dtype), "linear": lambda y: F.linear(y, W.to(y.dtype), W[0].to(y.dtype)),
    "softmax": lambda y: F.softmax(y, -1), "layer_norm": lambda y: F.layer_norm(y, (8,)),
    "sort": lambda y: y.sort(-1).values, "cumsum": lambda y: y.cumsum(-1), "max": lambda y: y.max(-1).values,
    "topk": lambda y: y.topk(3, -1).values, "square": lambda y: y**2, "nan_to_num": torch.nan_to_num,
    "mean": lambda y: y.mean(-1), "diagonal": lambda y: y.diagonal() + 1, "gelu": F.gelu, "tanh": torch.tanh,
    "log_softmax": lambda y: F.log_softmax(y, -1), "rms_norm": lambda y: F.rms_norm(y, (8,), eps=1e-6),
    "group_norm": lambda y: F.group_norm(y[None], 2, eps=1e-3), "logsumexp": lambda y: y.logsumexp(-1),
    "var": lambda y: y.var(-1), "norm": lambda y: y.norm(dim=-1), "where": lambda y: torch.where(y > 0, y, -y),
    "einsum": lambda y: torch.einsum("ij,kj->ik", y, W.to(y.dtype)), "in place": lambda y: y.exp_().mul_(0.5),
    "argmax": lambda y: y.gather(-1, y.argmax(-1, keepdim=True)), "prod": lambda y: y.prod(-1),
    "masked": lambda y: y.masked_fill(torch.eye(8, dtype=torch.bool), 0.0).tril(),
    "softshrink": lambda y: F.softshrink(y, 0.3), "mse": lambda y: F.mse_loss(y, W.to(y.dtype)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_on_a_kernel_s_output(name, dtype):
    operation = OPERATIONS[name]
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    verdict = classify(lambda x: operation(kernel(x)), x, ref=lambda x: operation(reference(x)), budget=False)
    assert (verdict.label, verdict.code != "RND302") == ("Type-I", True), verdict


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "matmul", "gelu", "sort", "cumsum"])
def test_a_wrong_kernel_is_still_found_behind_it(name):
    operation = OPERATIONS[name]
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    wrong = lambda x: operation(reference(x) * (1 + 0.05 * W))  # noqa: E731
    verdict = classify(lambda x: operation(kernel(x)), x, ref=wrong, budget=False)
    assert (verdict.label, verdict.code) == ("Type-II", "RND201"), verdict


CHOICES: dict[str, Any] = {
    "where": lambda y: torch.where(y > 0, y + 1, 0.2 * y), "method": lambda y: y.where(y > 0, y * 0.2),
    "masked_fill": lambda y: y.masked_fill(y <= 0, 7.0), "product": lambda y: (y > 0) * y,
    "not": lambda y: torch.where(torch.logical_not(y > 0), y, y + 2),
    "and": lambda y: torch.where((y > 0).logical_and(y < 1), y + 1, y),
    "or": lambda y: torch.where((y > 1).logical_or(y <= 0), y + 1, y), "float": lambda y: (y > 0).float(),
}  # fmt: skip


@triton.jit
def _near_zero(x_ptr, y_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y_ptr + i, tl.exp(tl.load(x_ptr + i)) - 1.0)


@pytest.mark.parametrize("name", CHOICES)
def test_a_condition_that_is_open_gives_both_choices(name):
    """exp(x) - 1 at 1e-9 is a rounding away from zero, on either side of it."""
    from render.interpreter.session import Session

    x = torch.tensor([-1.0, 1e-9, 0.5, 2.0])
    with Session("sm_90") as session:
        y = torch.empty_like(x)
        _near_zero[(1,)](x, y, 4)
        found = session.envelope(CHOICES[name](y))
        ends = [CHOICES[name](y + d) for d in (-2e-7, 2e-7)]
    assert found is not None and not found.taints
    for end in ends:
        assert found.lo[1] - 1e-6 <= float(end[1]) <= found.hi[1] + 1e-6


def test_a_condition_that_is_open_and_decides_elsewhere_is_tainted():
    from render.interpreter.session import Session

    x = torch.tensor([-1.0, 1e-9, 0.5, 2.0])
    with Session("sm_90") as session:
        y = torch.empty_like(x)
        _near_zero[(1,)](x, y, 4)
        picked, counted = y[y > 0], (y > 0).sum()
        again, below = torch.empty(4), torch.empty(4)
        _near_zero[(1,)]((y > 0).to(torch.int8).float(), again, 4)
        _near_zero[(1,)]((y > 0).float(), below, 4)
        found = [session.envelope(t) for t in (picked, counted, again, below)]
    assert all(e is not None and e.taints for e in found[:2])
    for e in found[2:]:
        assert e is not None and not e.taints and e.lo[1] <= 0.0 and e.hi[1] >= 1.7


CONSTANTS: dict[str, Any] = {
    "clamp": lambda x, c: x.clamp(max=c), "pad": lambda x, c: F.pad(x, (4, 4), value=c),
    "masked_fill": lambda x, c: x.masked_fill(x > 0, c), "where": lambda x, c: torch.where(x > 0, x, c),
    "full": lambda x, c: torch.maximum(x, torch.full_like(x, c)), "hardtanh": lambda x, c: F.hardtanh(x, -c, c),
    "new_full": lambda x, c: torch.cat([x, x.new_full((8, 8), c)]), "threshold": lambda x, c: F.threshold(x, 0.25, c),
    "nan_to_num": lambda x, c: torch.nan_to_num(torch.where(x > 0, x, float("nan")), nan=c),
    "fill": lambda x, c: torch.cat([x, torch.empty_like(x).fill_(c)]),
    "no dimensions": lambda x, c: torch.minimum(x, torch.tensor(c)),
    "chosen": lambda x, c: torch.where(x > 0, x, torch.tensor(c)),
    "beyond data": lambda x, c: x.masked_fill(x > 0, -1e31 * c),
}  # fmt: skip
"""A number that bfloat16 does not hold is written into what a kernel then reads."""


@triton.jit
def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def doubled(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), 64)
    return y


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_that_its_type_does_not_hold_is_no_bug(name):
    change = CONSTANTS[name]
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    right = classify(lambda x: doubled(change(x, 0.1)), x, ref=lambda x: 2 * change(x, 0.1), budget=False)
    assert right.code == "RND100", right
    wrong = classify(lambda x: doubled(change(x, 0.101)), x, ref=lambda x: 2 * change(x, 0.1), budget=False)
    assert wrong.label == "Type-II", wrong


@triton.jit
def _softmax(x_ptr, y_ptr, n: tl.constexpr):
    i = tl.program_id(0) * n + tl.arange(0, n)
    x = tl.load(x_ptr + i).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + i, e / tl.sum(e, 0))


def masked_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores = x.masked_fill(mask, -1e30)
    y = torch.empty_like(x)
    _softmax[(len(x),)](scores, y, x.shape[1])
    return y


def test_rows_that_are_masked_as_a_whole_are_uniform():
    """-1e30 is no number of bfloat16: in memory it is a symbol, as a literal of the kernel is, and less itself 0."""
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    mask = torch.ones(8, 8, dtype=torch.bool).triu()
    verdict = classify(masked_softmax, x, mask, ref=lambda x, m: x.masked_fill(m, -1e30).softmax(-1), budget=False)
    bound = verdict.outputs[0].bound
    assert (bound.hi - bound.lo).max() < 0.01


def summed_up(y):
    """One loss after the other, as a loop logs and averages them."""
    total = 0.0
    for row in y:
        total += row.sum().item()
    return total / len(y)


def floats_summed_up(y):
    """The same with plain floats: each partial sum is what its statement makes of the last one."""
    total = 0.0
    for row in y:
        total += float(row.sum()) / 2
    return total / 8


def averaged(y):
    mean = 1.0
    for row in y:
        mean = 0.9 * mean + 0.1 * float(row.sum())
    return y * mean


def under_a_name(y):
    norm = float(y.sum())
    return {"norm": norm / 4, "sum": y.sum(0)}


Told = namedtuple("Told", "loss rows")
NUMBERS: dict[str, Any] = {
    "a number": lambda y: y.mean().item(), "a list": lambda y: y[0].tolist(),
    "a float": lambda y: 2 * float(y.mean()) - 1,
    "a root": lambda y: math.sqrt(float(y.square().sum())), "a named tuple": lambda y: Told(y.mean().item(), y.sum(0)),
    "floats in a loop": floats_summed_up, "average": averaged,
    "in a loop": summed_up, "under a name": under_a_name, "a tensor": lambda y: torch.tensor(y.mean().item()),
    "a table": lambda y: torch.tensor([[v, 2 * v] for v in y[0].tolist()]), "factor": lambda y: y.mul(y.mean().item()),
    "a new tensor": lambda y: y.new_tensor(y.sum().item()), "limit": lambda y: y.clamp(max=y.mean().item()),
    "columns": lambda y: y.numpy().T, "part": lambda y: y.numpy()[2:, 1:], "array": lambda y: y.numpy().copy(),
    "part of a tensor": lambda y: torch.from_numpy(y.numpy()[3:]) + 1, "of an array": lambda y: torch.tensor(y.numpy()),
    "share": lambda y: y.sub(y.mean().item(), alpha=2), "nothing chosen": lambda y: y[y > 9].sum() + y.sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_a_wrapper_returns_or_goes_on_with(name):
    """Right kernels and ones that are 2 % off, with a second evaluation."""
    operation = NUMBERS[name]
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    assert (
        classify(lambda x: operation(kernel(x)), x, ref=lambda x: operation(reference(x)), budget=False).label
        == "Type-I"
    )
    wrong = lambda x: operation(reference(x) * 1.02)  # noqa: E731
    verdict = classify(lambda x: operation(kernel(x)), x, ref=wrong, budget=False)
    assert (verdict.label, verdict.code) == ("Type-II", "RND201"), verdict


LOSSES: dict[str, Any] = {
    "cross_entropy": lambda y: F.cross_entropy(y, torch.arange(8)),
    "attention": lambda y: F.scaled_dot_product_attention(y[None], y[None], y[None])[0],
    "squeezed": lambda y: F.hardtanh(y * 0.3) + F.softplus(y),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_a_fault_below_the_roundings_of_a_narrow_type(name, dtype):
    """Its second evaluation, without rounding, has no rounding in its constants either."""
    operation = LOSSES[name]
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert (
        classify(lambda x: operation(kernel(x)), x, ref=lambda x: operation(reference(x)), budget=False).label
        == "Type-I"
    )
    wrong = lambda x: operation(reference(x) * (1 + 0.03 * W[:, :1]).to(x.dtype))  # noqa: E731
    verdict = classify(lambda x: operation(kernel(x)), x, ref=wrong, budget=False)
    assert verdict.label == "Type-II", verdict
