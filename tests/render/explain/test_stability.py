"""Unstable algorithms and their stable forms: the same function, the same inputs, only one of them to blame."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import render
from render.explain.stability import LIMIT


@triton.jit
def variance_kernel(X, Out, n, TWO_PASS: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(X + row * n + i, mask=i < n, other=0.0)
    mean = tl.sum(x) / n
    if TWO_PASS:
        d = tl.where(i < n, x - mean, 0.0)
        var = tl.sum(d * d) / n
    else:
        square = tl.sum(x * x) / n
        var = square - mean * mean
    tl.store(Out + row, var)


def variance(x, two_pass=False):
    out = torch.empty(x.shape[0])
    variance_kernel[(x.shape[0],)](x, out, x.shape[1], two_pass, triton.next_power_of_2(x.shape[1]))
    return out


def true_variance(x, two_pass=False):
    return x.var(-1, unbiased=False)


@triton.jit
def unary_kernel(X, Out, n, FORM: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=0.0)
    if FORM == 0:
        e = tl.exp(2 * x)
        y = (e - 1) / (e + 1)
    elif FORM == 1:
        y = tl.exp(x) - 1
    elif FORM == 2:
        x2 = x * x
        small = x + x2 * (0.5 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040 + x / 40320))))))
        y = tl.where(tl.abs(x) < 0.25, small, tl.exp(x) - 1)
    elif FORM == 3:
        y = tl.log(1 + tl.exp(x))
    elif FORM == 4:
        y = 2 / (1 + tl.exp(-2 * x)) - 1
    elif FORM == 5:
        y = libdevice.tanh(x)
    elif FORM == 6:
        y = libdevice.expm1(x)
    elif FORM == 7:
        y = tl.log(1 + x)
    else:
        y = libdevice.log1p(x)
    tl.store(Out + i, y, mask=i < n)


def unary(form):
    def run(x):
        out = torch.empty_like(x)
        unary_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), form, 128)
        return out

    return run


@triton.jit
def softmax_kernel(X, Out, n, GUARDED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    if GUARDED:
        x = x - tl.max(x)
    e = tl.exp(x)
    tl.store(Out + tl.program_id(0) * n + i, e / tl.sum(e), mask=i < n)


def softmax(x, guarded=False):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], guarded, triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def downgraded(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i).to(tl.float16).to(tl.float32)
    tl.store(Out + i, x * x)


def squared(x):
    out = torch.empty_like(x)
    downgraded[(1,)](x, out, 256)
    return out


def shifted(mean, rows=8, n=500):
    torch.manual_seed(0)
    return torch.randn(rows, n) + mean


def small():
    return torch.cat([torch.logspace(-4, 1, 300), -torch.logspace(-4, 0, 300)])


def line_of(kernel, text):
    source, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, line in enumerate(source) if text in line)


def test_one_pass_variance_far_from_zero():
    v = render.classify(variance, shifted(1e3), ref=true_variance, device="sm_80")
    assert (v.label, v.code, v.exit_code) == ("Type-II", "RND206", 1)
    assert v.instability.eta > 100
    assert v.instability.reference <= LIMIT
    assert v.line == line_of(variance_kernel, "square - mean * mean")
    assert any("times what conditioning" in n for n in v.notes)
    assert v.outputs[0].code == "RND206"


@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_two_pass_variance(mean):
    v = render.classify(variance, shifted(mean), two_pass=True, ref=true_variance, device="sm_80")
    assert (v.label, v.instability) == ("Type-I", None)


def test_one_pass_variance_near_zero_is_fine():
    assert render.classify(variance, shifted(0.0), ref=true_variance, device="sm_80").label == "Type-I"


@pytest.mark.parametrize(("form", "ref"), [(0, torch.tanh), (4, torch.tanh), (1, torch.expm1), (7, torch.log1p)])
def test_cancellation_near_zero(form, ref):
    v = render.classify(unary(form), small().abs() if form == 7 else small(), ref=ref, device="sm_80")
    assert (v.label, v.code) == ("Type-II", "RND206")


@pytest.mark.parametrize(("form", "ref"), [
    (2, torch.expm1), (3, torch.nn.functional.softplus), (5, torch.tanh), (6, torch.expm1), (8, torch.log1p),
])  # fmt: skip
def test_stable_forms(form, ref):
    x = small().abs() if form in (3, 8) else small()
    v = render.classify(unary(form), x, ref=ref, device="sm_80")
    assert (v.label, v.instability) == ("Type-I", None), v.message


def test_both_sides_cancel():
    """The reference is no better in its own precision: nobody can hold it against the kernel."""
    v = render.classify(unary(1), small(), ref=lambda x: torch.exp(x) - 1, device="sm_80")
    assert v.label == "Type-I"


def test_unguarded_softmax_of_large_inputs():
    torch.manual_seed(0)
    x = 40 * torch.randn(4, 100)
    v = render.classify(softmax, x, ref=lambda x, **_: torch.softmax(x, -1), device="sm_80")
    assert (v.label, v.code) == ("Type-II", "RND204")
    assert v.origins[0].op == "exp" and v.outputs[0].sides.wrong == "kernel"
    v = render.classify(softmax, x, guarded=True, ref=lambda x, **_: torch.softmax(x, -1), device="sm_80")
    assert v.label == "Type-I"


def test_a_cast_inside_is_a_downgrade_not_an_instability():
    v = render.classify(squared, torch.rand(256) + 1, ref=lambda x: x * x)
    assert (v.label, v.code, v.subtype) == ("Type-I", "RND104", "downgrade")
    assert v.instability.downgrade


def test_a_downgrade_beside_a_weak_reference():
    """The reference loses five bits of its own; the cast to float16 inside the kernel loses thirteen."""
    v = render.classify(squared, torch.rand(256) + 1, ref=lambda x: ((x + 32) - 32) ** 2)
    assert (v.label, v.subtype) == ("Type-I", "downgrade")
    assert v.instability.eta > v.instability.reference > LIMIT
    weak = render.classify(unary(5), small(), ref=lambda x: torch.tanh((x + 32) - 32), device="sm_80")
    assert weak.instability is None


def test_conditioning_of_a_known_sum():
    """f = a . b: sum |df/dx_i| |x_i| over both arguments is 2 sum |a_i b_i|."""
    from render.entry.inputs import of_call
    from render.entry.outputs import of_reference
    from render.entry.resolve import ReferencePlan, resolve
    from render.explain.stability import conditioning
    from render.reference.oracle import Oracle

    torch.manual_seed(0)
    a, b = torch.randn(4, 200), torch.randn(200)

    def product(a, b):
        return a @ b

    given = of_call(product, (a, b), {})
    native = [("out", a @ b)]
    plan = ReferencePlan(("a", "b"))
    oracle = Oracle(resolve(product), plan, given, lambda r, v: of_reference(r, v, native), native)
    (found,) = conditioning(oracle, draws=64)
    exact = 2 * (a.double() * b.double()).abs().sum(-1).numpy()
    assert np.all((found > exact / 2) & (found < 2 * exact))
