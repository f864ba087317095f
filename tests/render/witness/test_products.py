"""Dots without rounding, evaluated together: what their formula encloses, and no more than float64's own error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.exact import intervals as iv
from render.exact.points import up
from render.trace import slice_of
from render.witness import products
from render.witness.evaluate import Evaluator
from render.witness.make import Claim, document
from render.witness.unrounded import unrounded

N, D = 64, 32


@triton.jit
def attention_kernel(Q, K, V, Out, LATER: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, d = tl.arange(0, N), tl.arange(0, D)
    at = i[:, None] * D + d[None, :]
    q, k, v = tl.load(Q + at), tl.load(K + at), tl.load(V + at)
    s = tl.zeros((N, N), tl.float32)
    s = s + tl.dot(q, tl.trans(k)) if LATER else tl.dot(q, tl.trans(k), s)
    p = tl.exp(s - tl.max(s, 1)[:, None])
    tl.store(Out + at, tl.dot(p / tl.sum(p, 1)[:, None], v))


def attention(q, k, v, later):
    out = torch.empty_like(q)
    attention_kernel[(1,)](q, k, v, out, later, N, D)
    return out


@triton.jit
def chain_kernel(A, B, Out, N: tl.constexpr, D: tl.constexpr):
    i, d = tl.arange(0, D), tl.arange(0, N)
    a, b = tl.load(A + i[:, None] * N + d[None, :]), tl.load(B + d[:, None] * D + i[None, :])
    acc = tl.zeros((D, D), tl.float32) + 1.0
    tl.store(Out + i[:, None] * D + i[None, :], tl.dot(a, b, tl.dot(a, b, acc)))


def chain(a, b):
    out = torch.empty(D, D)
    chain_kernel[(1,)](a, b, out, N, D)
    return out


def documented(fn, *args):
    call = Entry(fn, of_call(fn, args, {}), "sm_90")
    run = call.run()
    (name,) = (o.name for o in run.outputs)
    return unrounded(document(slice_of(call, run, name, (5, 7)), Claim("", 0.0, 0.0)))


@pytest.fixture(scope="module", params=[False, True], ids=["in dot", "added later"])
def scores(request):
    torch.manual_seed(0)
    return documented(attention, *(torch.randn(N, D) for _ in range(3)), request.param)


def test_together_they_hold_the_plain_enclosure_and_float64s_error(scores, monkeypatch):
    made = []
    monkeypatch.setattr(products, "evaluate", lambda *a, f=products.evaluate: made.append(f(*a)) or made[-1])
    many = Evaluator(scores).result()
    assert any(found is not None and len(found[0]) == N for found in made), "the scores of a row at once"
    monkeypatch.setattr(products, "MANY", 1 << 40)
    plain = Evaluator(scores).result()
    assert plain[0] >= many[0] and many[1] >= plain[1]
    assert wide(many) <= wide(plain) + 2.0**-44 * float(iv.magnitude(plain))


def wide(x):
    return float(up(x[1], -x[0]))


def test_the_mean_value_form_takes_them_together_too(scores, monkeypatch):
    around = Evaluator(scores).result()
    claim = iv.interval(float(around[0]), float(around[1]))
    narrow = iv.interval(*[float(sum(map(float, claim))) / 2] * 2)
    many = Evaluator(scores).result(narrow)
    monkeypatch.setattr(products, "MANY", 1 << 40)
    plain = Evaluator(scores).result(narrow)
    assert many[0] <= narrow[0] <= many[1]
    assert wide(many) <= wide(plain) + 2.0**-40 * float(iv.magnitude(plain))


def test_a_chain_and_a_unit_that_rounds_keep_their_formula(scores, monkeypatch):
    monkeypatch.setattr(products, "MANY", 1)
    torch.manual_seed(0)
    longer = Evaluator(documented(chain, torch.randn(D, N), torch.randn(N, D)))
    longer.result()
    op = next(op for op in reversed(longer.ops) if op.op == "dot")
    assert products.factors(longer, op, np.array([0])) is None
    rounding = {kind: {**model, "rho": 2.0**-24} for kind, model in scores["rules"]["dots"].items()}
    other = Evaluator({**scores, "rules": {**scores["rules"], "dots": rounding}})
    assert all(products.factors(other, op, np.array([0])) is None for op in other.ops if op.op == "dot")


def test_a_wrong_sum_is_found_out(scores, monkeypatch):
    monkeypatch.setattr(products, "_folded", lambda x: (x[0][:, 0], x[1][:, 0]))
    with pytest.raises(ArithmeticError, match="two evaluations of"):
        Evaluator(scores).result()


@pytest.mark.parametrize("k", [1, 2, 3, 31, 64])
def test_folded_sums_enclose_the_exact_one(k):
    rng = np.random.default_rng(k)
    low = rng.standard_normal((5, k)) * 2.0 ** rng.integers(-60, 60, (5, k))
    high = low + np.abs(low) * rng.choice([0.0, 2.0**-30], (5, k))
    for x, y, *ends in zip(low, high, *products._folded((low, high)), strict=True):
        exact = [sum(map(Fraction, end.tolist())) for end in (x, y)]
        assert Fraction(ends[0]) <= exact[0] and exact[1] <= Fraction(ends[1])
        assert ends[1] - ends[0] <= float(exact[1] - exact[0]) + 2.0**-49 * float(np.abs(y).sum())
