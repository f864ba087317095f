"""A Type-II names the line of the mistake: single faults in small kernels and pipelines."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def norm_kernel(X, W, Out, n, FAULT: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, B)
    m = j < n
    x = tl.load(X + row * n + j, mask=m, other=0.0)
    w = tl.load(W + j, mask=m, other=0.0)
    mean = tl.sum(x) / n
    d = tl.where(m, x - mean, 0.0)
    var = tl.sum(d * d) if FAULT == 1 else tl.sum(d * d) / n
    y = d * tl.rsqrt(var + 0.7) if FAULT == 2 else d * tl.rsqrt(var + 0.1)
    z = y + w if FAULT == 3 else y * w
    tl.store(Out + row * n + j, z, mask=m)


@triton.jit
def scale_kernel(X, Out, n, FAULT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=0.0)
    y = x * 1.9 - 0.5 if FAULT == 4 else x * 1.3 - 0.5
    tl.store(Out + i, tl.maximum(y, 0.0), mask=i < n)


def program(fault):
    def run(x, w):
        h, out = torch.empty_like(x), torch.empty_like(x)
        norm_kernel[(x.shape[0],)](x, w, h, x.shape[1], fault, triton.next_power_of_2(x.shape[1]))
        scale_kernel[(triton.cdiv(x.numel(), 128),)](h, out, x.numel(), fault, 128)
        return out

    return run


def reference(x, w):
    """Casts and einsum: the reference is followed as it is written."""
    x = x.float()
    d = x - x.mean(-1, keepdim=True)
    var = torch.einsum("ij,ij->i", d, d) / x.shape[1]
    return torch.relu(d * torch.rsqrt(var + 0.1)[:, None] * w * 1.3 - 0.5).to(x.dtype)


def line_of(kernel, text):
    source, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, line in enumerate(source) if text in line)


@pytest.mark.parametrize(("fault", "kernel", "text"), [
    pytest.param(1, norm_kernel, "var = tl.sum", marks=pytest.mark.slow), (2, norm_kernel, "y = d *"),
    pytest.param(3, norm_kernel, "z = y", marks=pytest.mark.slow),
    (4, scale_kernel, "y = x"),
])  # fmt: skip
def test_the_line_of_the_guilty_launch(fault, kernel, text):
    torch.manual_seed(0)
    v = render.classify(program(fault), torch.randn(6, 40), torch.randn(40), ref=reference, device="sm_90")
    assert v.label == "Type-II"
    assert abs(v.line - line_of(kernel, text)) <= 3
    if v.guilty is not None:
        assert v.guilty.sentence in v.notes


@triton.jit
def short_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    half = x * 0.5
    squared = half * half
    grown = squared + 1.0
    tl.store(y_ptr + at, grown, mask=at < n - 1)


def test_the_line_of_a_store_that_leaves_elements_out():
    def run(x):
        y = torch.empty_like(x)
        short_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), 64)
        return y

    v = render.classify(run, torch.randn(100), ref=lambda x: (x * 0.5) ** 2 + 1.0)
    assert (v.code, v.line) == ("RND205", line_of(short_kernel, "tl.store"))


def test_a_right_program_is_not_searched():
    torch.manual_seed(0)
    v = render.classify(program(0), torch.randn(6, 40), torch.randn(40), ref=reference, device="sm_90")
    assert (v.label, v.guilty, v.resembles) == ("Type-I", None, ())


@triton.jit
def curve_kernel(X, Out, n, FAULT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=0.0).to(tl.float32)
    a = tl.exp(-x * x)
    b = a * 0.7025 if FAULT == 1 else a * 0.7
    y = x / 3.75
    p = 0.5 + y * y * (0.87890594 + y * y * 0.51498869) if FAULT == 2 else 1.0
    tl.store(Out + i, ((b + x) * p).to(Out.dtype.element_ty), mask=i < n)


def curve(fault):
    def run(x):
        out = torch.empty_like(x)
        curve_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), fault, 256)
        return out

    return run


def test_a_number_that_roundings_of_the_output_hide():
    """A gain 0.36 % off in bfloat16: what it should be is solved for without rounding."""
    x = torch.randn(2000, generator=torch.Generator().manual_seed(0)).bfloat16()
    v = render.classify(curve(1), x, ref=lambda x: (torch.exp(-(x.float() ** 2)) * 0.7 + x.float()).bfloat16())
    assert v.label == "Type-II"
    assert v.line == line_of(curve_kernel, "b = a * 0.7025")
    assert v.guilty is not None


def test_no_change_is_called_a_repair_of_what_is_as_near_without_it():
    """A polynomial that leaves a reference by less than one rounding of the output, seen where divisions are exact."""
    x = torch.rand(1000, generator=torch.Generator().manual_seed(0)) + 0.5

    def polynomial(x):
        y2 = (x / 3.75) ** 2
        return (torch.exp(-x * x) * 0.7 + x) * (0.5 + 1e-8 + y2 * (0.87890594 + y2 * 0.51498869))

    v = render.classify(curve(2), x, ref=polynomial, device="gfx942")
    assert not any("plus" in note or "times" in note for note in v.resembles)
    if v.guilty is not None:
        assert "0.5 in place" not in v.guilty.sentence or v.line == line_of(curve_kernel, "p = 0.5")


@triton.jit
def covariance_kernel(X, W, Out, n, D: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, D)
    m = i < n
    x = tl.load(X + i[:, None] * D + j[None, :], mask=m[:, None], other=0.0)
    w = tl.load(W + i, mask=m, other=0.0)
    total = tl.sum(w)
    mean = tl.sum(x * w[:, None], 0) / total
    d = tl.where(m[:, None], x - mean[None, :], 0.0)
    c = tl.sum(d[:, :, None] * (d * w[:, None])[:, None, :], 0)
    tl.store(Out + j[:, None] * D + j[None, :], c / (total - 1))


def covariance(x, w):
    out = torch.empty(x.shape[1], x.shape[1])
    covariance_kernel[(1,)](x, w, out, len(x), D=x.shape[1], B=32)
    return out


@pytest.mark.slow
def test_a_fraction_in_masked_lanes_that_happens_to_make_up_for_a_scale_is_no_repair():
    """The sum of the weights less 1, where the reference takes off a mean of them."""
    g = torch.Generator().manual_seed(0)
    x, w = torch.randn(30, 4, generator=g), torch.rand(30, generator=g) + 0.5
    v = render.classify(covariance, x, w, ref=lambda x, w: torch.cov(x.T, aweights=w))
    assert (v.label, v.code) == ("Type-II", "RND201")
    assert v.guilty is None or "in place of 0.0" not in v.guilty.sentence
    assert v.line > line_of(covariance_kernel, "w = tl.load")


@triton.jit
def times_kernel(X, Out, factor, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i, mask=i < n) * factor + 0.5, mask=i < n)


def test_a_change_after_which_the_host_returns_another_shape_is_none():
    def likeliest(x):
        """As many of the largest shares as make nine tenths."""
        y = torch.empty_like(x)
        times_kernel[(triton.cdiv(x.numel(), 64),)](x, y, 1 / 0.7, x.numel(), 64)
        shares = torch.softmax(y, 0).sort(descending=True)[0]
        return shares[: int((shares.cumsum(0) < 0.9).sum().item()) + 1]

    x = torch.randn(200, generator=torch.Generator().manual_seed(0))
    v = render.classify(lambda x: likeliest(x * 1.0005), x, ref=likeliest)
    assert v.label == "Type-II"
