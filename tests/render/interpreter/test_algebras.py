"""How many roundings a term of a combine function passes."""

from __future__ import annotations

import pytest

from render.interpreter.algebras import Expression, _products, _roundings

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
