"""What candidates of an open integer, or its ends, say of comparisons, sums and magnitudes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import triton.language as tl

from render.interpreter.builder import Builder
from render.interpreter.handle import Handle
from render.interpreter.open_integers import (
    CANDIDATES,
    between,
    choices,
    compared,
    ends,
    integer,
    magnitude,
    moved,
    reduced,
    selected_among,
    told_apart,
)

SOFT, NEW = frozenset([1]), frozenset([2])
STUB = Builder.__new__(Builder)
STUB.ctx = SimpleNamespace(taint=lambda *_: NEW, interval=True)
LANES = 300


def spread(count: int, step: int = 2) -> Handle:
    """So many candidates with gaps between them."""
    among = [np.full((1, 1), step * k, np.int64) for k in range(count)]
    return integer(among[0], tl.int64, (1,), (among[0], among[-1]), frozenset(), SOFT, among)


@pytest.mark.parametrize("count", [CANDIDATES, CANDIDATES + 1])
def test_as_many_candidates_as_may_be_are_told_apart_and_one_more_is_not(count: int) -> None:
    few, x, three = count <= CANDIDATES, spread(min(count, CANDIDATES)), Handle(np.full((1, 1), 3), tl.int64, (1,))
    assert (choices(spread(count)) is not None and len(choices(spread(count))) == count) == few
    assert (told_apart([np.full(1, k) for k in range(count)]) is not None) == few
    assert (between(np.zeros(1, np.int64), np.full(1, count - 1, np.int64)) is not None) == few
    if not few:
        two = integer(three.v, tl.int64, (1,), (three.v, three.v + 2), frozenset(), SOFT, [three.v, three.v + 2])
        assert compared("eq", x, two)[1].all()  # too many pairs: the ends alone
        assert selected_among(np.array([True]), np.array([True]), x, two) is None
        assert moved(two, x, 4, three.v).open is None and moved(two, x, 4, three.v).taint
        return
    assert not compared("eq", x, three)[1].any() and compared("ne", x, three)[0].all()
    found = selected_among(np.array([[True]]), np.array([[True]]), x, three)
    assert found is not None and [int(a[0, 0]) for a in found] == [2 * k for k in range(count)]
    places = choices(moved(three, x, 4, three.v))
    assert places is not None and [int(p[0, 0]) for p in places] == [3 + 8 * k for k in range(count)]


def lanes(lo: list[int], hi: list[int], dtype: str) -> Handle:
    low, high = (np.array([end], dtype) for end in (lo, hi))
    return integer(low, tl.dtype(dtype), low.shape[1:], (low, high), frozenset(), SOFT)


SUMS = [
    ([1, 2, -3], [1, 5, -1], "int32", True),
    ([2**31 - 3, 0, 1], [2**31 - 3, 1, 1], "int32", True),
    ([2**31 - 3, 0, 1], [2**31 - 3, 2, 1], "int32", False),
    ([-(2**31) + 2, -1, -1], [-(2**31) + 2, 0, 0], "int32", True),
    ([-(2**31) + 2, -2, -1], [-(2**31) + 2, 0, 0], "int32", False),
    ([2**31 - 1, -5, 0], [2**31 - 1, -5, 5], "int32", True),
    ([2**52 - 4, 1, 1], [2**52 - 4, 2, 2], "int64", True),
    ([2**52 - 3, 1, 1], [2**52 - 3, 2, 2], "int64", False),
    ([2**52 - 3, -4, 1], [2**52 - 3, -4, 2], "int64", False),
    ([100, 20, 7], [100, 20, 8], "int8", False),
    ([100, 20, 6], [100, 20, 7], "int8", True),
    ([-100, -20, -8], [-100, -20, -7], "int8", True),
]


@pytest.mark.parametrize(("lo", "hi", "dtype", "known"), SUMS)
def test_a_sum_is_known_where_neither_it_nor_float64_wraps(
    lo: list[int], hi: list[int], dtype: str, known: bool
) -> None:
    """Magnitudes up to 2^52 are exact in float64, whatever their signs."""
    x = lanes(lo, hi, dtype)
    found = reduced(x, x.v.sum(1, dtype=dtype), (), lambda a: a.sum(1, dtype=a.dtype))
    assert bool(found.taint) and (found.open is not None) == known
    if known:
        assert [int(e[0]) for e in ends(found)] == [sum(lo), sum(hi)]
    if dtype == "int32":
        most = reduced(x, x.v.max(1), (), lambda a: a.max(1))
        assert [int(e[0]) for e in ends(most)] == [max(lo), max(hi)]


@pytest.mark.parametrize(("lo", "hi", "wanted"), [
    (-3, -1, (1, 3)), (-3, 0, (0, 3)), (-3, 2, (0, 3)), (0, 2, (0, 2)), (-1, 4, (0, 4)), (1, 4, (1, 4)),
    (-(2**31), 1, None), (-(2**31) + 1, 1, (0, 2**31 - 1)), (5, 2**31 - 1, (5, 2**31 - 1)),
])  # fmt: skip
def test_magnitudes(lo: int, hi: int, wanted: tuple[int, int] | None) -> None:
    found = magnitude(lanes([lo], [hi], "int32"))
    assert found.taint and (found.open is None) == (wanted is None)
    if wanted is not None:
        assert tuple(int(e[0, 0]) for e in ends(found)) == wanted
    wide = magnitude(lanes([2**52 - 1], [2**52], "int64")), magnitude(lanes([2**52], [2**52 + 1], "int64"))
    assert [w.open is None for w in wide] == [False, True]
