"""What-ifs are re-runs: their factors agree with widths that are known without them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.explain.requests import ieee_help
from render.report.details import what_if_rows
from render.result.records import Counterfactual

N = 64


@triton.jit
def product(X, Y, Out, N: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, N)
    offs = i[:, None] * N + i[None, :]
    tl.store(Out + offs, tl.dot(tl.load(X + offs), tl.load(Y + offs), input_precision=PRECISION))


def matmul(x, y, precision="tf32"):
    out = torch.empty_like(x)
    product[(1,)](x, y, out, N, precision)
    return out


@triton.jit
def narrow_sum(X, Out, N: tl.constexpr):
    tl.store(Out, tl.sum(tl.load(X + tl.arange(0, N))))


def total(x):
    out = torch.empty(1, dtype=x.dtype)
    narrow_sum[(1,)](x, out, x.numel())
    return out


@triton.jit
def narrowing(X, Out, SCALE, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, (tl.load(X + i) * SCALE).to(tl.float16).to(tl.float32))


def narrowed(x):
    out = torch.empty_like(x)
    narrowing[(1,)](x, out, 0.7, x.numel())
    return out


def found(verdict):
    return {c.key: c for c in verdict.counterfactuals}


def operands():
    torch.manual_seed(1)
    return torch.randn(N, N), torch.randn(N, N)


def median_half(verdict):
    return verdict.outputs[0].bound.median_half_width


def test_ieee_factor_is_that_of_the_kernel_with_ieee():
    x, y = operands()
    tf32 = render.classify(matmul, x, y, ref=torch.mm, device="sm_80", explain=["counterfactuals"])
    ieee = render.classify(matmul, x, y, precision="ieee", ref=lambda x, y, precision: torch.mm(x, y), device="sm_80")
    expected = median_half(tf32) / median_half(ieee)
    assert expected > 10
    assert found(tf32)["ieee"].shrink == pytest.approx(expected, rel=1e-12)
    factor = f"{expected:.2g}" if expected < 100 else f"{expected:.3g}"
    assert f"{factor}x (re-run)" in tf32.help[0]


@pytest.mark.parametrize("name", ["ieee", "sm_90", "gfx942"])
def test_a_device_factor_is_that_of_a_classification_for_it(name):
    x, y = operands()
    here = render.classify(matmul, x, y, ref=torch.mm, device="sm_80", explain=["counterfactuals"])
    there = render.classify(matmul, x, y, ref=torch.mm, device=name)
    assert found(here)[f"device:{name}"].shrink == pytest.approx(median_half(here) / median_half(there), rel=1e-12)


def test_a_device_that_refuses_the_kernel_is_reported():
    verdict = render.classify(matmul, *operands(), ref=torch.mm, device="sm_80", explain=["counterfactuals"])
    refused = found(verdict)["device:gfx90a"]  # has no TF32
    assert "tf32" in refused.note
    assert refused.label == ""


def test_float32_accumulator_leaves_one_rounding_of_the_output():
    x = torch.rand(512).half() + 1
    verdict = render.classify(total, x, ref=lambda x: x.sum().reshape(1), explain="counterfactuals")
    wide = found(verdict)["fp32-accumulator"]
    exact = float(x.double().sum())
    one_rounding = 2.0**-11 * exact
    left = median_half(verdict) / wide.shrink
    assert one_rounding <= left <= 3 * one_rounding  # the sum's own, and the output's on top
    assert wide.shrink > 50
    assert verdict.help[0] == f"bound shrinks {wide.shrink:.3g}x with float32 accumulators (re-run)"
    assert "shrinks" not in " ".join(render.classify(total, x, ref=lambda x: x.sum().reshape(1)).help)


def test_without_casts_the_multiplication_is_left():
    verdict = render.classify(narrowed, torch.rand(256) + 1, ref=lambda x: x * 0.7, explain="counterfactuals")
    shrink = found(verdict)["no-casts"].shrink
    assert 2.0**11 < shrink < 2.0**14  # 2^-11 of float16 against 2^-24 of float32


def test_no_time_is_no_answer():
    calls = []
    verdict = render.classify(matmul, *operands(), ref=torch.mm, explain="counterfactuals", explain_seconds=-1.0,
                              progress=lambda *a: calls.append(a))  # fmt: skip
    assert verdict.counterfactuals == ()
    assert calls == []
    assert any("counterfactuals were left out" in n for n in verdict.notes)


def test_no_factor_without_a_run():
    verdict = render.classify(matmul, *operands(), ref=torch.mm, budget=False)
    assert not any("shrinks" in line for line in verdict.help)
    assert "shrinks" not in ieee_help(None)


def test_progress_counts_the_runs():
    calls = []
    render.classify(matmul, *operands(), ref=torch.mm, explain="counterfactuals", progress=lambda *a: calls.append(a))
    assert [c[0] for c in calls] == list(range(calls[0][1]))


def test_a_verdict_that_would_change_is_said():
    torch.manual_seed(0)
    x, y = operands()
    cut = [(t.view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (x, y)]
    off = torch.mm(*cut)  # a device output that only TF32 explains
    verdict = render.classify(matmul, x, y, ref=torch.mm, output=off, device="sm_80", explain="counterfactuals")
    assert verdict.label == "Type-I"
    assert (found(verdict)["ieee"].label, found(verdict)["ieee"].code) == ("Type-II", "RND202")
    rows = dict(what_if_rows(verdict.counterfactuals, verdict.label))
    assert "the verdict becomes Type-II RND202" in rows['input_precision="ieee"']


def test_words_and_json():
    item = Counterfactual("k", "what", math.inf, "Type-I", "", 0.1)
    assert item.sentence == "bound vanishes with what"
    assert Counterfactual("k", "what", 0.5, "Type-I", "", 0.1).effect == "bound grows 2x"
    verdict = render.classify(matmul, *operands(), ref=torch.mm, explain="counterfactuals")
    data = verdict.to_dict()["counterfactuals"]
    assert {"key", "what", "shrink", "label"} <= data[0].keys()
    assert np.isfinite(data[0]["shrink"])


def test_unknown_explanation():
    with pytest.raises(render.RenderError, match="no explanation is called 'why'"):
        render.classify(matmul, *operands(), ref=torch.mm, explain="why")
