"""Functions of Python's `math` of several numbers that left: every choice lies inside, and nothing wider is said."""

from __future__ import annotations

import math
from itertools import product

import pytest
from support import rng, trials

from render.interpreter.hosted.mathematics import JOINTLY, math_functions
from render.interpreter.hosted.numbers import Ends, LeftNumbers, Number

ENDS = [-3.0, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 2.0]
COUNTS = {"fabs": 1, "radians": 1, "degrees": 1, "copysign": 2, "pow": 2, "log": 2}
LISTS = {"fsum", "prod"}


def session():
    said: list[str] = []
    return LeftNumbers(lambda code, *_: said.append(code) or len(said), lambda file: False), said


def called(name, xs, plain=False):
    function = getattr(math, name) if plain else math_functions()[name]
    return function(list(xs)) if name in LISTS else function(*xs)


def boxes(name, g):
    for _ in range(COUNTS.get(name, 3)):
        a, b = sorted(float(x) for x in g.choice(ENDS, 2))
        yield (a, b) if g.random() < 0.8 else (a, a)


@pytest.mark.parametrize("name", JOINTLY)
def test_every_choice_lies_inside(name):
    g, known = rng(1), 0
    for _ in range(trials(400)):
        parts = list(boxes(name, g))
        own, said = session()
        xs = [Number(0.5 * lo + 0.5 * hi, Ends(lo, hi), own) for lo, hi in parts]
        seen, whole = [], True
        for choice in product(*({lo, 0.5 * lo + 0.5 * hi, hi, *([0.0] if lo <= 0 <= hi else [])} for lo, hi in parts)):
            try:
                seen.append(called(name, choice, plain=True))
            except (ValueError, ZeroDivisionError, OverflowError):
                whole = False
        try:
            got = called(name, xs)
        except (ValueError, ZeroDivisionError):
            continue
        assert type(got) is Number and not said and float(got) == called(name, map(float, xs), plain=True)
        assert all(got.ends.lo <= s <= got.ends.hi for s in seen)
        if math.isfinite(got.ends.hi - got.ends.lo):
            known += 1
            assert whole or name == "log"
            if name == "copysign" and 0.0 in parts[1]:  # either sign
                seen += [-s for s in seen]
            assert got.ends.lo >= min(seen) - 1e-12 and got.ends.hi <= max(seen) + 1e-12
        else:
            assert name in ("pow", "log") and (not whole or parts[0][0] <= 0)
    assert known


def test_a_sign_that_is_open_gives_both():
    for lo, hi, least, most in ((-1.0, 2.0, -2, 2), (0.5, 2.0, 2, 2), (-2.0, -0.5, -2, -2), (-1.0, 0.0, -2, 2)):
        own, _ = session()
        got = math_functions()["copysign"](2.0, Number(0.5 * (lo + hi), Ends(lo, hi), own))
        assert (got.ends.lo, got.ends.hi) == (pytest.approx(least), pytest.approx(most))


def test_numbers_among_all_kinds_of_arguments_have_a_say():
    own, said = session()
    x, functions = Number(1.5, Ends(1.0, 2.0), own), math_functions()
    for got in (functions["fsum"](y for y in (x, 1.0)), functions["fsum"]((1.0, x)), functions["prod"]([2.0], start=x),
                functions["hypot"](1.0, x), functions["hypot"](x)):  # fmt: skip
        assert type(got) is Number and got.ends.hi - got.ends.lo < 2.1 and not said
    assert math.isinf(functions["atan2"](1.0, x).ends.hi) or functions["atan2"](1.0, x).ends.taint
    before = len(said)
    assert functions["isclose"](1.0, 1.5, rel_tol=x) and said[before:] == ["RND303"]
    assert functions["isfinite"](x) and functions["floor"](2.5) == 2 and len(said) == before + 1
    assert type(functions["hypot"](3.0, 4.0)) is float and functions["fsum"]([1.0, 2.0]) == 3.0
    assert functions["prod"](iter([2.0, 3.0])) == 6.0 and functions["log"](8.0, 2.0) == 3.0
    with pytest.raises(TypeError):
        functions["sqrt"]()
    assert (
        functions["sin"] == math.sin
        and functions["sin"] == functions["sin"]
        and hash(functions["sin"]) == hash(math.sin)
    )
    assert functions["sin"] != math.cos


def test_questions_are_answered_where_ends_are_finite_and_sound():
    for ends, open_ in ((Ends(1.0, 2.0), False), (Ends(1.0, math.inf), True), (Ends(1.0, 2.0, frozenset({1})), True)):
        own, said = session()
        assert math_functions()["isnan"](Number(1.5, ends, own)) is False and bool(said) is open_


def test_what_is_undefined_at_an_end_is_not_known():
    own, _ = session()
    got = math_functions()["sqrt"](Number(1.0, Ends(-1.0, 2.0), own))
    assert (got.ends.lo, got.ends.hi) == (-math.inf, math.inf)
    assert math.isinf(math_functions()["exp"](Number(1.0, Ends(0.0, 1e4), own)).ends.hi)


@pytest.mark.parametrize(
    ("x", "base", "known"),
    [
        ((1, 2), (2, 3), True), ((1, 2), (0.25, 0.5), True), ((0.5, 2), (2, 2), True), ((1, 2), (0.25, 2), False),
        ((1, 2), (1, 2), False), ((1, 2), (0.5, 1), False), ((-1, 2), (2, 3), False), ((0, 2), (2, 3), False),
        ((1, 2), (0, 0.5), False), ((1, 2), (-1, 0.5), False), ((-2, -1), (2, 3), False),
    ],
)  # fmt: skip
def test_a_logarithm_is_known_to_a_base_on_one_side_of_one(x, base, known):
    """Across 1 it goes to both infinities, whatever the corners of the boxes say."""
    found = JOINTLY["log"](Ends(*map(float, x)), Ends(*map(float, base)))
    assert all(map(math.isfinite, found)) is known
    for a, b in product((*x, 0.5 * sum(x)), (*base, 0.5 * sum(base))):
        assert not known or found[0] <= math.log(a, b) <= found[-1]
