"""How many roundings a term of a combine function passes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from render.interpreter.algebras import Expression, _built, _polynomial, _products, _roundings, _Unread

X, Y, TWO = ("name", "x"), ("name", "y"), ("number", 2.0)


@pytest.mark.parametrize(
    ("expression", "roundings", "products"),
    [
        (X, 0, 0),
        (("+", X, Y), 1, 0),
        (("*", X, Y), 1, 1),
        (("+", ("*", X, Y), ("*", X, TWO)), 2, 2),
        (("*", ("+", X, Y), ("+", X, TWO)), 3, 1),
        (("*", ("*", X, Y), ("*", X, TWO)), 3, 3),
        (("+", X, Y, ("*", X, Y, TWO)), 4, 2),
    ],
)  # fmt: skip
def test_a_sum_passes_those_of_one_term_and_a_product_those_of_all(
    expression: Expression, roundings: int, products: int
) -> None:
    assert (_roundings(expression), _products(expression)) == (roundings, products)


def value(e: Expression, at: dict[Expression, float], plain: bool = False) -> float:
    """`plain`: of the magnitudes of all terms."""
    if e in at:
        return at[e]
    if e[0] == "number":
        return abs(e[1]) if plain else e[1]
    parts = [value(p, at, plain) for p in e[1:]]
    if e[0] == "*":
        return math.prod(parts)
    return parts[0] - parts[1] if e[0] == "-" and not plain else sum(parts)


def degree(e: Expression, side: str) -> int:
    if e[0] in ("name", "number"):
        return int(e[0] == "name" and e[1].startswith(side))
    return sum(degree(p, side) for p in e[1:]) if e[0] == "*" else max(degree(p, side) for p in e[1:])


def drawn(g: np.random.Generator, depth: int) -> Expression:
    if depth == 0:
        return ("number", float(g.integers(-4, 5)) / 4) if g.random() < 0.25 else ("name", str(g.choice(SIDES)))
    op = str(g.choice(["+", "-", "*"]))
    return (op, *(drawn(g, depth - int(g.integers(1, depth + 1))) for _ in range(2 if op == "-" else g.integers(2, 4))))


SIDES = ["a0", "a1", "b0", "b1"]


@pytest.mark.parametrize("seed", range(120))
def test_a_polynomial_is_the_expression(seed: int) -> None:
    """At whole numbers, so that nothing is rounded; a product of two operands of one side is not linear in it."""
    g = np.random.default_rng(seed)
    e = drawn(g, 1 + seed % 4)
    names = [("name", s) for s in SIDES]
    places = dict(zip(names, [(1, 0), (2, 0), (0, 1), (0, 2)], strict=True))
    for plain in (False, True):
        try:
            found = _polynomial(e, places, plain)
        except _Unread:
            assert degree(e, "a") > 1 or degree(e, "b") > 1, e
            continue
        for _ in range(4):
            at = dict(zip(names, g.integers(1 if plain else -5, 6, 4).astype(float).tolist(), strict=True))
            left, right = [1.0, at[names[0]], at[names[1]]], [1.0, at[names[2]], at[names[3]]]
            assert sum(c * left[i] * right[j] for (i, j), c in found.items()) == value(e, at, plain), e


@pytest.mark.parametrize("number", [1024.0, 1024.5, -1024.0, 1.0 / 1024, 1.0 / 2048, 0.1])
def test_numbers_that_products_of_which_are_exact(number: float) -> None:
    fits = abs(number) <= 1024 and (number * 1024).is_integer()
    try:
        assert _polynomial(("number", number), {}, False) == {(0, 0): number} and fits
        assert _polynomial(("number", number), {}, True) == {(0, 0): abs(number)}
    except _Unread:
        assert not fits


A, B, C, D = (("name", s) for s in SIDES)


@pytest.mark.parametrize(
    ("outputs", "read"),
    [
        ([("+", A, C), ("+", B, D)], True), ([("*", A, C), ("*", B, D)], True), ([("-", A, C), ("+", B, D)], False),
        ([("*", A, C), ("+", ("*", A, D), B)], True), ([("*", A, C), ("+", ("*", A, D), D)], False),
        ([("-", ("*", A, C), ("*", B, D)), ("+", ("*", A, D), ("*", B, C))], True),  # complex numbers
        ([("+", A, C, ("number", 1.0)), ("+", B, D)], True), ([A, B], True), ([("/", A, C), B], False),
        ([("-", ("*", A, C), ("*", A, C)), ("-", B, B)], True),
    ],
)  # fmt: skip
def test_what_is_associative_is_an_algebra(outputs: list[Expression], read: bool) -> None:
    assert (_built(([A, B], [C, D], outputs)) is not None) is read
