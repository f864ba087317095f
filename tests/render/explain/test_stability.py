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
    return torch.cat([torch.logspace(-5, 1, 300), -torch.logspace(-5, 0, 300)])


def line_of(kernel, text):
    source, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, line in enumerate(source) if text in line)


def test_one_pass_variance_far_from_zero():
    v = render.classify(variance, shifted(1e3), ref=true_variance, device="sm_80")
    assert (v.label, v.code, v.exit_code) == ("Type-II", "RND206", 1)
    assert v.instability.eta > 100
    assert v.instability.reference <= LIMIT
    assert v.line == line_of(variance_kernel, "square - mean * mean")
    assert any("times what a careful" in n for n in v.notes)
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
    assert v.instability.eta > LIMIT > v.instability.reference
    weak = render.classify(unary(5), small(), ref=lambda x: torch.tanh((x + 32) - 32), device="sm_80")
    assert weak.instability is None


def test_what_a_careful_dot_product_loses():
    """Inputs off by u twice, log2(K) + 1 levels of a tree of K = n + 1 terms, the result's own rounding."""
    from render.entry.inputs import of_call
    from render.entry.outputs import of_reference
    from render.entry.resolve import ReferencePlan, resolve
    from render.reference.oracle import Oracle

    torch.manual_seed(0)
    a, b, u = torch.randn(4, 200), torch.randn(200), 2.0**-24

    def product(a, b):
        return a @ b

    given = of_call(product, (a, b), {})
    native = [("out", a @ b)]
    plan = ReferencePlan(("a", "b"))
    oracle = Oracle(resolve(product), plan, given, lambda r, v: of_reference(r, v, native), native)
    (found,) = oracle.attainable(u, u, 8.0)
    size = (a.double().abs() @ b.double().abs()).numpy()
    exact = 8 * u * ((2 + 1 + np.log2(201)) * size + np.abs((a.double() @ b.double()).numpy()))
    assert np.allclose(found, exact, rtol=1e-4)


@triton.jit
def three_products(A, B, C, D, Real, Imag, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a, b, c, d = tl.load(A + i), tl.load(B + i), tl.load(C + i), tl.load(D + i)
    k = c * (a + b)
    tl.store(Real + i, k - b * (c + d))
    tl.store(Imag + i, k + a * (d - c))


def by_three_products(a, b, c, d):
    real, imag = torch.empty_like(a), torch.empty_like(a)
    three_products[(a.numel() // 1024,)](a, b, c, d, real, imag, a.numel(), 1024)
    return real, imag


@triton.jit
def adam_kernel(G, V, beta, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    g, v = tl.load(G + i), tl.load(V + i)
    tl.store(V + i, beta * v + (1 - beta) * g * g)


def adam(g, v, beta=0.999):
    v = v.clone()
    adam_kernel[(g.numel() // 256,)](g, v, beta, g.numel(), 256)
    return v


@triton.jit
def residual_kernel(X, Out, FORM: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + i)
    t = 2 / (1 + tl.exp(-2 * x)) - 1 if FORM == 0 else libdevice.tanh(x)
    y = x - t
    tl.store(Out + i, libdevice.atan2(y, y))


def residual(form):
    def run(x):
        out = torch.empty_like(x)
        residual_kernel[(x.numel() // 1024,)](x, out, form, 1024)
        return out

    return run


def true_residual(x):
    y = x - torch.tanh(x)
    return torch.atan2(y, y)


def test_elements_that_cancel_are_measured_by_their_neighbours():
    torch.manual_seed(0)
    given = [torch.randn(16384) for _ in range(4)]
    ref = lambda a, b, c, d: (a * c - b * d, a * d + b * c)  # noqa: E731
    assert render.classify(by_three_products, *given, ref=ref, device="sm_80").label == "Type-I"


def test_numbers_of_the_launch_are_rounded():
    """1 - fl(0.999) is off by 6e-5 of itself, which no kernel can help that is given the float."""
    v = render.classify(
        adam, torch.randn(1024), torch.zeros(1024), ref=lambda g, v, beta=0.999: beta * v + (1 - beta) * g * g
    )
    assert (v.label, v.instability) == ("Type-I", None)


def test_a_quadrant_rests_on_lost_digits():
    torch.manual_seed(0)
    x = torch.randn(12288)
    v = render.classify(residual(0), x, ref=true_residual, device="sm_80")
    assert (v.label, v.code) == ("Type-II", "RND206")
    assert v.line == line_of(residual_kernel, "2 / (1 + tl.exp")
    assert "tanh" in v.instability.better
    assert render.classify(residual(1), x, ref=true_residual, device="sm_80").label == "Type-I"


@triton.jit
def larger_kernel(X, Y, Out, SHIFT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.where(tl.load(X + i) + SHIFT > tl.load(Y + i) + SHIFT, 1.0, 0.0))


def larger(shift):
    def entry(x, y):
        out = torch.empty_like(x)
        larger_kernel[(1,)](x, y, out, shift, x.numel())
        return out

    return entry


@pytest.mark.parametrize(
    ("shift", "ref", "codes"),
    [
        (0.0, lambda x, y: (x > y).float(), ("RND100",)),
        (1048576.0, lambda x, y: (x > y).float(), ("RND206",)),
        (1048576.0, lambda x, y: (x + 1048576.0 > y + 1048576.0).float(), ("RND100",)),
    ],
)
def test_a_comparison_decides_by_the_difference_of_its_operands(shift, ref, codes):
    """x + 2^20 is as good as its conditioning; x - y is not, once it comes from two of them. A reference that decides
    by the same sums loses the same."""
    torch.manual_seed(0)
    x = torch.randn(256)
    v = render.classify(larger(shift), x, x + 1e-3 * torch.randn(256), ref=ref)
    assert v.code in codes
    assert v.code != "RND206" or (v.line == line_of(larger_kernel, "tl.where") and "a comparison" in str(v))


def test_a_worse_kernel_than_a_weak_reference():
    """The reference loses digits too, the kernel loses all: what the reference loses is the measure."""
    x = torch.logspace(-5, -1, 512)
    ref = lambda x: (torch.expm1(x) + 1e-2) - 1e-2  # noqa: E731
    assert render.classify(unary(6), x, ref=ref, device="sm_80").label == "Type-I"

    v = render.classify(cubes, x + 1, ref=lambda x: (x - 1) * (x - 1) * (x - 1), device="sm_80")
    assert (v.label, v.code) == ("Type-II", "RND206")


@triton.jit
def cube_kernel(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(Out + i, ((x - 3) * x + 3) * x - 1)


def cubes(x):
    out = torch.empty_like(x)
    cube_kernel[(1,)](x, out, x.numel())
    return out


def test_fewer_than_half_of_the_digits():
    v = render.classify(unary(1), torch.logspace(-2, 0, 512), ref=torch.expm1, device="sm_80")
    assert (v.label, v.code, v.subtype) == ("Type-I", "RND111", "degraded")
    assert 0.5 < v.instability.digits < 3
    assert "expm1" in v.help[0]


def test_a_bound_below_zero_is_asked_too():
    v = render.classify(deviation, shifted(1e3), ref=lambda x: x.std(-1, unbiased=False), device="sm_80")
    assert (v.label, v.code) == ("Type-II", "RND206")


@triton.jit
def deviation_kernel(X, Out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    mean = tl.sum(x) / n
    tl.store(Out + tl.program_id(0), tl.sqrt(tl.sum(x * x) / n - mean * mean))


def deviation(x):
    out = torch.empty(x.shape[0])
    deviation_kernel[(x.shape[0],)](x, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def choice_kernel(X, Y, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(X + i), tl.load(Y + i)
    tl.store(Out + i, tl.where(x * 0.1 + y > 0, 1.0, -1.0))


def choice(x, y):
    out = torch.empty_like(x)
    choice_kernel[(1,)](x, y, out, x.numel())
    return out


def test_a_tie_is_no_instability():
    """0.1 x + y rounds to either side of 0: its operands are as good as they can be."""
    x = torch.linspace(1, 2, 1024)
    y = -(x * 0.1)
    v = render.classify(choice, x, y, ref=lambda x, y: torch.where(x * 0.1 + y > 0, 1.0, -1.0), device="sm_80")
    assert v.code not in ("RND206", "RND111"), v.message
