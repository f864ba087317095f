"""Passes over whole arrays find what torch's own operations find."""

from __future__ import annotations

import math

import pytest
import torch

from render.reference import passes

F64 = torch.float64
INF, NAN = math.inf, math.nan


def masked(error, mask, value):
    out = torch.empty(value.shape, dtype=F64)
    known = passes.carry_masked(*map(passes.flat, (error, mask, value, out)))
    return out if known else None


def test_errors_of_what_a_mask_leaves_go_on_and_those_behind_it_do_not():
    torch.manual_seed(0)
    x, error, mask = torch.randn(5, 7, dtype=F64), torch.rand(5, 7, dtype=F64), torch.rand(5, 7) < 0.5
    found = masked(error, mask, x.masked_fill(mask, -INF))
    assert torch.equal(found, error.masked_fill(mask, 0.0)) and mask.any() and not mask.all()


@pytest.mark.parametrize("bad", [INF, NAN, -INF])
@pytest.mark.parametrize("place", ["error", "value"])
def test_what_is_not_finite_matters_where_the_mask_leaves_it(bad, place):
    parts = {"error": torch.ones(4, dtype=F64), "value": torch.ones(4, dtype=F64)}
    parts[place][2] = bad
    left, taken = torch.zeros(4, dtype=torch.bool), torch.arange(4) == 2
    assert masked(parts["error"], left, parts["value"]) is None
    assert torch.equal(masked(parts["error"], taken, parts["value"]), 1.0 - taken.to(F64))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (200,), (2, 200), (2, 3, 100)])
def test_errors_are_within_a_part_where_all_of_them_are(shape):
    x = torch.full(shape, -2.0, dtype=F64)
    error = torch.full(shape, 0.5, dtype=F64)
    assert passes.is_within(error, x, 0.25)
    for at in range(0, error.numel(), 37):
        more = error.clone()
        more.view(-1)[at] = 0.6
        assert not passes.is_within(more, x, 0.25)
        more.view(-1)[at] = NAN
        assert not passes.is_within(more, x, 0.25)
