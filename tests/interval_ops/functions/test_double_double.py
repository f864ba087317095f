"""Double-double arithmetic against exact rationals and Arb."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
from support import rng, trials

from interval_ops.functions import double_double as dd


def of(x: tuple[float, float]) -> Fraction:
    return Fraction(x[0]) + Fraction(x[1])


def numbers(seed: int, n: int) -> list[tuple[float, float]]:
    g = rng(seed)
    high = g.choice([-1.0, 1.0], n) * 2.0 ** g.uniform(-30, 30, n)
    return [(float(h), float(h * 2.0**-54 * t)) for h, t in zip(high, g.uniform(-1, 1, n), strict=True)]


def test_sums_products_and_quotients() -> None:
    for x, y in zip(numbers(1, trials(2000)), numbers(2, trials(2000)), strict=True):
        near = (-x[0] * (1 + 2.0**-40), x[1] * 0.3)  # cancels most of x
        for found, exact in (
            (dd.add(x, y), of(x) + of(y)),
            (dd.add(x, near), of(x) + of(near)),
            (dd.multiply(x, y), of(x) * of(y)),
            (dd.quotient(x, y), of(x) / of(y)),
        ):
            assert abs(of(found) - exact) <= abs(exact) * Fraction(1, 2**102), (x, y)
            assert found[0] == found[0] + found[1]


def test_polynomials_lose_no_more_than_stated() -> None:
    """Alternating terms as large as exp(8)."""
    table = dd.table([Fraction((-1) ** k, np.prod([*range(1, k + 1)], dtype=object)) for k in range(40)])
    for x in rng(3).uniform(0, 8, trials(50)):
        found = of(dd.polynomial(table, 40, (float(x), 0.0)))
        exact = sum((of(tuple(c)) * Fraction(float(x)) ** k for k, c in enumerate(table)), Fraction(0))
        assert abs(found - exact) <= Fraction(40, 2**100) * Fraction(float(np.exp(x)))


def test_logarithm() -> None:
    g, before = rng(4), flint.ctx.prec
    x = np.r_[2.0 ** g.uniform(-1022, 1023, trials(400)), 1 + g.uniform(-0.5, 1, trials(400)), 1.0, 5e-324, 0.75]
    flint.ctx.prec = 200
    try:
        for v in x:
            high, low = dd.log(float(v))
            exact = flint.arb(float(v)).log()
            off = abs(flint.arb(high) + flint.arb(low) - exact)
            assert off <= flint.arb(2) ** -98 * max(abs(float(exact.mid())), 0.5), v
    finally:
        flint.ctx.prec = before


def test_constants() -> None:
    before, flint.ctx.prec = flint.ctx.prec, 200
    try:
        assert abs(flint.arb(dd.LN2[0]) + flint.arb(dd.LN2[1]) - flint.arb(2).log()) < flint.arb(2) ** -107
    finally:
        flint.ctx.prec = before
