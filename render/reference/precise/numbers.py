"""Numbers of many bits: balls (python-flint), or mpmath's where that is not installed.

A ball x is an interval [mid - rad, mid + rad] that holds the exact value, whatever was computed: Arb's operations are
rigorous (Johansson, IEEE Trans. Comput. 66 (2017) 1281). mpmath rounds each operation correctly or to within an ulp and
carries no bound: a graph is evaluated at two precisions, and their difference is an estimate of the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

Num = Any
Enclosure = tuple[float, float, float]
"""(nearest float64, float64 below, float64 above) of a number with its error."""
FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "sqrt", "erf", "erfc", "erfinv", "gamma", "digamma", "floor", "ceil"),
)


class Numbers(Protocol):
    """What rules need of a kind of number; +, -, *, /, ** and abs are those of the numbers themselves."""

    bits: int
    cost: float
    """Of an operation, in those of a ball at 128 bits (about 0.2 microseconds)."""

    def number(self, x: float) -> Num: ...
    def call(self, name: str, x: Num) -> Num: ...
    def larger(self, a: Num, b: Num) -> Num: ...
    def smaller(self, a: Num, b: Num) -> Num: ...
    def pi(self) -> Num: ...
    def sum(self, xs: Sequence[Num]) -> Num: ...
    def choose(self, x: Num, above: Callable[[], Num], below: Callable[[], Num]) -> Num: ...
    def matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray: ...
    def solved(self, name: str, *matrices: np.ndarray) -> np.ndarray: ...
    def sign(self, x: Num) -> int | None: ...
    def enclose(self, x: Num) -> Enclosure: ...


class Balls:
    """Arb: every value is a ball that holds the exact one."""

    rigorous = True
    cost = 1.0

    def __init__(self, bits: int) -> None:
        from flint import arb, arb_mat

        self.bits, self._arb, self._mat = bits, arb, arb_mat
        self._zero = arb(0)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Arb's precision is a global: set inside only."""
        from flint import ctx

        before = ctx.prec
        ctx.prec = self.bits
        try:
            yield
        finally:
            ctx.prec = before

    def number(self, x: float) -> Num:
        return self._arb(x)

    def call(self, name: str, x: Num) -> Num:
        return getattr(x, name)()

    def larger(self, a: Num, b: Num) -> Num:
        return a.max(b)

    def smaller(self, a: Num, b: Num) -> Num:
        return a.min(b)

    def pi(self) -> Num:
        return self._arb.pi()

    def sum(self, xs: Sequence[Num]) -> Num:
        return sum(xs, self._zero)

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
        found = self._mat(*a.shape, a.ravel().tolist()) * self._mat(*b.shape, b.ravel().tolist())
        return _objects(found.entries(), (a.shape[0], b.shape[1]))

    def solved(self, name: str, *matrices: np.ndarray) -> np.ndarray:
        """`det`, `inv` or `solve`; a matrix that may be singular has an unbounded result."""
        first, *rest = (self._mat(*m.shape, m.ravel().tolist()) for m in matrices)
        if name == "det":
            return _objects([first.det()], (1, 1))
        shape = matrices[-1].shape
        try:
            found = first.inv() if name == "inv" else first.solve(*rest)
        except ZeroDivisionError:
            return _objects([self._arb("nan")] * math.prod(shape), shape)
        return _objects(found.entries(), shape)

    def enclose(self, x: Num) -> Enclosure:
        value = float(x.mid())
        if x.is_exact() and (not math.isfinite(value) or x == self._arb(value)):
            return value, value, value
        if not x.is_finite():
            return math.nan, -math.inf, math.inf
        lo, hi = float(x.lower()), float(x.upper())  # to nearest: perhaps to the wrong side
        lo = lo if self._arb(lo) <= x else math.nextafter(lo, -math.inf)
        hi = hi if self._arb(hi) >= x else math.nextafter(hi, math.inf)
        return value, lo, hi


class Reals:
    """mpmath: rounded numbers without a bound."""

    rigorous = False
    cost = 16.0

    def __init__(self, bits: int) -> None:
        import mpmath

        self.bits = bits
        self.mp = mpmath.mp.clone()
        self.mp.prec = bits

    @contextmanager
    def active(self) -> Iterator[None]:
        yield

    def number(self, x: float) -> Num:
        return self.mp.mpf(x)

    def call(self, name: str, x: Num) -> Num:
        try:
            found = getattr(self.mp, name)(x)
        except (ValueError, ZeroDivisionError):
            return self.mp.nan
        return found if isinstance(found, self.mp.mpf) else self.mp.nan  # complex: outside the real domain

    def larger(self, a: Num, b: Num) -> Num:
        return self.mp.nan if a != a or b != b else max(a, b)

    def smaller(self, a: Num, b: Num) -> Num:
        return self.mp.nan if a != a or b != b else min(a, b)

    def pi(self) -> Num:
        return +self.mp.pi

    def sum(self, xs: Sequence[Num]) -> Num:
        return self.mp.fsum(xs)

    def choose(self, x: Num, above: Callable[[], Num], below: Callable[[], Num]) -> Num:
        return above() if x > 0 else below()

    def sign(self, x: Num) -> int | None:
        return None if x != x else int(x > 0) - int(x < 0)

    def matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        columns = [c.tolist() for c in b.T]
        return _objects([self.mp.fdot(r, c) for r in a.tolist() for c in columns], (a.shape[0], b.shape[1]))

    def solved(self, name: str, *matrices: np.ndarray) -> np.ndarray:
        first, *rest = (self.mp.matrix(m.tolist()) for m in matrices)
        if name == "det":
            return _objects([self.mp.det(first)], (1, 1))
        shape = matrices[-1].shape
        try:
            columns = [self.mp.lu_solve(first, b[:, j]) for b in rest for j in range(b.cols)]
            found = self.mp.inverse(first) if name == "inv" else None
        except ZeroDivisionError:
            return _objects([self.mp.nan] * math.prod(shape), shape)
        at = (lambda i, j: found[i, j]) if found is not None else (lambda i, j: columns[j][i])
        return _objects([at(i, j) for i in range(shape[0]) for j in range(shape[1])], shape)

    def enclose(self, x: Num) -> Enclosure:
        value = float(x)
        if not math.isfinite(value) or self.mp.mpf(value) == x:
            return value, value, value
        return value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf)


def _objects(values: Sequence[Num], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = values
    return found.reshape(shape)


def have_balls() -> bool:
    """Is python-flint installed?"""
    from importlib.util import find_spec

    return find_spec("flint") is not None
