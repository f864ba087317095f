"""Scans of a maximum and a sum of exponentials whose rows hold -inf: padding, masks, neighbours of these."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render

INF = float("inf")


@triton.jit
def both(am, al, bm, bl):
    m = tl.maximum(am, bm)
    return m, al * tl.exp(am - m) + bl * tl.exp(bm - m)


@triton.jit
def running(x, out, n, B: tl.constexpr, BACK: tl.constexpr, WHOLE: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + c, mask=c < n, other=-float("inf"))
    one = tl.where(c < n, 1.0, 0.0)
    if WHOLE:
        m, s = tl.reduce((v, one), 0, both)
        tl.store(out + row, m + tl.log(s))
    else:
        m, s = tl.associative_scan((v, one), 0, both, reverse=BACK)
        tl.store(out + row * n + c, m + tl.log(s), mask=c < n)


def judged(empty: list[int], back: bool = False, whole: bool = False, n: int = 11) -> tuple[str, str]:
    torch.manual_seed(0)
    x = torch.randn(3, n)
    x[:, empty] = -INF

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(3) if whole else torch.empty_like(x)
        running[(3,)](x, out, n, 16, back, whole)
        return out

    def reference(x: torch.Tensor) -> torch.Tensor:
        if whole:
            return x.logsumexp(1)
        return x.flip(1).logcumsumexp(1).flip(1) if back else x.logcumsumexp(1)

    found = render.classify(run, x, ref=reference)
    return found.label, found.code


@pytest.mark.parametrize("empty", [[], [4], [4, 6], [0, 10]], ids=str)
def test_padding_and_masks_that_never_meet_are_no_obstacle(empty: list[int]) -> None:
    """Behind a row stands padding, whose sums are NaN and are not stored."""
    assert judged(empty)[0] == "Type-I"


def test_two_neighbours_without_any_element_make_nan() -> None:
    assert judged([4, 5]) == ("Type-II", "RND204")
    assert judged([], back=True) == ("Type-II", "RND204"), "the padding comes first"
    assert judged([4], back=True, n=16)[0] == "Type-I"


def test_a_whole_row_may_merge_any_two_of_them() -> None:
    assert judged([], whole=True) == ("Inconclusive", "RND313")
    assert judged([], whole=True, n=16)[0] == "Type-I"
