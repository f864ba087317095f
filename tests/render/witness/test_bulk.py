"""Operations evaluated as a whole agree with their plain formulas, and hold what legal executions make."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from interval_ops.formats.model import FORMATS
from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.exact import intervals as iv
from render.exact.points import up
from render.trace import slice_of
from render.witness import bulk
from render.witness.check import rechecked
from render.witness.evaluate import Evaluator
from render.witness.make import Claim, document
from tests.render.witness import test_make as legal
from tests.render.witness.table import Case, language

LANGUAGE = [c for c in language() if not c.name.startswith("welford")]


@pytest.fixture
def always(monkeypatch):
    """Everything that can be is evaluated as a whole."""
    monkeypatch.setattr(bulk, "MANY", 1)
    monkeypatch.setattr(bulk, "VERY_MANY", 1)


@pytest.mark.parametrize("case", LANGUAGE, ids=lambda c: c.name)
def test_as_a_whole_it_holds_the_plain_enclosure_and_little_more(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    args = case.args()
    call = Entry(case.fn, of_call(case.fn, args, {}), case.device)
    run = call.run()
    for output in run.outputs:
        places = np.argwhere(np.isfinite(output.hi - output.lo))
        made = document(
            slice_of(call, run, output.name, tuple(map(int, places[len(places) // 2]))), Claim("", 0.0, 0.0)
        )
        plain = Evaluator(made).result()
        with monkeypatch.context() as patch:
            patch.setattr(bulk, "MANY", 1)
            patch.setattr(bulk, "VERY_MANY", 1)
            many = Evaluator(made).result()
        assert plain is not None and many is not None
        assert plain[0] >= many[0] and many[1] >= plain[1]
        size = float(iv.magnitude(plain))
        assert wide(many) <= 2.01 * wide(plain) + 2.0**-36 * size, "twice as wide where an end passes a tie"


def wide(x):
    return float(up(x[1], -x[0]))


@pytest.mark.parametrize(
    "kernel", [k for k in legal.SUBJECTS if k in ("cross_entropy", "layer_norm", "matmul_split_k", "rms_norm")]
)
def test_legal_executions_stay_inside_of_it_too(kernel, always):
    legal.test_legal_executions_stay_inside(kernel)


def test_a_wrong_formula_for_many_is_found_out(always, monkeypatch):
    x = torch.rand(64)
    monkeypatch.setitem(bulk.RULES, "exp", lambda e, op, rows: (np.zeros(len(rows)), np.full(len(rows), 1e-3)))
    found = render.classify(total_of, x, ref=lambda x: torch.exp(x).sum().reshape(1) * 1.5, budget=False)
    assert (found.label, found.code) == ("Inconclusive", "RND308")
    assert "two evaluations of exp differ" in found.message


@triton.jit
def summing(X, Out, N, B: tl.constexpr):
    acc = tl.zeros((B,), tl.float32)
    for start in range(0, N, B):
        i = start + tl.arange(0, B)
        acc += tl.exp(tl.load(X + i, mask=i < N, other=-float("inf")))
    tl.store(Out, tl.sum(acc, 0))


def total_of(x):
    out = torch.empty(1)
    summing[(1,)](x, out, x.numel(), 64 if x.numel() < 1000 else 4096)
    return out


@triton.jit
def combined(m0, s0, w0, m1, s1, w1):
    d = m1 - m0
    w = w0 + w1
    r = tl.where(w == 0.0, 0.0, w1 / w)
    return m0 + d * r, s0 + s1 + d * d * w0 * r, w


@triton.jit
def spread(X, Out, N: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))
    _, s, w = tl.reduce((x, tl.zeros((N,), tl.float32), tl.full((N,), 1.0, tl.float32)), 0, combined)
    tl.store(Out, s / w)


def variance_of(x):
    out = torch.empty(1)
    spread[(1,)](x, out, x.numel())
    return out


def test_merged_moments_of_many_parts_have_a_witness_close_to_the_bound():
    x = torch.randn(4096) + 2
    call = Entry(variance_of, of_call(variance_of, (x,), {}))
    (out,) = call.run().outputs
    by = 1 + 1.2 * float(out.hi[0] - out.value[0]) / float(out.value[0])
    found = render.classify(variance_of, x, ref=lambda x: x.var(unbiased=False).reshape(1) * by, budget=False)
    assert (found.code, found.witness.status) == ("RND201", "agrees")


def test_a_sum_of_a_hundred_thousand_terms_has_a_witness():
    x = torch.rand(100_000)
    found = render.classify(total_of, x, ref=lambda x: torch.exp(x).sum().reshape(1) * 1.01, budget=False)
    assert (found.code, found.witness.status) == ("RND201", "agrees")
    assert rechecked(found.witness.document).agrees


@triton.jit
def divided_softmax(X, Out, t, N, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + i, mask=i < N, other=-float("inf")) / t
    e = tl.exp(x - tl.max(x))
    tl.store(Out + i, e / tl.sum(e), mask=i < N)


def cooled(x):
    out = torch.empty_like(x)
    divided_softmax[(1,)](x, out, 0.8, len(x), B=64)
    return out


@triton.jit
def difference(X, Y, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out, tl.max(tl.load(X + i) - tl.load(Y + i)))


def largest_difference(x, y):
    out = torch.empty(1)
    difference[(1,)](x, y, out, B=len(x))
    return out


@pytest.mark.parametrize(("above", "below"), ((1e38, -1e-42), (-3e38, 1e-30)))
def test_a_sum_whose_end_only_float64_gives_exactly_is_no_disagreement(always, above, below):
    x, y = torch.full((32,), above), torch.full((32,), below)
    found = render.classify(largest_difference, x, y, ref=lambda x, y: (x - y).amax().reshape(1) * 2, budget=False)
    assert (found.label, found.code) == ("Type-II", "RND201")


def test_infinite_lanes_that_are_divided_stay_infinite_and_the_fault_is_confirmed(always):
    found = render.classify(cooled, torch.randn(40), ref=lambda x: torch.softmax(x / 0.7, 0), budget=False)
    assert (found.label, found.code) == ("Type-II", "RND201")


@pytest.mark.parametrize("end", (-np.inf, np.inf))
@pytest.mark.parametrize("r", (2.0**-22, 2.0**-20))
def test_the_error_of_a_function_leaves_infinities(end, r):
    error = {"r": r, "a": 0.0, "ftz": False}
    low, high = bulk.within((np.array([end]), np.array([end])), error, FORMATS["fp32"], False)
    assert low[0] == high[0] == end
