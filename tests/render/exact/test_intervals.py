"""Pairs of points: every pair of exact members of two intervals gives a member of the result."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from render.exact import intervals as iv
from render.exact.points import Ball, precision
from tests.render.exact.oracle import extended, fraction, holds
from tests.support import rng, trials

OPERATIONS = {
    iv.add: lambda x, y: x + y, iv.sub: lambda x, y: x - y, iv.mul: lambda x, y: x * y, iv.div: lambda x, y: x / y,
}  # fmt: skip


def drawn(g) -> tuple[float, float]:
    ends = sorted((g.normal(size=2) * 2.0 ** g.integers(-60, 60, 2)).tolist())
    return (ends[0], ends[0]) if g.random() < 0.2 else (ends[0], ends[1])


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
def test_members_of_the_operands_give_members(operation) -> None:
    g = rng(1)
    with precision():
        for _ in range(trials(600)):
            a, b = drawn(g), drawn(g)
            found = operation(iv.interval(*a), iv.interval(*b))
            for x in (*a, 0.5 * a[0] + 0.5 * a[1]):
                for y in (*b, 0.5 * b[0] + 0.5 * b[1]):
                    if operation is not iv.div or y:
                        assert holds(found, OPERATIONS[operation](Fraction(x), Fraction(y)))


@pytest.mark.parametrize("operation", [iv.add, iv.sub, iv.mul], ids=lambda f: f.__name__)
def test_ends_are_reached(operation) -> None:
    """With operands of few bits nothing is rounded: the extreme of the corners is the end."""
    g = rng(2)
    with precision():
        for _ in range(trials(300)):
            a, b = (tuple(sorted(map(float, g.integers(-1000, 1000, 2)))) for _ in range(2))
            corners = [OPERATIONS[operation](Fraction(x), Fraction(y)) for x in a for y in b]
            found = operation(iv.interval(*a), iv.interval(*b))
            assert found is not None and [fraction(v) for v in found] == [min(corners), max(corners)]


def test_what_is_open() -> None:
    inf, zero = math.inf, iv.interval(0.0, 0.0)
    assert iv.div(iv.interval(1.0, 1.0), iv.interval(-1.0, 2.0)) is None
    assert iv.div(iv.interval(1.0, inf), iv.interval(1.0, inf)) is None
    assert iv.mul(zero, iv.interval(1.0, inf)) is None
    assert iv.add(iv.interval(-inf, 0.0), iv.interval(0.0, inf)) is None
    assert iv.add(iv.interval(-inf, -inf), iv.interval(inf, inf)) is None
    assert iv.interval(math.nan, 1.0) is None and iv.point(math.nan) is None
    assert iv.hull(zero, None) is None and iv.add(None, zero) is None


def test_squares_and_magnitudes() -> None:
    with precision():
        for lo, hi in ((-3.0, 2.0), (1.0, 4.0), (-5.0, -2.0), (-2.0, -2.0)):
            least = 0.0 if lo <= 0 <= hi else min(abs(lo), abs(hi))
            most = max(abs(lo), abs(hi))
            x = iv.interval(lo, hi)
            assert x is not None
            assert [float(v) for v in iv.magnitudes(x)] == [least, most] and float(iv.magnitude(x)) == most
            assert [float(v) for v in iv.square(x) or ()] == [least**2, most**2]


def test_a_sum_of_many_is_rounded_once() -> None:
    values = [2.0**k * (-1) ** k for k in range(-300, 300, 7)]
    terms = [iv.interval(v, v) for v in values]
    with precision():
        found = iv.total([t for t in terms if t is not None])
        true = sum(map(Fraction, values))
        assert extended(found[0]) <= true <= extended(found[1])
        assert extended(found[1]) - extended(found[0]) <= abs(true) / 2**180
        assert iv.single(iv.cut(Ball(3))) and not iv.single((Ball(1), Ball(2)))
