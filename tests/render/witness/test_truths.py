"""Three-valued truths: sure where all numbers of both intervals agree, possible where some do."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from render.exact.intervals import interval
from render.witness import truths

SAMPLES = [(a, b) for a, b in product((-1.0, 0.0, 0.5, 2.0), repeat=2) if a <= b]
TESTS = {
    "fcmpOLT": lambda a, b: a < b, "fcmpOLE": lambda a, b: a <= b, "fcmpOGT": lambda a, b: a > b,
    "fcmpOGE": lambda a, b: a >= b, "fcmpOEQ": lambda a, b: a == b, "fcmpUNE": lambda a, b: a != b,
}  # fmt: skip
TRUTHS = [(False, False), (False, True), (True, True)]
LOGIC = {
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "xor": lambda a, b: a != b, "icmpNE": lambda a, b: a != b,
    "icmpEQ": lambda a, b: a == b,
}  # fmt: skip


class Given:
    """An evaluator that hands out what it is given."""

    def __init__(self, *args: Any) -> None:
        self.given = args

    def args(self, op: Any, k: int) -> Any:
        return self.given


def evaluated(name: str, *args: Any) -> Any:
    return truths.RULES[name](Given(*args), None, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TESTS)
def test_comparisons_of_intervals(name: str) -> None:
    for x, y in product(SAMPLES, repeat=2):
        inside = [(*s, sum(s) / 2) for s in (x, y)]
        seen = {TESTS[name](a, b) for a in inside[0] for b in inside[1]}
        surely, possibly = evaluated(name, interval(*x), interval(*y))
        assert surely <= possibly and (not surely or seen == {True}) and (possibly or seen == {False}), (x, y)
        ends = {TESTS[name](a, b) for a, b in product(x, y)}
        if x[0] == x[1] and y[0] == y[1]:
            assert surely == possibly == ends.pop(), "points decide"
    assert evaluated(name, None, interval(0, 1)) == (False, True), "of NaN nothing is known"


@pytest.mark.parametrize("name", LOGIC)
def test_logic_holds_every_way_the_operands_may_go(name: str) -> None:
    for x, y in product(TRUTHS, repeat=2):
        ways = {LOGIC[name](a, b) for a in set(x) for b in set(y)}
        assert evaluated(name, x, y) == (all(ways), any(ways))


def test_selection() -> None:
    x, y = interval(0.0, 1.0), interval(3.0, 4.0)
    assert evaluated("select", (True, True), x, y) is x and evaluated("select", (False, False), x, y) is y
    low, high = evaluated("select", (False, True), x, y)
    assert (float(low), float(high)) == (0.0, 4.0)
    assert evaluated("select", (False, True), (True, True), (False, False)) == (False, True)
    assert [float(v) for v in evaluated("from_truth", (False, True))] == [0.0, 1.0]


def test_infinite_and_nan() -> None:
    finite, endless, wide = interval(0, 1), interval(float("inf"), float("inf")), interval(0, float("inf"))
    names = ("library isinf", "library finitef", "library isnan")
    assert [evaluated(n, finite) for n in names] == [(False, False), (True, True), (False, False)]
    assert [evaluated(n, endless) for n in names] == [(True, True), (False, False), (False, False)]
    assert evaluated(names[0], wide) == evaluated(names[1], wide) == (False, True)
    assert [evaluated(n, None) for n in names] == [(False, True)] * 3
