"""Combine functions beyond sums: pairs of maximum and sum, and functions whose result is a matter of grouping."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from render.classify import classify
from render.result.errors import KernelError


@triton.jit
def pair(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, s1 * tl.exp(m1 - m) + s2 * tl.exp(m2 - m)


@triton.jit
def pair2(s1, m1, s2, m2):
    top = tl.maximum(m1, m2)
    a = tl.math.exp2(m1 - top)
    return a * s1 + tl.math.exp2(m2 - top) * s2, top


@triton.jit
def one_sided(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, s1 + s2 * tl.exp(m2 - m)


@triton.jit
def complex_product(a, b, c, d):
    return a * c - b * d, a * d + b * c


@triton.jit
def unscaled(a, b, c, d):
    return a * c, b * 0.5 + d


@triton.jit
def guarded_mean(m, n, p, q):
    return (m * n + p * q) / (n + q + 1e-7), n + q


@triton.jit
def plain_mean(a, b):
    return (a + b) * 0.5


@triton.jit
def folding(X, Out, N: tl.constexpr, KIND: tl.constexpr):
    x = tl.load(X + tl.program_id(0) * N + tl.arange(0, N))
    one = tl.full((N,), 1.0, tl.float32)
    if KIND == "pair":
        m, s = tl.reduce((x, one), 0, pair)
        y = m + tl.log(s)
    elif KIND == "pair2":
        s, m = tl.reduce((one, x * 1.4426950408889634), 0, pair2)
        y = (m + tl.log2(s)) * 0.6931471805599453
    elif KIND == "one sided":
        m, s = tl.reduce((x, one), 0, one_sided)
        y = m + tl.log(s)
    elif KIND == "complex":
        y, _ = tl.reduce((x, one), 0, complex_product)
    elif KIND == "unscaled":
        _, y = tl.reduce((x, x), 0, unscaled)
    elif KIND == "guarded mean":
        y, _ = tl.reduce((x, one), 0, guarded_mean)
    elif KIND == "mean":
        y = tl.reduce(x, 0, plain_mean)
    else:
        _, s = tl.associative_scan((x, x), 0, unscaled)
        y = tl.sum(tl.where(tl.arange(0, N) == N - 1, s, 0.0), 0)
    tl.store(Out + tl.program_id(0), y)


def folded(x, kind):
    out = torch.empty(len(x))
    folding[(len(x),)](x, out, x.shape[1], kind)
    return out


def data():
    return torch.randn(4, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", ["pair", "pair2"])
def test_pairs_of_maximum_and_sum_are_round_off(kind):
    v = classify(folded, data(), kind, ref=lambda x, kind: torch.logsumexp(x, 1), device="sm_90")
    assert v.label == "Type-I" and not v.taints


RETURNED = ("return m, s1 + s2 * tl.exp(m2 - m)", "return a * c, b * 0.5 + d", "return (a + b) * 0.5")


@pytest.mark.parametrize("kind", ["one sided", "unscaled", "mean", "scan"])
def test_a_result_that_groupings_decide_is_a_bug(kind):
    v = classify(folded, data(), kind, ref=lambda x, kind: x.sum(1), device="sm_90")
    assert (v.label, v.code, v.subtype) == ("Type-II", "RND213", "associativity")
    assert v.file == __file__ and "grouped" in v.message
    assert Path(__file__).read_text().splitlines()[v.line - 1].strip() in RETURNED


@pytest.mark.parametrize("kind", ["complex", "guarded mean", "pair"])
def test_what_is_associative_is_not_accused(kind):
    v = classify(folded, data(), kind, ref=lambda x, kind: x.sum(1), device="sm_90")
    assert v.code != "RND213"


@triton.jit
def _narrow(a, b):
    return (a + b).to(tl.float16)


@triton.jit
def _truth(a, b):
    return a > b


@triton.jit
def _mixed(a, i, b, j):
    return a + b, (i + j).to(tl.float32)


@triton.jit
def _one(a, i, b, j):
    return a + b


@triton.jit
def _combining(X, Out, WHAT: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(X + at)
    if WHAT == "narrow":
        tl.store(Out, tl.reduce(x, 0, _narrow))
    elif WHAT == "scanned":
        tl.store(Out + at, tl.associative_scan(x, 0, _narrow))
    elif WHAT == "truth":
        tl.store(Out, tl.reduce(x, 0, _truth))
    elif WHAT == "mixed":
        tl.store(Out, tl.reduce((x, at), 0, _mixed)[0])
    else:
        tl.store(Out, tl.reduce((x, at), 0, _one))


@pytest.mark.parametrize(("what", "said"), [
    ("narrow", "fp16 for fp32"), ("scanned", "fp16 for fp32"), ("truth", "int1 for fp32"),
    ("mixed", "fp32, fp32 for fp32, int32"), ("one", "fp32 for fp32, int32"),
])  # fmt: skip
def test_a_combine_function_returns_what_it_takes(what, said):
    """As the verifier of `tt.reduce` and `tt.scan` asks, which Triton's own front end runs into."""

    def run(x):
        out = torch.zeros(16)
        _combining[(1,)](x, out, what, 16)
        return out

    with pytest.raises(KernelError, match=f"AssertionError: the combine function returns {said}"):
        classify(run, torch.rand(16), ref=lambda x: x)
