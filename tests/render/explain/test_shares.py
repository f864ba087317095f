"""Shares of the bound and of the typical error, put together from elements whose shares are known."""

from __future__ import annotations

from typing import Any

import pytest

from render.explain.shares import Gathered, element
from render.trace.adjoint import Contributions

DOT, CAST, EXP = ("dot", "k.py", 3), ("cast", "k.py", 5), ("function", "k.py", 4)
TITLES = {"dot": "accumulation", "cast": "rounding to a format", "function": "exp"}


def made(amounts: dict[Any, float], squares: dict[Any, float], **more: Any) -> Contributions:
    return Contributions(amounts, sum(amounts.values()), squares, **more)


def test_the_last_rounding_is_taken_out_of_its_cause() -> None:
    found = element(made({DOT: 3.0, CAST: 1.0}, {DOT: 1.0, CAST: 3.0}, last=2.0, end=CAST, end_op="cast"))
    assert found.bound == {DOT: 0.75, CAST: 0.25} and found.typical == {DOT: 0.25, CAST: 0.75}
    assert found.last == {CAST: 0.5} and found.before == {DOT: 0.25, CAST: 0.25}


def test_an_operation_that_does_more_than_round_is_no_last_rounding() -> None:
    found = element(made({EXP: 1.0}, {EXP: 1.0}, last=1.0, end=EXP, end_op="exp"))
    assert found.last == {} and found.before == found.typical == {EXP: 1.0}


def test_outputs_count_by_their_size() -> None:
    gathered = Gathered({"big": 30, "small": 10, "unseen": 39})
    gathered.add("big", "worst", made({DOT: 1.0}, {DOT: 1.0}))
    gathered.add("small", "worst", made({CAST: 1.0}, {CAST: 1.0}))
    assert gathered.enough and gathered.mean("bound", "worst") == {DOT: 0.75, CAST: 0.25}
    assert gathered.mean("bound", "median") == gathered.mean("bound", "worst"), "the role that there is"
    items = gathered.items(TITLES)
    assert [(i.key, i.share) for i in items] == [("dot", 0.75), ("cast", 0.25)] and items[0].line == 3
    assert not Gathered({"big": 30, "small": 10, "unseen": 40}, gathered.elements).enough


@pytest.mark.parametrize(("squares", "last", "expected"), [
    ({DOT: 1.0, CAST: 9.0}, 9.0, (True, "cast", "dot")),  # the last rounding falls as the dot decides
    ({DOT: 9.0, CAST: 1.0}, 1.0, (False, "dot", "")),
    ({CAST: 1.0}, 1.0, (False, "cast", "")),  # nothing before it
])  # fmt: skip
def test_why_results_differ(squares: dict[Any, float], last: float, expected: tuple[bool, str, str]) -> None:
    gathered = Gathered({"out": 1})
    gathered.add("out", "worst", made(dict.fromkeys(squares, 1.0), squares, last=last, end=CAST, end_op="cast"))
    found = gathered.differs(TITLES)
    assert found is not None and (found.last, found.key, found.by_key or "") == expected


def test_only_outputs_that_differ_are_asked() -> None:
    gathered = Gathered({"a": 9, "b": 1})
    gathered.add("a", "worst", made({DOT: 1.0}, {DOT: 1.0}))
    gathered.add("b", "worst", made({EXP: 1.0}, {EXP: 1.0}))
    one = gathered.differs(TITLES, frozenset(["b"]))
    assert one is not None and one.key == "function"
