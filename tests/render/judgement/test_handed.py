"""What the kernel is handed rounded and the reference computes itself accuses nobody; what is wrong stays wrong."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.judgement import handed
from tests.verdicts import classify

B, ROWS = 8, 4


@triton.jit
def turning(X, C, S, Out, H: tl.constexpr):
    i = tl.program_id(0)
    d = tl.arange(0, H)
    c, s = tl.load(C + i * H + d), tl.load(S + i * H + d)
    a, b = tl.load(X + i * 2 * H + d), tl.load(X + i * 2 * H + H + d)
    tl.store(Out + i * 2 * H + d, a * c - b * s)
    tl.store(Out + i * 2 * H + H + d, b * c + a * s)


def turned(x, c, s):
    out = torch.empty_like(x)
    turning[(len(x),)](x, c, s, out, x.shape[1] // 2)
    return out


def tables(n, half):
    angle = torch.outer(torch.arange(n).float() * 31, 1 / 10000 ** (torch.arange(half) / half))
    return angle.cos(), angle.sin()


def turned_by_torch(x, *_):
    c, s = tables(len(x), x.shape[1] // 2)
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


@triton.jit
def scaling(X, W, S, Out, factor, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    y = tl.load(X + i) * tl.load(W + i) + tl.load(S + i)
    tl.store(Out + i, y * factor)


def scaled(x, w, s, factor=1.0):
    out = torch.empty_like(x)
    scaling[(x.numel() // B,)](x, w, s, out, factor, B)
    return out


def of_torch(x, weight, bias, mean, var):
    return torch.nn.functional.batch_norm(x, mean, var, weight, bias)


def folded(x, weight, bias, mean, var):
    w = (weight / torch.sqrt(var + 1e-5)).expand(x.shape).contiguous()
    return w, (bias - mean * w).contiguous()


def statistics():
    torch.manual_seed(3)
    n = 8
    return torch.randn(4, n), torch.randn(n), torch.randn(n), torch.randn(n), torch.rand(n) + 0.5


class Turner(torch.nn.Module):
    def __init__(self, wrong=False):
        super().__init__()
        c, s = tables(ROWS, B)
        self.register_buffer("c", c)
        self.s = -s if wrong else s

    def forward(self, x):
        return turned(x, self.c, self.s)


def rows():
    torch.manual_seed(1)
    return torch.randn(ROWS, 2 * B)


def test_a_table_as_an_input():
    x, (c, s) = rows(), tables(ROWS, B)
    right, wrong = (classify(turned, x, c, y, ref=turned_by_torch) for y in (s, -s))
    assert right.label == "Type-I"
    assert any("does not read c and s" in note for note in right.notes)
    assert (wrong.label, wrong.code) == ("Type-II", "RND201")


def test_the_comparison_without_rounding_knows_it_too(monkeypatch):
    """The bound of an output in fp16 holds E; without rounding the table's error is as systematic as a fault."""
    others = statistics()[1:]
    w, s = folded(torch.zeros(4 * B, 8), *others)

    def halves(x, w, s):
        out = torch.empty(x.shape, dtype=torch.float16)
        scaling[(x.numel() // B,)](x, w, s, out, 1.0, B)
        return out

    ref = lambda x, w, s: of_torch(x, *others).half()  # noqa: E731
    x, off = torch.randn(4 * B, 8), 1 + 2.0**-13
    assert classify(halves, x, w, s, ref=ref).label == "Type-I"
    assert classify(halves, x, w * off, s * off, ref=ref).code == "RND315"
    monkeypatch.setattr(handed, "unread", lambda *_: handed.Unread())
    assert classify(halves, x, w * off, s * off, ref=ref).code == "RND211"


def test_a_table_that_the_function_holds():
    x, (c, s) = rows(), tables(ROWS, B)
    for held in (Turner(), lambda x: turned(x, c, s), partial(turned, c=c, s=s)):
        assert classify(held, x, ref=turned_by_torch).label == "Type-I"
    assert classify(Turner(wrong=True), x, ref=turned_by_torch).label == "Type-II"


def test_a_folded_norm():
    x, *others = statistics()
    w, s = folded(x, *others)
    ref = lambda x, w, s: of_torch(x, *others)  # noqa: E731
    assert classify(scaled, x, w, s, ref=ref).label == "Type-I"
    assert classify(scaled, x, w, s * 1.01, ref=ref).label == "Type-II"


def test_what_lies_within_half_of_the_digits_cannot_be_told():
    x, *others = statistics()
    w, s = folded(x, *others)
    v = classify(scaled, x, w, s * (1 + 2.0**-14), ref=lambda x, w, s: of_torch(x, *others))
    assert (v.label, v.code) == ("Inconclusive", "RND315")


def test_an_input_that_the_reference_reads_is_exact():
    """The same difference as above, in a weight that both sides are given."""
    x, *others = statistics()
    w, s = folded(x, *others)
    v = classify(lambda x, w, s: scaled(x, w, s * (1 + 2.0**-14)), x, w, s, ref=lambda x, w, s: x * w + s)
    assert v.label == "Type-II"


def test_numbers_that_were_only_moved_are_exact():
    """A copy in another order of what the reference reads was not computed: it is no rounding."""
    x, w, s = rows(), torch.rand(ROWS, 2 * B), torch.rand(ROWS, 2 * B)
    ref = lambda x, w, s, factor: (x * wt.T + s) * 1.0001  # noqa: E731
    wt = w.T.contiguous()
    v = classify(scaled, x, w, s, 1.0, ref=ref)
    assert (v.label, v.code) == ("Type-II", "RND201")


def test_a_recorded_answer_reads_nothing_and_excuses_nothing():
    x, (c, s) = rows(), tables(ROWS, B)
    saved = turned_by_torch(x) * (1 + 2.0**-12)
    assert classify(turned, x, c, s, ref=lambda *_: saved).label == "Type-II"


def test_a_low_precision_statistic():
    """y of the forward pass in bf16: one rounding of it explains the gradient, a wrong formula is none."""

    @triton.jit
    def backward(Y, G, Out, N: tl.constexpr, WRONG: tl.constexpr):
        i = tl.program_id(0) * N + tl.arange(0, N)
        y, g = tl.load(Y + i).to(tl.float32), tl.load(G + i)
        inner = tl.sum(g, 0) / N if WRONG else tl.sum(y * g, 0)
        tl.store(Out + i, y * (g - inner))

    def gradient(x, y, g, wrong=False):
        out = torch.empty_like(g)
        backward[(len(g),)](y, g, out, g.shape[1], wrong)
        return out

    def of_autograd(x, y, g, wrong=False):
        x = x.detach().clone().requires_grad_()
        torch.softmax(x, 1).backward(g)
        return x.grad

    x, g = rows(), torch.randn(ROWS, 2 * B)
    y = torch.softmax(x, 1).bfloat16()
    assert classify(gradient, x, y, g, ref=of_autograd).label == "Type-I"
    assert classify(gradient, x, y, g, True, ref=of_autograd).label == "Type-II"


def by_norm(x, w, s, factor):
    return (x * w + s) / x.norm()


def by_norm_in_halves(x, w, s, factor):
    return by_norm(x.float(), w, s, factor).bfloat16()


def handed_norm(x, off=1.0):
    ones, zeros = torch.ones_like(x), torch.zeros_like(x)
    return x, ones, zeros, 1 / x.float().norm().item() * off


def test_a_number_that_the_reference_computes_itself():
    for off, label, code in ((1.0, "Type-I", None), (1 + 2.0**-18, "Inconclusive", "RND315"),
                             (1.005, "Type-II", "RND201")):  # fmt: skip
        v = classify(scaled, *handed_norm(rows(), off), ref=by_norm)
        assert v.label == label and code in (None, v.code)


def test_a_number_that_the_wrapper_computes_with():
    """The reciprocal in Python, a square root of it, and a number of the code beside it."""
    through = lambda x, w, s, norm: scaled(x, w, s, math.sqrt(1 / norm) * 0.7)  # noqa: E731
    ref = lambda x, w, s, norm: (x * w + s) * 0.7 / x.norm().sqrt()  # noqa: E731
    x, ones, zeros, factor = handed_norm(rows())
    assert classify(through, x, ones, zeros, 1 / factor, ref=ref).label == "Type-I"
    assert classify(through, x, ones, zeros, 1.01 / factor, ref=ref).label == "Type-II"


def test_a_wrong_number_does_not_hide_in_the_rounding_of_the_reference():
    """A gain of 2^-11 is less than one rounding to bfloat16, and more than one of the number."""
    x = rows().bfloat16()
    assert classify(scaled, *handed_norm(x), ref=by_norm_in_halves).label == "Type-I"
    assert classify(scaled, *handed_norm(x, 1 + 2.0**-11), ref=by_norm_in_halves).label == "Type-II"


def iterated(product, x):
    """The largest eigenvalue by powers, of which the bound is hollow and the reference's own rounding large."""
    a, v = product(x), torch.ones(x.shape[1])
    a = a.T @ a
    for _ in range(8):
        v = a @ v
        v = v / v.norm()
    return v @ a @ v


@pytest.mark.parametrize("beside", ["nothing", "what nobody reads", "what another output is made of"])
def test_what_an_output_is_not_made_of_excuses_nothing_in_it(beside):
    x, ones, wide = torch.randn(16, 2 * B), torch.ones(16, 2 * B), torch.rand(16, 2 * B)
    zeros, other = ones * 0, beside.startswith("what another")

    def run(x, w, gain):
        out = iterated(lambda x: scaled(x, ones, zeros, gain), x)
        return (out, scaled(x, w, zeros, 1.0)) if other else out

    def ref(x, w):
        out = iterated(lambda x: x * 1.0, x)
        return (out, x * wide) if other else out

    w = ones if beside == "nothing" else wide
    assert classify(lambda x, w: run(x, w, 1.0), x, w, ref=ref).label == "Type-I"
    assert classify(lambda x, w: run(x, w, 1.015), x, w, ref=ref).label == "Type-II"


ANGLES = torch.outer(torch.arange(8.0), 100.0 ** -torch.linspace(0, 1, 16))


def parted_turn(x, table, gain):
    """A rotation of the halves of x, by kernels, the table's numbers being complex ones or two tables."""
    c, s = (table.real, table.imag) if isinstance(table, torch.Tensor) else table
    (a, b), zeros = x.chunk(2, 1), torch.zeros(8, 16)
    first = scaled(a.contiguous(), c.contiguous(), zeros, gain), scaled(b.contiguous(), s.contiguous(), zeros, 1.0)
    return torch.cat([first[0] - first[1], a * s + b * c], 1)


@pytest.mark.parametrize("given", ["complex to the reference", "complex to the kernel", "complex as an input"])
@pytest.mark.parametrize(("gain", "label"), [(1.0, "Type-I"), (1.001, "Type-II")])
def test_complex_tables_are_tables(given, gain, label):
    turns, real = torch.polar(torch.ones(8, 16), ANGLES), (ANGLES.cos(), ANGLES.sin())
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(2))

    def plain(x, table=None):
        (a, b), (c, s) = x.chunk(2, 1), real
        return torch.cat([a * c - b * s, a * s + b * c], 1)

    def by_complex(x):
        return torch.cat((torch.complex(*x.chunk(2, 1)) * turns).view(torch.float32).view(8, 16, 2).unbind(-1), 1)

    if given.endswith("reference"):
        assert classify(lambda x: parted_turn(x, real, gain), x, ref=by_complex).label == label
    elif given.endswith("kernel"):
        assert classify(lambda x: parted_turn(x, turns, gain), x, ref=plain).label == label
    else:
        assert classify(lambda x, table: parted_turn(x, table, gain), x, turns, ref=plain).label == label


READINGS = {
    "bits": lambda x: x.view(torch.int32).clone().view(torch.float32),
    "an array": lambda x: torch.from_numpy(x.numpy() * np.float32(1)),
    "a capsule": lambda x: torch.from_numpy(np.from_dlpack(x) * np.float32(1)),
    "a list": lambda x: torch.tensor(x.tolist()),
}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("gain", "label"), [(1.0, "Type-I"), (1.001, "Type-II")])
def test_a_reference_reads_its_input_in_any_way(reading, gain, label):
    tables = ANGLES.double().cos().float(), ANGLES.double().sin().float()
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(2))

    def plain(x):
        (a, b), c, s = READINGS[reading](x).chunk(2, 1), ANGLES.cos(), ANGLES.sin()
        return torch.cat([a * c - b * s, a * s + b * c], 1)

    assert classify(lambda x: parted_turn(x, tables, gain), x, ref=plain).label == label


N = 64


def weighted(x, w):
    return scaled(x, w, torch.zeros_like(w))


def hann(off=1.0):
    return torch.from_numpy((np.hanning(N + 1)[:N] * off).astype(np.float32))


def gaussian(off=1.0):
    return torch.tensor([off * math.exp(-0.5 * ((i - 31.3) / 9.7) ** 2) for i in range(N)])


def decaying(off=1.0):
    return torch.as_tensor(off * np.power(0.97, np.arange(N)), dtype=torch.float32)


def angles(off=1.0):
    return torch.from_numpy(np.cos(np.arange(N, dtype=np.float64) * 0.37 * off).astype(np.float32))


TABLES = {  # made by the host code of the kernel, and by the reference in its own way
    "numpy": (hann, lambda: torch.hann_window(N)),
    "python": (gaussian, lambda: torch.exp(-(((torch.arange(N) - 31.3) / 9.7) ** 2) / 2)),
    "powers": (decaying, lambda: torch.tensor(0.97) ** torch.arange(N)),
    "angles": (angles, lambda: torch.cos(torch.arange(N).double() * 0.37).float()),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("off", [1.0, 1.002])
def test_a_table_that_the_host_makes_of_numbers_is_rounded(name, off):
    table, other = TABLES[name]
    x = torch.randn(N, generator=torch.Generator().manual_seed(11))
    found = classify(lambda x: weighted(x, table(off)), x, ref=lambda x: x * other(), budget=False)
    assert found.label == ("Type-I" if off == 1 else "Type-II"), found.code


def test_a_table_that_both_sides_make_alike_is_exact():
    x = torch.randn(N, generator=torch.Generator().manual_seed(11))
    found = classify(lambda x: weighted(x, hann()), x, ref=lambda x: x * hann() * (1 + 2**-22), budget=False)
    assert found.label == "Type-II", found.code
