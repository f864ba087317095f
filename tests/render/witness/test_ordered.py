"""With a known order of sums the second evaluation follows it: as close as the bound, and legal executions inside."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from interval_ops.formats.model import FORMATS
from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.trace import slice_of
from render.witness.make import Claim, make
from tests.support import rng, round_fraction, trials

N, K = 16, 96


@triton.jit
def product(A, B, C, Out, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr, BY: tl.constexpr):
    n, k = tl.arange(0, N), tl.arange(0, BK)
    at = n[:, None] * N + n[None, :]
    acc = tl.zeros((N, N), tl.float32)
    if HOW == "begins with c":
        acc += tl.load(C + at)
    for start in range(0, K, BK):
        a = tl.load(A + n[:, None] * K + (start + k)[None, :])
        x = tl.load(B + (start + k)[:, None] * N + n[None, :])
        if HOW == "passed on":
            acc = tl.dot(a, x, acc, input_precision="ieee")
        else:
            acc += tl.dot(a, x, input_precision="ieee")
    if HOW == "ends with c":
        acc += tl.load(C + at)
    tl.store(Out + at, acc * BY)


HOWS = ("added", "passed on", "begins with c", "ends with c")


def call(how, by=1.0):
    def fn(a, x, c):
        out = torch.empty(N, N)
        product[(1,)](a, x, c, out, N, K, 32, how, by)
        return out

    return fn


def operands(seed=3):
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*s, generator=g) for s in ((N, K), (K, N), (N, N)))


def enclosure(how, at):
    args = operands()
    entry = Entry(call(how), of_call(call(how), args, {}), options={"sum_order": "tree"})
    run = entry.run()
    (out,) = run.outputs
    hi, lo = float(out.hi[at]), float(out.lo[at])
    _, answer = make(slice_of(entry, run, "out", at), Claim("reference", hi + 100.0, hi + 100.0))
    assert answer.agrees, answer.why
    return tuple(float.fromhex(end) for end in answer.enclosure), (lo, hi), args


@pytest.mark.parametrize("how", HOWS)
def test_it_is_as_close_as_the_bound(how):
    (low, high), (lo, hi), _ = enclosure(how, (5, 7))
    assert high - low <= 1.5 * (hi - lo) + 2.0**-40 and low <= hi and lo <= high


def rounded(x: Fraction) -> Fraction:
    """To fp32, to nearest even."""
    return round_fraction(x, FORMATS["fp32"])


@pytest.mark.parametrize("how", HOWS)
def test_every_way_to_lower_it_stays_inside(how):
    at = (2, 11)
    (low, high), _, (a, x, c) = enclosure(how, at)
    r = rng(2)
    for _ in range(trials(12)):
        total = Fraction(float(c[at])) if how == "begins with c" else Fraction(0)
        for start in range(0, K, 32):
            alone = how != "passed on" and bool(r.integers(2))
            s = Fraction(0) if alone else total
            for k in range(start, start + 32):
                s = rounded(s + Fraction(float(a[at[0], k])) * Fraction(float(x[k, at[1]])))
            total = rounded(total + s) if alone else s
        total = rounded(total + Fraction(float(c[at]))) if how == "ends with c" else total
        assert Fraction(low) <= total <= Fraction(high)


def test_a_fault_that_only_the_known_order_shows_has_a_witness():
    a, x, c = (torch.rand(s.shape) for s in operands())
    wrong = call("added", 1 + 2.0**-20)
    found = [
        render.classify(wrong, a, x, c, ref=lambda a, x, c: a @ x, sum_order=order, budget=False)
        for order in ("any", "tree")
    ]
    assert found[0].code != "RND201"
    assert (found[1].label, found[1].code, found[1].witness.status) == ("Type-II", "RND201", "agrees")


def test_a_sum_that_is_too_long_keeps_its_order_open(monkeypatch):
    monkeypatch.setattr("render.witness.ordered.STEPS", 10)
    (low, high), (lo, hi), _ = enclosure("added", (5, 7))
    assert high - low > 2 * (hi - lo) and np.isfinite(high - low)
