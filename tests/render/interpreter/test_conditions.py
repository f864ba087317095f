"""Floats as conditions are compared with zero, within their bounds."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session


@triton.jit
def _condition(x_ptr, y_ptr, n: tl.constexpr, how: tl.constexpr, away: tl.constexpr):
    i = tl.arange(0, n)
    x = tl.load(x_ptr + i)
    first = tl.load(x_ptr)
    d = first * 0.1 * 3.0 - first * 0.3 + away  # zero up to rounding, unless moved away from it
    if how == "if":
        if d:
            tl.store(y_ptr + i, x)
        else:
            tl.store(y_ptr + i, -x)
    elif how == "not":
        if not (d != 0):  # noqa: SIM202
            tl.store(y_ptr + i, -x)
        else:
            tl.store(y_ptr + i, x)
    elif how == "and":
        if d != 0 and first > 0:
            tl.store(y_ptr + i, x)
        else:
            tl.store(y_ptr + i, -x)
    elif how == "expression":
        tl.store(y_ptr + i, x if d else -x)
    elif how == "while":
        while d:
            d = d - d
            x = x + 1
        tl.store(y_ptr + i, x)
    elif how == "where":
        tl.store(y_ptr + i, tl.where(d, x, -x))


def bounds(how, away):
    x = torch.rand(16, generator=torch.Generator().manual_seed(0)) + 1
    y = torch.empty_like(x)
    with Session() as session:
        _condition[(1,)](x, y, 16, how, away)
        found = session.envelope(y)
    return x.numpy(), found, {session.taints[t].code for t in found.taints}


@pytest.mark.parametrize("how", ["if", "not", "and", "expression", "while"])
def test_a_branch_on_a_float_that_may_be_zero_is_open(how):
    assert "RND303" in bounds(how, 0.0)[2]


@pytest.mark.parametrize("how", ["if", "not", "and", "expression", "where"])
def test_away_from_zero_it_is_decided(how):
    x, found, codes = bounds(how, 2.0)
    assert not codes
    assert (found.lo == x).all()
    assert (found.hi == x).all()


def test_a_choice_by_a_float_that_may_be_zero_holds_both():
    x, found, codes = bounds("where", 0.0)
    assert not codes
    assert (found.lo <= -x).all()
    assert (found.hi >= x).all()
