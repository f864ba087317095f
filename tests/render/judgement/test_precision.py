"""References that float64 does not give well enough: with more bits the right label both ways, and RND307 without."""

from __future__ import annotations

import json

import pytest
import torch
import triton
import triton.language as tl

from render.exact.numbers import Numbers
from render.reference.precise import evaluation
from render.report import html
from tests.verdicts import classify

N = 64


@triton.jit
def spreading(X, Out, SCALE: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0)
    x = tl.load(X + r * N + tl.arange(0, N))
    d = x - tl.sum(x) / N
    tl.store(Out + r, tl.sum(d * d) / N * SCALE)


def variance(x, scale=1.0):
    """In two passes."""
    out = torch.empty(len(x), dtype=x.dtype)
    spreading[(len(x),)](x, out, scale, N)
    return out


def one_pass(x, scale=1.0):
    return (x * x).mean(1) - x.mean(1) ** 2


@triton.jit
def lifting(X, Out, SCALE: tl.constexpr, SQUARE: tl.constexpr, EXP: tl.constexpr, B: tl.constexpr):
    x = tl.load(X + tl.arange(0, B))
    y = tl.exp(x) if EXP else x + x * x * SQUARE
    tl.store(Out + tl.arange(0, B), y * SCALE)


def copied(x, scale=1.0):
    return lifted(x, scale, 0.0)


def lifted(x, scale=1.0, square=0.5, exp=False):
    """x + x^2 / 2 by default: exp(x) - 1 for tiny x."""
    out = torch.empty_like(x)
    lifting[(1,)](x, out, scale, square, exp, x.numel())
    return out


def exponential(x, scale=1.0):
    return lifted(x, scale, exp=True)


def expm1(x, scale=1.0):
    return torch.exp(x) - 1


def absorbed(x, scale=1.0):
    return (x + 1e20) - 1e20


def series(x, scale=1.0):
    total, term = torch.ones_like(x), torch.ones_like(x)
    for k in range(1, 150):
        term = term * x / k
        total = total + term
    return total


def without_a_rule(x, scale=1.0):
    big = torch.special.laguerre_polynomial_l(0 * x, 2) * 1e20
    return (x + big) - big


def flipping(x, scale=1.0):
    y = (x + 1e20) - 1e20
    return torch.where(y > 0, y, y + 1)


def randn(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


FP32, FP64 = torch.float32, torch.float64
CASES = {
    "variance": (variance, one_pass, randn(8, N) + 1e8, 1.0001),
    "absorption": (copied, absorbed, randn(N), 1 + 2.0**-40),
    "absorption, zeros": (copied, absorbed, randn(N), 0.0),
    "expm1 fp64": (lifted, expm1, 1e-9 * randn(N).abs() + 1e-12, 1 + 2.0**-30),
    "expm1 fp32": (lifted, expm1, (1e-11 * randn(N).abs() + 1e-14).to(FP32), 1 + 2.0**-18),
    "series fp32": (exponential, series, (-30 - randn(N).abs()).to(FP32), 1.01),
    "series fp64": (exponential, series, -20 - randn(N).abs(), 1 + 2.0**-30),
}


@pytest.mark.parametrize("name", CASES)
def test_the_right_label_both_ways(name):
    entry, reference, x, fault = CASES[name]
    right = classify(entry, x, ref=reference, budget=False)
    wrong = classify(entry, x, fault, ref=reference, budget=False)
    assert (right.label, wrong.label, wrong.code) == ("Type-I", "Type-II", "RND201")
    assert right.finer and right.finer[0].rigorous and not right.finer[0].unknown and wrong.finer
    assert right.finer[0].error > right.finer[0].room
    assert wrong.outputs[0].sides.wrong == "kernel"
    assert wrong.witness is not None and wrong.witness.status == "agrees"


def blind(monkeypatch):
    monkeypatch.setattr(evaluation, "record", refuse)


def refuse(oracle, widened):
    raise evaluation.Refused("nothing has a rule")


@pytest.mark.parametrize("name", CASES)
def test_without_more_bits_neither_has_an_answer(name, monkeypatch):
    blind(monkeypatch)
    entry, reference, x, fault = CASES[name]
    for scale in (1.0, fault):
        v = classify(entry, x, scale, ref=reference, budget=False)
        assert (v.label, v.code, v.exit_code, v.subtype) == ("Inconclusive", "RND307", 3, "reference")
        assert "nothing has a rule" in v.message and v.outputs[0].sides.wrong == "unknown"


@pytest.mark.parametrize("scale", [1.0, 1.5])
@pytest.mark.parametrize(("reference", "named"), [(without_a_rule, "laguerre"), (flipping, "comparison (gt)")])
def test_what_hinders_is_named(reference, named, scale):
    v = classify(copied, randn(N).abs(), scale, ref=reference, budget=False)
    assert (v.label, v.code) == ("Inconclusive", "RND307")
    assert named in v.message and v.help
    assert named in json.loads(v.to_json())["finer"][0]["why"]


def test_the_reports_say_so():
    v = classify(variance, CASES["variance"][2], ref=one_pass, budget=False)
    said = v.finer[0].sentence
    assert said.startswith("evaluated in 128 bits in 8 of 8 elements of out: float64 was not enough")
    data = json.loads(v.to_json())
    assert data["finer"][0]["sentence"] == said and data["finer"][0]["bits"] == 128
    assert said in html.page(v)
    assert any("in 128 bits where that is not enough" in line for line in v.assumptions)
    from rich.console import Console

    console = Console(width=400)
    with console.capture() as shown:
        console.print(v)
    text = " ".join(shown.get().split())
    assert f"exact value {said[:40]}" in text and "8 / 8 in bound when the reference is recomputed in 128 bits" in text
    assert "float64" not in v.help[0] or "not enough" in v.help[0]


def test_too_much_work_is_said_and_leaves_no_answer(monkeypatch):
    monkeypatch.setattr(evaluation, "OPERATIONS", 1500.0)
    v = classify(variance, CASES["variance"][2], ref=one_pass, budget=False)
    assert (v.label, v.code) == ("Inconclusive", "RND307")
    assert v.finer[0].evaluated and v.finer[0].unknown and "too much work" in v.message
    # One element outside is enough for a bug.
    assert classify(variance, CASES["variance"][2], 1.0001, ref=one_pass, budget=False).code == "RND201"


def test_without_python_flint_the_error_is_said_to_be_an_estimate(monkeypatch):
    monkeypatch.setattr(Numbers, "rigorous", False)
    entry, reference, x, fault = CASES["variance"]
    right = classify(entry, x, ref=reference, budget=False)
    assert right.label == "Type-I" and "estimate" in right.finer[0].sentence
    assert classify(entry, x, fault, ref=reference, budget=False).code == "RND307"  # an estimate accuses nobody


@pytest.mark.parametrize("dtype", [FP32, FP64])
def test_where_float64_is_enough_nothing_else_is_evaluated(dtype):
    x = randn(8, N).to(dtype)
    entry = variance if dtype == FP32 else lifted
    reference = (lambda x: x.var(1, correction=0)) if dtype == FP32 else (lambda x: x + x * x / 2 + 1)
    v = classify(entry, x, ref=reference, budget=False)
    assert v.finer == () and "finer_s" not in v.timing
    assert v.label == ("Type-I" if dtype == FP32 else "Type-II")


def test_a_large_reference_is_looked_at_where_its_own_error_is_seen(monkeypatch):
    monkeypatch.setattr("render.judgement.precision.SMALL", 0)
    entry, reference, x, fault = CASES["series fp32"]
    assert classify(entry, x, ref=reference, budget=False).label == "Type-I"
    assert classify(entry, x, fault, ref=reference, budget=False).code == "RND201"
    # Small arguments: PyTorch's fp32 exponential differs between processors, and near -30 some of them leave the bound.
    plain = classify(exponential, randn(N).to(FP32) / 8, ref=lambda x: torch.exp(x), budget=False)
    assert plain.label == "Type-I" and plain.finer == ()


def half_of(x, scale=1.0):
    return (x.half() + 0.0).to(x.dtype)


def test_casts_of_the_reference_are_no_lack_of_bits():
    v = classify(copied, randn(N).to(FP32), ref=half_of, budget=False)
    assert v.finer == () and v.label == "Type-I"


def test_what_is_a_bug_anyway_takes_no_further_evaluation(monkeypatch):
    blind(monkeypatch)
    x = CASES["variance"][2].clone()
    x[3] = randn(N)
    v = classify(variance, x, 1.0001, ref=one_pass, budget=False)  # row 3 is well-conditioned
    assert (v.label, v.code, v.finer) == ("Type-II", "RND201", ())
