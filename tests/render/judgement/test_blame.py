"""Who is wrong: cases whose answer is known, and the rows that say it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from interval_ops.formats.model import FP16, FP32
from render.judgement.blame import blame
from render.report.words import output_rows
from render.result.decision import Case, compare, decide
from tests.verdicts import classify


def case(value, ref, exact, half=0.1, **more):
    value, ref, exact = (np.array(x, np.float64) for x in (value, ref, exact))
    fields = {"fmt": FP32, "ref_fmt": FP32, "radius": lambda: np.full(ref.shape, 1.0), **more}
    return Case("c", value, value - half, value + half, ref, exact, lambda: (exact - 1e-9, exact + 1e-9), **fields)


@pytest.mark.parametrize(
    ("value", "ref", "exact", "device", "wrong"),
    [
        ([1.0, 2.0], [1.05, 2.0], [1.0, 2.0], None, "neither"),
        ([1.0, 2.0], [1.5, 2.0], [1.0, 2.0], None, "reference"),
        ([1.0, 2.0], [1.5, 2.0], [1.5, 2.0], None, "kernel"),
        ([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 3.0], "device"),
        ([1.0, np.nan], [1.0, 2.0], [1.0, 2.0], None, "kernel"),
        ([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, np.nan], "device"),
        ([1.0, np.nan], [1.0, 2.0], [1.0, 2.0], [1.0, np.nan], "kernel"),
    ],
)
def test_who(value, ref, exact, device, wrong):
    more = {} if device is None else {"device": np.array(device), "device_fmt": FP32}
    c = case(value, ref, exact, **more)
    assert blame(c, compare(c), decide(c)).wrong == wrong


def test_largest_errors_and_their_places():
    c = case([1.0, 2.0, np.inf], [0.625, 2.25, np.inf], [0.5, 2.0, np.inf], half=9.0)
    found = blame(c, compare(c), decide(c))
    assert (found.kernel_error, found.kernel_index) == (0.5, (0,))
    assert (found.reference_error, found.reference_index) == (0.25, (1,))
    assert found.exact_error is None
    wrong = case([1.0, 2.0], [1.5, 2.0], [1.5, 2.0])
    assert 0.9e-9 < blame(wrong, compare(wrong), decide(wrong)).exact_error < 1.1e-9
    one_sided = case([np.inf], [1.0], [1.0])
    assert blame(one_sided, compare(one_sided), decide(one_sided)).kernel_error == np.inf


def test_a_reference_that_carries_the_error_is_blamed():
    """Also where E is off by more than the bound is wide: the verdict and who errs are one answer."""
    c = case([1.0, 2.0], [1.5, 2.0], [1.0, 2.0])
    sure = blame(c, compare(c), decide(c))
    vague = replace(c, exact_ends=lambda: (c.exact - 3.0, c.exact + 3.0))
    assert decide(vague).code == "RND110"
    assert (sure.wrong, blame(vague, compare(vague), decide(vague)).wrong) == ("reference", "reference")


@triton.jit
def total(X, Out, N: tl.constexpr, WRONG: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out, tl.sum(tl.load(X + i).to(tl.float32)) * (1.5 if WRONG else 1.0))


def summed(x, wrong=False):
    out = torch.empty(1, dtype=torch.float32)
    total[(1,)](x, out, x.numel(), wrong)
    return out


def in_half(x, wrong=False):
    """Added up in float16, one after the other: far off, and its own rounding explains that."""
    acc = torch.zeros((), dtype=x.dtype)
    for value in x:
        acc = acc + value
    return acc.reshape(1).to(torch.float32 if x.dtype == torch.float16 else x.dtype)


@pytest.mark.parametrize(("wrong", "who"), [(False, "reference"), (True, "kernel")])
def test_a_weak_reference_and_a_wrong_kernel(wrong, who):
    torch.manual_seed(0)
    v = classify(summed, torch.rand(256).half(), wrong=wrong, ref=in_half)
    (found,) = [o.sides for o in v.outputs]
    assert (v.label, found.wrong) == (("Type-II", "kernel") if wrong else ("Type-I", "reference"))
    assert found.wrong == who
    assert (found.kernel_error > found.reference_error) is wrong
    rows = dict(output_rows(v.outputs[0]))
    assert rows["who errs"] == found.sentence
    assert "off from float64 by: kernel" in rows[""]
    written = json.loads(v.to_json())["outputs"][0]["sides"]
    assert (written["wrong"], written["sentence"]) == (who, found.sentence)


def test_memory_that_is_not_its_own():
    def short(x):
        out = torch.empty(1)
        total[(1,)](x, out, 2 * x.numel(), False)
        return out

    v = classify(short, torch.rand(64), ref=lambda x: x.sum().reshape(1))
    assert (v.code, v.outputs[0].sides.wrong, v.outputs[0].tolerance) == ("RND207", "memory", None)


def test_nothing_is_said_where_all_is_well():
    v = classify(summed, torch.rand(64), ref=lambda x: x.sum().reshape(1))
    assert "who errs" not in dict(output_rows(v.outputs[0]))


def test_fp16_is_rounded_last():
    c = case([1.0], [1.0], [1.0 + 2.0**-12], half=2.0**-11, fmt=FP16, ref_fmt=FP16)
    assert blame(c, compare(c), decide(c)).wrong == "neither"


@triton.jit
def copying(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i))


def copied(x):
    out = torch.empty_like(x)
    copying[(1,)](x, out, x.numel())
    return out


def test_a_reference_that_cancels_in_float64_too_is_not_blamed_for_sure():
    """(x / 1e6 + 1e12) - 1e12 keeps nothing of x in float32 and little in float64; only its error bound knows."""
    v = classify(copied, torch.linspace(0.5, 3.0, 16), ref=lambda x: ((x * 1e-6 + 1e12) - 1e12) * 1e6)
    found = v.outputs[0].sides
    assert (v.label, found.wrong) == ("Type-I", "unknown")
    assert found.exact_error > 1.0
    assert found.sentence == "which one is wrong cannot be told"


@triton.jit
def mean_kernel(X, Out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(Out + tl.program_id(0), tl.sum(x) / n)


def row_means(x):
    out = torch.empty(x.shape[0])
    mean_kernel[(x.shape[0],)](x, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out


def coarse_means(x):
    total = x.half().float()
    total = (total / 3).half()
    return (total.float() * 3).mean(-1)


def test_the_line_of_a_weak_reference_is_named():
    torch.manual_seed(0)
    v = classify(row_means, torch.rand(4, 100) + 1, ref=coarse_means, device="sm_90").wait()
    assert v.code == "RND110"
    assert any("the reference loses it in" in n and "test_blame.py" in n for n in v.notes), v.notes
