"""Orders, masks and packed keys that bounds leave open: right programs are round-off, wrong ones bugs."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.judgement import chosen
from tests.verdicts import classify

ROWS, WIDE = 12, 8


@triton.jit
def scores(X, Out, D: tl.constexpr):
    i = tl.program_id(0)
    v = tl.load(X + i * D + tl.arange(0, D))
    tl.store(Out + i, tl.sum(v * v, 0) / D)


@triton.jit
def gated(X, Out, factor, D: tl.constexpr):
    at = tl.program_id(0) * D + tl.arange(0, D)
    v = tl.load(X + at)
    tl.store(Out + at, v * tl.sigmoid(v) * factor)


@triton.jit
def keyed(X, Out, factor, N: tl.constexpr):
    n = tl.arange(0, N)
    bits = (tl.load(X + tl.program_id(0) * N + n) * factor).to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64) << 32
    tl.store(Out + tl.program_id(0) * N + n, tl.sort(key | n, 0, True) & 0xFFFFFFFF)


def squares(x):
    out = torch.empty(len(x))
    scores[(len(x),)](x, out, x.shape[1])
    return out


def silu(x, factor=1.0):
    out = torch.empty_like(x)
    gated[(len(x),)](x, out, factor, x.shape[1])
    return out


def rows():
    """Ties of the sums of squares, up to their order and exactly."""
    torch.manual_seed(0)
    x = torch.randn(ROWS, WIDE)
    x[3], x[5], x[8] = x[1].flip(0), -x[2], x[7].roll(3)
    return x


def unsorted(x, wrong=None):
    order = torch.argsort(squares(x))
    out = silu(x[order], 1.01 if wrong == "gain" else 1.0)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(x))
    return out[order if wrong == "order" else back]


def scattered(x, wrong=None):
    order = squares(x).sort(descending=True).indices
    out = silu(x[order], 1.01 if wrong == "gain" else 1.0)
    to = order.flip(0) if wrong == "order" else order
    return torch.zeros_like(x).scatter_(0, to[:, None].expand_as(x), out)


def compacted(x, wrong=None):
    s = squares(x)
    mean = s[1]  # a tie with the row that is its mirror image
    out = torch.zeros_like(x)
    for mask in (s >= mean, s < mean):
        at = mask.nonzero().squeeze(1)
        out[at.flip(0) if wrong == "order" else at] = silu(x[at], 1.01 if wrong == "gain" else 1.0)
    return out


def masked(x, wrong=None):
    mask, out = squares(x) > squares(x)[2], torch.zeros_like(x)
    out[mask] = silu(x[mask], 1.01 if wrong == "gain" else 1.0)
    out[~mask] = silu(x[~mask].flip(0) if wrong == "order" else x[~mask])
    return out


def branched(x, wrong=None):
    s = squares(x)
    if s[1].item() > s[3].item():
        return silu(x, 1.01 if wrong else 1.0)
    return silu(x.contiguous(), 1.01 if wrong else 1.0)


def reference(x, wrong=None):
    return torch.nn.functional.silu(x)


@pytest.mark.parametrize("fn", [unsorted, scattered, compacted, masked, branched])
def test_a_right_program_is_round_off_and_a_wrong_one_is_not(fn):
    right = classify(fn, rows(), ref=reference)
    assert right.label == "Type-I" and any("decisions open" in note for note in right.notes)
    for wrong in ("gain", "order"):
        assert classify(fn, rows(), wrong, ref=reference).label == "Type-II"


def test_keys_with_their_places_packed_in():
    def best(x, y, factor=0.3, first=0):
        out = torch.empty(x.shape, dtype=torch.int64)
        keyed[(len(x),)](x, out, factor, x.shape[1])
        return torch.gather(y, 1, out[:, first : first + 3])

    x, y = rows(), torch.randn(ROWS, WIDE)
    ref = lambda x, y, *_: torch.gather(y, 1, (x * 0.3).topk(3, 1).indices)  # noqa: E731
    assert classify(best, x, y, ref=ref).label == "Type-I"
    assert classify(best, x, y, -0.3, ref=ref).label == "Type-II"
    assert classify(best, x, y, 0.3, 1, ref=ref).label == "Type-II"


def test_where_only_what_a_decision_moves_is_off_nothing_is_told():
    """Of two rows that tie the program takes one, the reference names another that ties with neither."""

    def first(x, row):
        return x[squares(x).argsort(descending=True)][:1]

    x = rows()[:4]
    x[1:] *= 0.5
    x[1] = x[0].flip(0)
    assert classify(first, x, 0, ref=lambda x, row: x[row : row + 1]).label == "Type-I"
    assert classify(first, x, 2, ref=lambda x, row: x[row : row + 1]).label == "Inconclusive"


def test_a_run_that_decides_nothing_stands_for_no_other(monkeypatch):
    """A tie that is none of these: singular values have no rule, whatever is decided before."""
    values = torch.linalg.svdvals
    v = classify(lambda x: values(unsorted(x)), rows(), ref=lambda x: values(reference(x)))
    assert (v.label, v.code) == ("Inconclusive", "RND302")
    monkeypatch.setattr(chosen, "ASKED", frozenset())
    assert classify(unsorted, rows(), ref=reference).label == "Inconclusive"
