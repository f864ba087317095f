"""Floats that left torch: Python's arithmetic on every choice within their bounds lies in the result's, and closely."""

from __future__ import annotations

import math
import operator
from itertools import product

import numpy as np
import pytest
import torch
from support import rng, trials

from render.interpreter.hosted.mathematics import MATH, math_functions
from render.interpreter.hosted.numbers import ARITHMETIC, Ends, LeftNumbers, Number

TAINT = frozenset({7})


def session(otherwise=None):
    """What left torch, and the messages of what was decided by it."""
    said: list[str] = []

    def taint(code: str, operation: str, message: str) -> int:
        said.append(f"{code} {message}")
        return len(said)

    return LeftNumbers(taint, lambda file: False, otherwise), said


def number(lo: float, hi: float, own: LeftNumbers, taint: frozenset[int] = frozenset()) -> Number:
    return Number(0.7 * lo + 0.3 * hi, Ends(lo, hi, taint), own)


BOXES = [(1.5, 1.5), (1.25, 2.75), (-2.0, -0.5), (-1.0, 3.0), (0.0, 2.0), (-3.0, 0.0), (0.3, 0.7), (5.0, 5.0)]


def points(lo: float, hi: float) -> list[float]:
    return sorted({lo, hi, 0.5 * lo + 0.5 * hi, 0.9 * lo + 0.1 * hi, *([0.0] if lo <= 0 <= hi else [])})


@pytest.mark.parametrize("function", ARITHMETIC, ids=lambda f: f.__name__)
def test_every_choice_lies_inside_and_the_bounds_are_its_extremes(function) -> None:
    for mine, theirs, kind in product(BOXES, BOXES, ("both", "left", "right")):
        own, _ = session()
        x = number(*mine, own) if kind != "right" else mine[0]
        y = number(*theirs, own) if kind != "left" else theirs[0]
        xs, ys = points(*mine) if kind != "right" else [mine[0]], points(*theirs) if kind != "left" else [theirs[0]]
        try:
            plain = function(float(x), float(y))
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                function(x, y)
            continue
        got = function(x, y)
        if isinstance(plain, complex):
            assert got == plain and not isinstance(got, Number)
            continue
        assert type(got) is Number and float(got) == plain
        seen, whole = [], True
        for a, b in product(xs, ys):
            try:
                seen.append(function(a, b))
            except ZeroDivisionError:
                whole = False
        reals = [s for s in seen if not isinstance(s, complex)]
        assert all(got.ends.lo <= s <= got.ends.hi for s in reals)
        if not whole or len(reals) < len(seen):
            assert (got.ends.lo, got.ends.hi) == (-math.inf, math.inf)
        elif function not in (operator.pow, operator.mod) and math.isfinite(got.ends.hi):
            assert got.ends.lo >= min(reals) - 1e-12 and got.ends.hi <= max(reals) + 1e-12
        elif function is operator.mod and math.isfinite(got.ends.hi):
            limit = max(map(abs, ys))
            assert -limit - 1e-9 <= got.ends.lo and got.ends.hi <= limit + 1e-9
        if math.isinf(got.ends.hi):  # of nothing else is nothing known
            divides = function in (operator.truediv, operator.floordiv, operator.mod) and min(ys) <= 0 <= max(ys)
            assert divides or (function is operator.pow and min(xs) <= 0)


def test_powers_of_what_may_be_negative_are_known_for_the_first_three() -> None:
    own, _ = session()
    for power in (1.0, 2.0, 3.0):
        got = number(-2.0, 1.0, own) ** power
        assert got.ends.lo == pytest.approx({1.0: -2, 2.0: 0, 3.0: -8}[power], abs=1e-13)
        assert got.ends.hi == pytest.approx({1.0: 1, 2.0: 4, 3.0: 1}[power], abs=1e-13)
    assert math.isinf((number(-2.0, 1.0, own) ** 4.0).ends.hi)
    away = number(2.0, 3.0, own) ** 2.0
    assert away.ends.lo == pytest.approx(4.0) and away.ends.hi == pytest.approx(9.0)
    assert math.isinf((Number(2.0, Ends(2.0, 1e200), own) ** 2.0).ends.hi)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_comparison_is_told_where_a_choice_of_points_decides_it_otherwise(name: str) -> None:
    function = getattr(operator, name)
    for mine, theirs, left, right, point in product(BOXES, BOXES, (0, 1), (0, 1), (False, True)):
        own, said = session()
        x = number(*mine, own, TAINT if left else frozenset())
        y = theirs[0] if point else number(*theirs, own, TAINT if right else frozenset())
        value = function(x, y)
        assert value == function(float(x), float(y))
        answers = {function(a, b) for a, b in product(points(*mine), [y] if point else points(*theirs))}
        either = {function(a, b) for a, b in product(mine, [float(y)] if point else theirs)}
        tainted = left or (right and not point)
        if len(answers) > 1 or tainted:
            assert len(said) == 1 and said[0].startswith("RND303") and own.branched == {1}
        elif len(either) == 1 and name not in ("eq", "ne"):
            assert not said and not own.branched


def test_a_decision_that_is_given_takes_the_other_way_without_a_taint() -> None:
    own, said = session(lambda value: not value)
    x = number(1.0, 2.0, own)
    assert (x < 1.5) is False and not said  # 1.3 is below
    assert (x < 3.0) is True and (x > 3.0) is False and not said
    assert (number(1.0, 2.0, own, TAINT) < 1.5) is True and len(said) == 1


@pytest.mark.parametrize(("to", "lo", "hi", "open_"), [
    (int, 1.2, 1.8, False), (int, 1.8, 2.1, True), (math.floor, -0.5, -0.1, False), (math.floor, -0.1, 0.1, True),
    (math.ceil, 0.1, 0.9, False), (math.ceil, 0.9, 1.1, True), (round, 0.6, 1.4, False), (round, 0.4, 0.6, True),
    (int, 1.0, math.inf, True), (bool, 0.5, 1.0, False), (bool, -0.5, 1.0, True),
])  # fmt: skip
def test_an_integer_is_told_where_it_may_be_another(to, lo, hi, open_) -> None:
    for taint in (frozenset(), TAINT):
        own, said = session()
        x = Number(lo, Ends(lo, hi, taint), own)
        assert to(x) == to(lo)
        assert bool(said) == (open_ or bool(taint))


def test_signs_magnitudes_and_digits() -> None:
    own, _ = session()
    for lo, hi in BOXES:
        x = number(lo, hi, own, TAINT)
        assert (-x).ends == Ends(-hi, -lo, TAINT) and +x is x
        least = 0.0 if lo <= 0 <= hi else min(abs(lo), abs(hi))
        assert abs(x).ends == Ends(least, max(abs(lo), abs(hi)), TAINT) and float(abs(x)) == abs(float(x))
    rounded = round(number(1.26, 1.74, own), 1)
    assert rounded.ends.lo == pytest.approx(1.3) and rounded.ends.hi == pytest.approx(1.7)


def test_functions_of_the_library_hold_every_choice() -> None:
    g, functions = rng(3), math_functions()
    assert {"exp", "log", "sqrt", "sin", "cos", "tanh"} <= functions.keys()
    for name, function in ((name, functions[name]) for name in MATH):
        known = 0
        for _ in range(trials(30)):
            lo = float(g.uniform(-0.9, 0.9)) + (2.0 if name == "acosh" else 0.0)
            hi = lo + float(g.uniform(0, 0.08 if abs(lo) > 0.6 else 0.3))
            own, _ = session()
            x = number(lo, hi, own, TAINT)
            try:
                value = function(x)
            except ValueError:
                with pytest.raises(ValueError, match="domain"):
                    getattr(math, name)(float(x))
                continue
            assert value.ends.taint == TAINT and float(value) == getattr(math, name)(float(x))
            try:
                seen = [getattr(math, name)(p) for p in points(lo, hi)]
            except ValueError:
                assert math.isinf(value.ends.hi)
                continue
            known += 1
            assert all(value.ends.lo <= s <= value.ends.hi for s in seen)
            wide = 2 * (hi - lo) if name in ("sin", "cos") else max(seen) - min(seen)
            assert value.ends.hi - value.ends.lo <= wide + 1e-12 * (1 + abs(value))
        assert known, name
    own, _ = session()
    for name in ("sin", "cos"):
        assert (functions[name](Number(1.0, Ends(-math.inf, math.inf), own)).ends.hi) <= 1 + 1e-12
        assert functions[name](number(0.0, 100.0, own)).ends.hi <= 1 + 1e-12
    assert functions["exp"](2.0) == math.exp(2.0) and functions["log"](8.0, 2.0) == math.log(8.0, 2.0)
    assert functions["exp"] == math.exp and functions["exp"] != math.log


def test_a_value_that_leaves_twice_has_the_bounds_of_both() -> None:
    own, said = session()
    own.note(1.0, Ends(0.5, 1.5))
    own.note(1.0, Ends(0.75, 2.0, TAINT))
    assert own.of(1.0) == Ends(0.5, 2.0, TAINT)
    assert own.of(2.0) is None and own.of(math.inf) is None and own.of(3) is None
    assert [s.split()[0] for s in said] == [] and own.of(4.5) is not None and len(said) == 1  # may be made of it
    own, said = session()
    own.leave(4.0, Ends(4.0, 4.0))
    own.leave(math.nan, Ends(5.0, 5.0))
    assert own.of(4.0) is None and not said
    own.leave(6.0, Ends(5.0, 7.0))
    assert own.of(6.0) == Ends(5.0, 7.0) and own.last == Ends(5.0, 7.0) and 6.0 in own.plain
    own.leave(True, Ends(0.0, 1.0))
    own.leave(3, Ends(3.0, 3.0, TAINT))
    assert [s.split(";")[0] for s in said] == [
        "RND303 a value that rounding leaves open decides what the host does",
        "RND303 a value without a sound bound decides what the host does",
    ]


def test_a_value_that_was_rounded_before_is_known_by_what_left() -> None:
    single, half = float(np.float32(1 / 3)), float(np.float16(1 / 3))
    own, said = session()
    assert own.rounded(single, torch.float32) is None and not said  # nothing left
    own.note(1 / 3, Ends(0.25, 0.5))
    own.note(math.nextafter(1 / 3, 1.0), Ends(0.125, 0.375, TAINT))
    assert own.rounded(single, torch.float32) == Ends(0.125, 0.5, TAINT) == own.rounded(half, torch.float16)
    own.note(half, Ends(0.0, 1.0))  # and one more that is met later
    assert own.rounded(half, torch.float16) == Ends(0.0, 1.0, TAINT)
    own.literal.add(1 / 3 + 1e-9)
    assert own.rounded(single, torch.float32) == Ends(0.125, 0.5, TAINT)
    own.literal.add(0.7)
    assert own.rounded(float(np.float32(0.7)), torch.float32) == Ends(float(np.float32(0.7)), float(np.float32(0.7)))
    for plain in (2.0, -1.0, 0.0, math.inf, math.nan):
        assert own.rounded(plain, torch.float32) is None
    assert not said
    for odd in (3.0, 0.9):
        found = own.rounded(odd, torch.float32)
        assert found is not None and found.taint and (found.lo, found.hi) == (odd, odd)
    assert [s[:6] for s in said] == ["RND302"] * 2


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.bool_])
def test_what_numpy_makes_of_a_number_is_its_own_and_later_floats_are_suspect(kind) -> None:
    for function in ARITHMETIC:
        for swapped in (True, False):
            own, _ = session()
            x, other = number(1.0, 2.0, own), kind(1)
            got = function(other, x) if swapped else function(x, other)
            wanted = function(other, float(x)) if swapped else function(float(x), other)
            assert got == wanted and (type(got) is type(wanted) or type(got) is Number)
            assert type(got) is Number or own.suspect
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        own, said = session()
        assert getattr(operator, name)(kind(1), number(0.5, 2.0, own)) == getattr(operator, name)(1, 0.95)
        assert len(said) == 1
    assert np.exp(x) == np.exp(float(x)) and (np.ones(2) - x).tolist() == [1 - float(x)] * 2
    assert (x * np.ones(2)).tolist() == [float(x)] * 2
