"""Balls of a chosen number of bits, as the reference in more bits computes with them.

A ball holds the exact value, whatever was computed; where python-flint is not installed, mpmath's functions make its
ends, and nobody has proved those (`rigorous`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from render.exact.functions import FORMULAS
from render.exact.points import ARITHMETIC, ZERO, Ball, above, below, number, precision

if ARITHMETIC == "arb":
    from flint import arb_mat as Matrix
else:
    from render.exact.portable import Matrix

Num = Any
Enclosure = tuple[float, float, float]
"""(nearest float64, float64 below, float64 above) of a number with its error."""


class Numbers:
    """What rules need of numbers; +, -, *, /, ** and abs are those of the balls themselves."""

    rigorous = ARITHMETIC == "arb"
    cost = 1.0 if rigorous else 40.0
    """Of an operation, in those of an Arb ball at 128 bits (about 0.2 microseconds)."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def active(self) -> precision:
        return precision(self.bits)

    def number(self, x: float) -> Num:
        return number(x)

    def call(self, name: str, x: Num) -> Num:
        """A function of the table, of every number in x."""
        return FORMULAS[name](x)

    def larger(self, a: Num, b: Num) -> Num:
        return a.max(b)

    def smaller(self, a: Num, b: Num) -> Num:
        return a.min(b)

    def pi(self) -> Num:
        return Ball.pi()

    def sum(self, xs: Sequence[Num]) -> Num:
        return sum(xs, ZERO)

    def choose(self, x: Num, above: Callable[[], Num], below: Callable[[], Num]) -> Num:
        """above() where x > 0, below() where x <= 0, their hull where neither is certain."""
        side = self.sign(x)
        if side is None:
            return above().union(below())
        return above() if side > 0 else below()

    def sign(self, x: Num) -> int | None:
        """Of every number in x; None where they differ (or x is no number)."""
        return 1 if x > 0 else -1 if x < 0 else 0 if x == 0 else None

    def matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = Matrix(*a.shape, a.ravel().tolist()) * Matrix(*b.shape, b.ravel().tolist())
        return _objects(found.entries(), (a.shape[0], b.shape[1]))

    def solved(self, name: str, *matrices: np.ndarray) -> np.ndarray:
        """`det`, `inv` or `solve`; a matrix that may be singular has an unbounded result."""
        first, *rest = (Matrix(*m.shape, m.ravel().tolist()) for m in matrices)
        if name == "det":
            return _objects([first.det()], (1, 1))
        shape = matrices[-1].shape
        try:
            found = first.inv() if name == "inv" else first.solve(*rest)
        except ZeroDivisionError:
            return _objects([number(math.nan)] * math.prod(shape), shape)
        return _objects(found.entries(), shape)

    def enclose(self, x: Num) -> Enclosure:
        value = float(x.mid())
        if x.is_exact() and (not math.isfinite(value) or x == value):
            return value, value, value
        return (value, below(x.lower()), above(x.upper())) if x.is_finite() else (math.nan, -math.inf, math.inf)


def _objects(values: Sequence[Num], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = values
    return found.reshape(shape)
