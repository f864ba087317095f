"""The labelled probabilistic band: hollow bounds of right kernels, wrong twins, and the formula against executions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.result.margins import SIGMA, probable
from render.trace.adjoint import contributions
from render.trace.element import slice_of
from tests.verdicts import classify


@triton.jit
def summing(X, Out, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(Out + row, tl.sum(tl.load(X + row * N + tl.arange(0, N)), 0))


def sums(x, scale=1.0):
    out = torch.empty(len(x), dtype=x.dtype)
    summing[(len(x),)](x, out, x.shape[1])
    return out * scale if scale != 1.0 else out


def in_two(x):
    return sums(sums(x.view(-1, x.shape[1] // 2)).view(len(x), 2))


def shortened(x):
    x = x.clone()
    x[:, ::32] = 0
    return sums(x)


def scaled(x):
    return sums(x * 1.02)


def wide(x):
    return x.double().sum(1).to(x.dtype)


def data(n=4096, rows=8, seed=0):
    return torch.randn(rows, n, generator=torch.Generator().manual_seed(seed)).half() + 1.0


@pytest.mark.parametrize(("kernel", "n"), [(sums, 4096), (in_two, 8192)])
def test_a_hollow_bound_of_a_right_kernel_is_probably_round_off(kernel, n):
    v = classify(kernel, data(n), ref=wide, device="sm_80")
    assert (v.label, v.code, v.subtype) == ("Type-I", "RND120", "probabilistic")
    (band,) = [e for e in v.evidence if e.name.endswith("/band")]
    assert band.kind == "estimate" and band.value <= 1
    assert any("independent" in line for line in v.assumptions)


@pytest.mark.parametrize("kernel", [shortened, scaled])
def test_its_wrong_twins_are_not(kernel):
    assert classify(kernel, data(), ref=wide, device="sm_80").label != "Type-I"


def test_a_device_output_beyond_the_band_is_not_explained():
    """Inside the hollow bound, a hundred times further out than roundings come: no Type-I."""
    x = data()
    y = wide(x)
    assert classify(sums, x, ref=wide, device="sm_80", output=y).label == "Type-I"
    assert classify(sums, x, ref=wide, device="sm_80", output=(y * 1.25).half()).label == "Inconclusive"


def test_the_band_holds_executions_and_is_no_wider_than_a_few_of_their_errors():
    """float16 sums in random orders, against exact ones: none leaves six standard deviations."""
    x = data(1024, rows=2)
    entry = Entry(sums, of_call(sums, (x,), {}), "sm_80")
    run = entry.run()
    rng = np.random.default_rng(0)
    for row in range(2):
        band = contributions(slice_of(entry, run, run.outputs[0].name, [row])).band
        terms = x[row].double().numpy()
        off = []
        for _ in range(20):
            total = np.cumsum(rng.permutation(terms).astype(np.float16), dtype=np.float16)[-1]
            off.append(abs(float(total) - terms.sum()))
        assert max(off) <= band <= 60 * np.median(off)


def test_the_formula():
    assert probable(4.0) == 2 * SIGMA and probable(0.0, -3.0) == 3.0
