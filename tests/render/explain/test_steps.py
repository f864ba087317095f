"""The step of a program that departs: the launch, or the line of the host, whatever comes behind it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.classify import classify
from render.explain.divergence import Known
from render.explain.steps import ProgramStep, _blotted


@triton.jit
def _square(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x * x + 0.25, mask=i < n)


@triton.jit
def _shrink(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.exp(-x) * 0.5, mask=i < n)


def _launch(kernel: object, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), 32)  # type: ignore[index]
    return y


def second_launch(x: torch.Tensor) -> torch.Tensor:
    h = _launch(_square, x)
    h = h - h.mean()
    h = _launch(_shrink, h)
    return torch.tanh(h) + x


def host_line(x: torch.Tensor) -> torch.Tensor:
    h = _launch(_square, x)
    h = h - 0.9 * h.mean()
    h = _launch(_shrink, h)
    return torch.tanh(h) + x


def reference(factor: float, mean: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def of(x: torch.Tensor) -> torch.Tensor:
        h = x * x + 0.25
        h = h - mean * h.mean()
        h = torch.exp(-h) * factor
        return torch.tanh(h) + x

    return of


def _line(function: object, text: str) -> int:
    import inspect

    lines, first = inspect.getsourcelines(getattr(function, "fn", function))
    return first + next(k for k, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("n", [50, 128])
def test_the_launch_that_departs_is_searched(n: int) -> None:
    x = torch.rand(n, generator=torch.Generator().manual_seed(1)) + 0.5
    found = classify(second_launch, x, ref=reference(0.75, 1.0), device="sm_90")
    assert found.label == "Type-II" and abs(found.line - _line(_shrink, "tl.exp")) <= 1, found


@pytest.mark.parametrize("n", [50, 128])
def test_a_line_of_the_host_is_named(n: int) -> None:
    x = torch.rand(n, generator=torch.Generator().manual_seed(2)) + 0.5
    found = classify(host_line, x, ref=reference(0.5, 1.0), device="sm_90")
    assert found.label == "Type-II" and found.line == _line(host_line, "0.9"), found


def shares(x: torch.Tensor) -> torch.Tensor:
    h = torch.softmax(_launch(_square, x) * 2.0, -1)
    return h - h.mean(-1, keepdim=True)


def test_a_mean_that_any_operand_has_cleans_no_step_before_it() -> None:
    """The shares of a row have the mean 1 / n, whatever they are."""
    x = torch.rand(4, 32, generator=torch.Generator().manual_seed(3)) + 0.5
    of = lambda x: (h := torch.softmax((x * x * 1.5 + 0.25) * 2.0, -1)) - h.mean(-1, keepdim=True)  # noqa: E731
    found = classify(shares, x, ref=of, device="sm_90")
    assert found.label == "Type-II" and abs(found.line - _line(_square, "x * x")) <= 1, found


@triton.jit
def _wrong_side(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0) * 1.5 + 0.125
    tl.store(y_ptr + i, tl.minimum(x, 0.0), mask=i < n)


def behind(x: torch.Tensor) -> torch.Tensor:
    h = _launch(_wrong_side, x)
    return h / (1 + h.abs()) + 3


def test_what_is_kept_elsewhere_is_not_what_the_reference_has() -> None:
    """All that the launch left but zeros are numbers of the reference, before it chose among them."""
    x = torch.randn(96, generator=torch.Generator().manual_seed(3))
    of = lambda x: (h := torch.relu(x * 1.5 + 0.125)) / (1 + h.abs()) + 3  # noqa: E731
    found = classify(behind, x, ref=of, device="sm_90")
    assert found.label == "Type-II" and abs(found.line - _line(_wrong_side, "minimum")) <= 2, found


def test_a_right_program_has_no_such_step() -> None:
    x = torch.rand(64, generator=torch.Generator().manual_seed(3)) + 0.5
    found = classify(second_launch, x, ref=reference(0.5, 1.0), device="sm_90")
    assert found.label == "Type-I", found


@triton.jit
def _parts(x_ptr, m_ptr, s_ptr, n, B: tl.constexpr):
    p = tl.program_id(0)
    j = tl.arange(0, B)
    x = tl.load(x_ptr + p * B + j, mask=p * B + j < n, other=-float("inf")) * 1.7
    most = tl.max(x)
    tl.store(m_ptr + p, most)
    tl.store(s_ptr + p, tl.sum(tl.exp(x - most)))


@triton.jit
def _merged(m_ptr, s_ptr, y_ptr, P: tl.constexpr):
    p = tl.arange(0, P)
    m = tl.load(m_ptr + p)
    s = tl.load(s_ptr + p)
    most = tl.max(m)
    w = tl.exp2(m - most)
    tl.store(y_ptr, most + tl.log(tl.sum(s * w)))


def two_steps(x: torch.Tensor) -> torch.Tensor:
    m, s, y = torch.empty(4), torch.empty(4), torch.empty(1)
    _parts[(4,)](x, m, s, x.numel(), 32)
    _merged[(1,)](m, s, y, 4)
    return y


def test_a_way_of_its_own_is_no_departure() -> None:
    """What the first launch stores, parts of sums, no tensor of the reference has; the mistake is in the second."""
    x = torch.randn(120, generator=torch.Generator().manual_seed(4)) * 2
    found = classify(two_steps, x, ref=lambda x: torch.logsumexp(x * 1.7, 0, keepdim=True), device="sm_90")
    assert found.label == "Type-II" and found.line == _line(_merged, "exp2"), found


def test_infinities_of_a_mask_are_compared_in_silence() -> None:
    masked = np.array([0.5, -np.inf, 2.0])
    step = ProgramStep("load", ("k.py", 3), torch.from_numpy(masked), (masked, masked), [])
    with np.errstate(all="raise"):
        assert not _blotted(step, Known("s", np.sort(masked), placed=masked))


@triton.jit
def _gradient(x_ptr, g_ptr, d_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x, g = tl.load(x_ptr + i, mask=i < n, other=0.0), tl.load(g_ptr + i, mask=i < n, other=0.0)
    d = x * g
    e = tl.sin(d * 3.0) + tl.exp(d)
    tl.store(d_ptr + i, e * 2.0, mask=i < n)


class _Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return _launch(_square, x)

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        d = torch.empty_like(x)
        _gradient[(triton.cdiv(x.numel(), 32),)](x, g.contiguous(), d, x.numel(), 32)
        return d


def test_a_loss_that_is_computed_for_its_gradient_alone_departs_from_nothing() -> None:
    def entry(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.clone().requires_grad_()
        y = _Squared.apply(x)
        (y * w).sum().backward()
        assert x.grad is not None
        return y.detach(), x.grad

    def wanted(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * x + 0.25, x * w * 2.0

    torch.manual_seed(2)
    found = classify(entry, torch.randn(100), torch.randn(100), ref=wanted)
    line = _gradient.fn.__code__.co_firstlineno
    assert found.label == "Type-II"
    assert line + 5 <= found.line <= line + 7
