"""Shares of the bound: on real kernels to first order, and on made-up widths whose decomposition is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.entry.execution import WORTH_WORK
from render.explain.budget import NOTHING, Budget, Halves, confirm, halves_of, left_out
from render.lab.corpus.case import load_case
from render.lab.corpus.judge import judge
from render.result.packaged import folder
from render.result.records import BudgetBasis
from render.result.verdict import BudgetItem

WIDTHS = {("operand", "k.py", 3): 6.0, ("cast", "k.py", 5): 3.0, ("cast", "k.py", 6): 1.0, ("arith", "k.py", 7): 0.0}
N = 32


def total(mute=(), combine=sum):
    mute = set(mute)
    kept = [w for cause, w in WIDTHS.items() if cause not in mute and cause[0] not in mute]
    width = float(combine(kept)) if kept else 0.0
    return Halves((width,), (2 * width,))


@triton.jit
def multiplying(X, Y, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i[:, None] * N + i[None, :])
    y = tl.load(Y + i[:, None] * N + i[None, :])
    z = tl.dot(x, y)
    tl.store(Out + i[:, None] * N + i[None, :], (z * 3.0).to(tl.float16))


def multiplied(x, y):
    out = torch.empty(x.shape, dtype=torch.float16)
    multiplying[(1,)](x, y, out, N)
    return out


@triton.jit
def summing(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.sort(tl.load(X + i) * 1.1))


def sorted_(x):
    out = torch.empty_like(x)
    summing[(1,)](x, out, N)
    return out


def exactly(x, y):
    return (x @ y * 3).half()


@pytest.fixture(scope="module")
def verdict():
    x = torch.randn(2, N, N, generator=torch.Generator().manual_seed(1))
    return render.classify(multiplied, x[0], x[1], ref=exactly).wait()


def test_shares_add_up_and_name_lines(verdict):
    first = multiplying.fn.__code__.co_firstlineno
    assert sum(i.share for i in verdict.budget) == pytest.approx(1.0, abs=1e-9)
    assert verdict.budget_basis.method == "first order"
    lines = {i.key: i.line - first for i in verdict.budget}
    assert (lines["operand"], lines["accumulation"], lines["cast"]) == (5, 5, 6)
    for item in verdict.budget:
        assert sum(x.share for x in item.lines) == pytest.approx(item.share, rel=1e-6)


def test_first_order_is_close_to_the_bound_here_and_says_how_close(verdict):
    assert {role for _, _, role, _ in verdict.budget_basis.covered} == {"worst", "median"}
    assert all(0.95 < covered < 1.05 for *_, covered in verdict.budget_basis.covered)
    assert "to first order" in verdict.budget_basis.sentence


def test_the_largest_cause_is_confirmed_by_a_run(verdict):
    top = verdict.budget[0]
    assert (top.key, top.confirmed) == ("operand", True)
    assert top.shrink > 2
    assert any("(re-run)" in line for line in verdict.help)
    assert not any(i.confirmed for i in verdict.budget[1:])


def test_shares_agree_with_leaving_a_cause_out(verdict):
    """The share of a cause is what one run without it takes from the half width of an element; the median stands in."""
    left = 1 / verdict.budget[0].shrink
    assert verdict.budget[0].share == pytest.approx(1 - left, abs=0.2)


def test_what_cannot_be_cut_is_measured_by_runs(monkeypatch):
    monkeypatch.setattr("render.interpreter.ordering.Ordering._told", lambda *_: None)
    found = render.classify(sorted_, torch.randn(N), ref=lambda x: (x * 1.1).sort().values)
    assert (found.label, found.budget_basis.method) == ("Type-I", "re-run")
    assert found.budget[0].key == "arith"


def test_the_budget_is_the_same_twice(verdict):
    x = torch.randn(2, N, N, generator=torch.Generator().manual_seed(3))
    one, two = (render.classify(multiplied, x[0], x[1], ref=exactly) for _ in range(2))
    assert (one.budget, one.budget_basis, one.code) == (two.budget, two.budget_basis, two.code)


FLIP = ("cast", "accumulation")
"""A last rounding that falls the other way, and what tips it."""

ROOT_CAUSES = {
    "issues/1190": ("operand",),
    "issues/1578": ("arith", "contraction"),
    "issues/1671": ("operand",),
    "issues/1808": ("atomics",),
    "issues/1840": ("operand",),
    "issues/1924": ("operand",),
    "issues/1937": ("operand",),
    "issues/1960": ("lowacc",),
    "issues/2680b": FLIP,
    "issues/2843": ("operand",),
    "issues/376": ("operand",),
    "issues/4551": ("operand",),
    "issues/5065": ("lowacc",),
    "issues/5895": ("operand",),
    "issues/5990": FLIP,
    "issues/6227": ("operand",),
    "twins/1960-half": ("lowacc",),
    "twins/2843-ieee": ("accumulation",),
    "twins/3017-correct": ("accumulation",),
}
"""`root_cause` of every TF32, accumulation-order, cast and fma case in our words: what makes the outputs differ."""

FEW = ("issues/1578", "issues/1808", "issues/1960", "issues/2680b", "issues/5895", "issues/5990", "twins/2843-ieee",
       "twins/3017-correct")  # fmt: skip


def _names_the_root_cause(case, small):
    found = judge(load_case(folder("datasets") / case), small=small)
    assert found.label == "Type-I"
    assert found.differs.causes == ROOT_CAUSES[case]
    assert sum(i.typical for i in found.budget) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("case", FEW)
def test_what_makes_the_outputs_differ_is_the_recorded_root_cause(case):
    _names_the_root_cause(case, small=True)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in ROOT_CAUSES if c not in FEW])
def test_the_recorded_root_cause_of_every_case(case):
    _names_the_root_cause(case, small=True)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["issues/2680b", "issues/5990"])
def test_the_size_of_a_case_does_not_change_its_cause(case):
    _names_the_root_cause(case, small=False)


def test_a_bug_and_an_erring_reference_are_not_explained_by_rounding():
    assert judge(load_case(folder("datasets") / "twins/5990-short-k"), small=True).differs is None
    found = judge(load_case(folder("datasets") / "twins/4551-rna"), small=True)
    assert (found.code, found.differs) == ("RND110", None)


# re-runs


def test_shares_of_a_sum():
    found = left_out(WIDTHS, total(), total, 1)
    assert found.note is None
    assert [(i.key, i.share, i.line) for i in found.items] == [("operand", 0.6, 3), ("cast", 0.4, 5)]
    assert found.items[0].shrink == pytest.approx(10 / 4)


def test_causes_that_hide_each_other_are_measured_alone():
    same = {("operand", "k.py", 3): 2.0, ("cast", "k.py", 5): 2.0}

    def widest(mute=()):
        kept = [w for c, w in same.items() if c[0] not in set(mute) and c not in set(mute)]
        return Halves((max(kept, default=0.0),), (max(kept, default=0.0),))

    assert [i.share for i in left_out(same, widest(), widest, 1).items] == [0.5, 0.5]


def never(mute):
    raise AssertionError


def test_nothing_to_attribute():
    assert left_out(WIDTHS, Halves((0.0,), (0.0,)), never, 1) == NOTHING
    assert left_out([], total(), never, 1) == NOTHING


def test_too_much_work_is_said():
    found = left_out(WIDTHS, total(), never, WORTH_WORK)
    assert "not measured" in str(found.note)
    assert [i.key for i in found.items] == ["operand", "cast", "arith"]


def test_a_cause_whose_run_changes_nothing_is_not_confirmed():
    items = [BudgetItem("x", "operand", "k.py", 3, 0.9), BudgetItem("y", "cast", "k.py", 5, 0.1)]
    found = Budget(items, BudgetBasis("first order"))
    assert not confirm(found, total(), lambda key: total(), 1).items[0].confirmed
    assert confirm(found, total(), lambda key: total([key]), 1).items[0].confirmed
    assert confirm(found, total(), never, WORTH_WORK + 1) is found


def test_half_widths_skip_what_is_unbounded():
    lo, hi = np.array([0.0, 0.0, np.nan, -np.inf]), np.array([2.0, 4.0, np.nan, np.inf])
    assert halves_of([(lo, hi)], [(2,)]) == Halves((1.5,), (0.0,))
    assert halves_of([(lo, hi)], [(1,)]) == Halves((1.5,), (2.0,))
