"""Printing, assertions and histograms of a block, and places of accesses that are the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.handle import AccessPlace, Handle
from render.interpreter.session import Session


@triton.jit
def speaking(X, Y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.device_print("here")
    tl.device_print("values", x)
    if tl.program_id(0) == n:
        tl.device_print("alone", tl.program_id(0))
    tl.store(Y + i, x)


def test_what_is_printed_with_operands_and_without() -> None:
    said: list[str] = []
    with Session(device="any", printer=said.append):
        speaking[(3,)](torch.arange(2.0), torch.zeros(2), 1, N=2)
    assert [s for s in said if "here" in s] and all("[" not in s for s in said if "here" in s)
    assert sorted(s.split(" values")[0] for s in said if "values" in s) == [f"pid ({k}, 0, 0)" for k in range(3)]
    assert [s for s in said if "alone" in s] == ["pid (1, 0, 0) alone: 1"]


@triton.jit
def asserting(X, Y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i, mask=i < n, other=0.0)
    if tl.program_id(0) < 1:
        tl.device_assert(x < 3.0, "small")
    tl.store(Y + i, x)


@pytest.mark.parametrize(("n", "fails"), [(3, False), (4, True)])
def test_an_assertion_is_noted_where_a_lane_breaks_it(n: int, fails: bool) -> None:
    with Session(device="any") as session:
        asserting[(2,)](torch.arange(4.0), torch.zeros(4), n, N=4, debug=True)
    assert any("assertion failed" in note and "small" in note for note in session.notes) == fails


@triton.jit
def counting(X, K, Y, MASKED: tl.constexpr, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    on = (tl.load(K + i) > 0.5) if MASKED else None
    tl.store(Y + tl.arange(0, BINS), tl.histogram(x, BINS, mask=on))


@pytest.mark.parametrize(("masked", "open_", "beyond", "codes"), [
    (False, False, False, []), (True, False, False, []), (True, True, False, ["RND303"]),
    (False, False, True, ["RND302"]), (True, False, True, ["RND302"]),
])  # fmt: skip
def test_a_histogram_counts_lanes_in_its_bins(masked: bool, open_: bool, beyond: bool, codes: list[str]) -> None:
    x, keep = torch.tensor([0, 1, 1, 3, 2, 3, 3, 0], dtype=torch.int32), torch.tensor([1.0, 0, 1, 1, 0, 1, 1, 1])
    if beyond:
        x[3] = 4
    out = torch.zeros(4, dtype=torch.int32)
    with Session(device="any") as session:
        if open_:
            v = keep.double().numpy()
            session.memory.carry(keep, v - 0.6 * (v > 0.5), v, frozenset())
        counting[(1,)](x, keep, out, masked, 8, 4)
    kept = x[keep > 0.5] if masked else x
    if not open_:
        assert out.tolist() == torch.bincount(kept[kept < 4], minlength=4).tolist()
    assert sorted(session.taints[i].code for i in session.envelope(out).taints) == codes


def test_places_are_the_same_where_addresses_and_masks_are() -> None:
    def handle(*v: int) -> Handle:
        return Handle(np.array([v]), tl.int64, (len(v),))

    on, off = handle(1, 1), handle(1, 0)
    place = AccessPlace(handle(8, 12), on)
    assert place.same(place) and place.same(AccessPlace(handle(8, 12), handle(1, 1)))
    assert not place.same(AccessPlace(handle(8, 16), on)) and not place.same(AccessPlace(handle(8, 12), off))
    assert not place.same(AccessPlace(handle(8, 12), None)) and not AccessPlace(handle(8, 12), None).same(place)
    assert AccessPlace(handle(8, 12), None).same(AccessPlace(handle(8, 12), None))
    assert not AccessPlace(handle(8, 12), None).same(AccessPlace(handle(12, 8), None))
