"""What a few programs refute, the whole run refutes: every change of small kernels, run both ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import render
from render.explain import guilty
from render.explain.portion import Portion, allowed, portion_of
from render.interpreter.repairs import Repair


@triton.jit
def rows_kernel(X, Out, n, B: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, B)
    x = tl.load(X + row * n + j, mask=j < n, other=0.0)
    y = x - tl.sum(x) * n
    tl.store(Out + row * n + j, y, mask=j < n)


@triton.jit
def tail_kernel(X, Out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n - 1, other=0.0)
    tl.store(Out + i, tl.exp(x) * 0.5, mask=i < n)


@triton.jit
def added_kernel(X, Out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(Out, tl.sum(tl.load(X + i, mask=i < n, other=0.0)) * 2.0)


def rows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows_kernel[(x.shape[0],)](x, out, x.shape[1], 16)
    return out


def tail(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    tail_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), 16)
    return out


def twice(x: torch.Tensor) -> torch.Tensor:
    return tail(tail(x))


def added(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(1)
    added_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), 16)
    return out


def asked(fn: Any, x: torch.Tensor, ref: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any, Any]:
    """(study, run, cases, rooms) of a wrong program, as its search has them."""
    found: list[Any] = []
    monkeypatch.setattr(guilty, "portion_of", lambda *given: found.append(given))
    monkeypatch.setattr(guilty, "_searched", lambda *_: None)
    assert render.classify(fn, x, ref=ref, budget=False).label == "Type-II"
    return found[0]


@pytest.mark.parametrize(("fn", "shape", "ref"), [
    (rows, (20, 13), lambda x: x - x.mean(1, keepdim=True)), (tail, (173,), lambda x: x.exp() * 0.5),
])  # fmt: skip
def test_what_a_part_refutes_is_no_repair(fn, shape, ref, monkeypatch):
    torch.manual_seed(0)
    study, run, cases, rooms = asked(fn, torch.randn(*shape), ref, monkeypatch)
    part = study.run({"interval": False, "programs": 4})
    portion = Portion(4, part.cost, allowed(part), cases, rooms)
    refuted, repaired = 0, 0
    for function, todo in guilty._turns(guilty._trees(study), 0):
        if not isinstance(todo, Repair) or todo.rank > 1:
            continue
        whole = guilty._Trial(study, run.cost, 1, allowed(run), 100).values(function, todo.place, todo.code)
        right = whole is not None and (guilty._right(whole, cases, rooms) or guilty._nearly(whole, cases, rooms))
        trial = guilty._Trial(study, run.cost, 1, allowed(run), 100, portion=portion)
        monkeypatch.setattr(trial, "_values", lambda *_: [])
        gone = trial.values(function, todo.place, todo.code, first=True) is None
        assert not (gone and right), todo.what
        refuted, repaired = refuted + gone, repaired + right
    assert refuted > 10 and repaired


def test_where_programs_know_of_each_other_or_cost_little_there_is_no_part(monkeypatch):
    torch.manual_seed(0)
    small = asked(rows, torch.randn(20, 13), lambda x: x - x.mean(1, keepdim=True), monkeypatch)
    assert portion_of(*small) is None
    for fn, ref in ((twice, lambda x: x.exp() * 0.5), (added, lambda x: x.sum().reshape(1))):
        study, run, cases, rooms = asked(fn, torch.randn(2**17), ref, monkeypatch)
        assert portion_of(study, run, cases, rooms) is None
    large = asked(tail, torch.randn(2**17), lambda x: x.exp(), monkeypatch)
    assert portion_of(*large).programs == 4
