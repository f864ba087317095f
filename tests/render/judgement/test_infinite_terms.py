"""Kernels that add infinities up: as right as their references, and as wrong where they add the wrong ones."""

from __future__ import annotations

import warnings

import pytest
import torch
import triton
import triton.language as tl

from tests.verdicts import classify

INF = float("inf")


@triton.jit
def adding(X, Out, n, WAY: tl.constexpr, PAD: tl.constexpr, B: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + row * n + j, mask=j < n, other=PAD)
    if WAY == "sum":
        tl.store(Out + row * n + j, tl.sum(x, 0) + j * 0.0, mask=j < n)
    elif WAY == "mean":
        tl.store(Out + row * n + j, tl.sum(x, 0) / (n - 1) + j * 0.0, mask=j < n)
    elif WAY == "scan":
        tl.store(Out + row * n + j, tl.cumsum(x, 0), mask=j < n)
    elif WAY == "before":
        tl.store(Out + row * n + j, tl.cumsum(x, 0) - x, mask=j < n)
    elif WAY == "atomic":
        tl.atomic_add(Out + row * n + j * 0, x, mask=j < n)
    else:
        e = tl.exp(x - tl.max(tl.where(j < n, x, -INF_), 0))
        tl.store(Out + row * n + j, e / tl.sum(e, 0), mask=j < n)


INF_ = tl.constexpr(INF)


def added(way, pad=0.0):
    def run(x):
        out = torch.zeros_like(x)
        adding[(x.shape[0],)](x, out, x.shape[1], way, pad, 16)
        return out

    return run


def given(*infinities):
    x = torch.randn(3, 12, generator=torch.Generator().manual_seed(1))
    for k, value in enumerate(infinities):
        x[1, 2 + 3 * k] = value
    return x


def sums(x):
    return x.sum(-1, keepdim=True).expand(x.shape)


def first(x):
    return torch.cat([x.sum(-1, keepdim=True), torch.zeros_like(x[:, 1:])], -1)


ROWS = [("sum", sums), ("scan", lambda x: x.cumsum(-1)), ("atomic", first), ("soft", lambda x: x.softmax(-1))]


@pytest.mark.parametrize(("way", "ref"), ROWS, ids=[way for way, _ in ROWS])
@pytest.mark.parametrize("infinities", [(INF,), (-INF,), (INF, -INF)], ids=["above", "below", "both"])
def test_sums_of_infinities_are_as_right_as_their_references(way, ref, infinities):
    pad = -INF if way == "soft" else 0.0
    assert classify(added(way, pad), given(*infinities), ref=ref, budget=False).label == "Type-I"


@pytest.mark.parametrize(
    ("way", "ref", "pad"),
    [("soft", lambda x: x.softmax(-1), INF), ("mean", lambda x: x.mean(-1, keepdim=True).expand(x.shape), 0.0),
     ("before", lambda x: x.cumsum(-1), 0.0), ("sum", sums, 1.0)],
)  # fmt: skip
def test_other_sums_are_bugs(way, ref, pad):
    """A softmax whose padding is +inf divides by a sum that is infinite in every order: 0, and no reference says so."""
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        found = classify(added(way, pad), given(*(() if way == "soft" else (INF,))), ref=ref)
    assert found.label == "Type-II" and found.code in ("RND201", "RND204"), found.message
