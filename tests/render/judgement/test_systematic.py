"""Another function is another function below one rounding of the output too; the same casts are the same function."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.verdicts import classify

F = torch.nn.functional
DTYPES = [torch.bfloat16, torch.float16]


@triton.jit
def normalising(X, Out, n, less, gain, B: tl.constexpr):
    row, c = tl.program_id(0) * n, tl.arange(0, B)
    x = tl.load(X + row + c, mask=c < n, other=0.0).to(tl.float32)
    d = tl.where(c < n, x - tl.sum(x, 0) / n, 0.0)
    y = d * tl.rsqrt(tl.sum(d * d, 0) / (n - less) + 1e-5) * gain
    tl.store(Out + row + c, y.to(Out.dtype.element_ty), mask=c < n)


def normalised(less=0, gain=1.0):
    def run(x):
        out = torch.empty_like(x)
        normalising[(len(x),)](x, out, x.shape[1], less, gain, 256)
        return out

    return run


def cast_at_the_end(x):
    return F.layer_norm(x.float(), x.shape[1:]).to(x.dtype)


def cast_by_name(x):
    y = x.float() - x.float().mean(-1, keepdim=True)
    y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5)
    return y.bfloat16() if x.dtype == torch.bfloat16 else y.half()


def as_it_is(x):
    return F.layer_norm(x, x.shape[1:])


@triton.jit
def quantising(X, Q, top, off, n, B: tl.constexpr):
    row, c = tl.program_id(0) * n, tl.arange(0, B)
    x = tl.load(X + row + c, mask=c < n, other=0.0)
    y = x / (tl.max(tl.abs(x), 0) / top) * off
    tl.store(Q + row + c, y.to(tl.float8e4nv), mask=c < n)


def quantised(off=1.0):
    def run(x):
        q = torch.empty(x.shape, dtype=torch.float8_e4m3fn)
        quantising[(len(x),)](x, q, 448.0, off, x.shape[1], 256)
        return q

    return run


def to_float8(x):
    return (x / (x.abs().amax(-1, keepdim=True) / 448.0)).to(torch.float8_e4m3fn)


def data(dtype=torch.float32):
    return torch.randn(4, 200, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ref", [cast_at_the_end, cast_by_name, as_it_is])
def test_normalisation(ref, dtype):
    x = data(dtype)
    right = classify(normalised(), x, ref=ref, budget=False)
    assert right.label == "Type-I" and right.unrounded[0].differing == 0
    for wrong in (normalised(less=1), normalised(gain=1.0035)):
        v = classify(wrong, x, ref=ref, budget=False)
        assert v.label == "Type-II" and v.code in ("RND201", "RND211")


def test_what_one_rounding_would_hide_is_said_in_figures():
    v = classify(normalised(less=1), data(torch.bfloat16), ref=cast_at_the_end, budget=False)
    (found,) = v.unrounded
    assert (v.code, found.visible, found.systematic) == ("RND211", 0, True)
    assert found.one_way == 1.0
    assert found.relative == pytest.approx(1 / 400, rel=0.05)  # sqrt(199 / 200)
    assert "approximation on purpose" in found.sentence and v.witness.status == "agrees"


@pytest.mark.parametrize("off", [0.97, 1.03, 1.05, 1.1, 0.8])
def test_a_quantiser_with_another_scale(off):
    assert classify(quantised(), data(), ref=to_float8, budget=False).label == "Type-I"
    assert classify(quantised(off), data(), ref=to_float8, budget=False).label == "Type-II"


@triton.jit
def standardising(X, Out, n, gain, B: tl.constexpr):
    row, c = tl.program_id(0) * n, tl.arange(0, B)
    x = tl.load(X + row + c, mask=c < n, other=0.0)
    d = tl.where(c < n, x - tl.sum(x, 0) / n, 0.0)
    tl.store(Out + row + c, d * tl.rsqrt(tl.sum(d * d, 0) / n + 1e-5) * gain, mask=c < n)


def stacked(times, gain=1.0):
    def run(x, w):
        for k in range(times):
            out = torch.empty_like(x)
            standardising[(len(x),)](x, out, x.shape[1], gain if k == times - 1 else 1.0, 64)
            x = out * w
        return x

    return run


def stacked_reference(times):
    def run(x, w):
        for _ in range(times):
            d = x - x.mean(-1, keepdim=True)
            x = d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * w
        return x

    return run


@pytest.mark.slow
def test_a_small_gain_behind_many_normalisations():
    """What the inputs explain grows by no more than they do; step by step it grew threefold each time."""
    generator = torch.Generator().manual_seed(1)
    x, w = torch.randn(2, 50, generator=generator), torch.rand(50, generator=generator) + 0.5
    right = classify(stacked(6), x, w, ref=stacked_reference(6), budget=False)
    assert right.label == "Type-I" and right.unrounded[0].differing == 0
    v = classify(stacked(6, 1 + 2.7e-4), x, w, ref=stacked_reference(6), budget=False)
    assert (v.label, v.code) == ("Type-II", "RND211") and v.witness.status == "agrees"
    assert v.unrounded[0].slack < v.unrounded[0].gap / 8
