"""Arb's methods on mpmath, for machines without python-flint: slower, and not proved.

A `Ball` is a pair of mpmath's raw numbers. Sums, products, quotients and roots are rounded outward by mpmath; functions
are evaluated with 40 bits to spare and moved outward by far more than mpmath may be off, which it does not prove.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import mpmath
from mpmath import libmp
from mpmath.libmp import finf, fnan, fninf, fone, from_float, from_int, from_man_exp, fzero

Raw = Any
SPARE, DOUBT = 40, 20
"""Bits that functions are evaluated with besides, and bits that their results are moved by."""


class Precision:
    """`prec`: bits of every rounded end, as flint.ctx has it."""

    prec = 53


ctx = Precision()


def _raw(x: Any) -> Raw:
    if isinstance(x, tuple):
        return from_man_exp(*x)
    return from_int(int(x)) if isinstance(x, int) else from_float(float(x))


def _least(xs: Sequence[Raw]) -> Raw:
    out = xs[0]
    for x in xs[1:]:
        out = x if libmp.mpf_lt(x, out) else out
    return fnan if fnan in xs else out


def _most(xs: Sequence[Raw]) -> Raw:
    return libmp.mpf_neg(_least([libmp.mpf_neg(x) for x in xs]))


def _monotone(x: Ball, formula: Callable[..., Any]) -> Ball:
    first = _at(formula, x.lo)
    return first if x.is_exact() else first.union(_at(formula, x.hi))


def _named(name: str) -> Callable[[Ball], Ball]:
    return lambda x: _monotone(x, lambda m, v: getattr(m, name)(v))


class Ball:
    """Ends included; NaN in both is anything."""

    __slots__ = ("hi", "lo")
    lo: Raw
    hi: Raw

    def __init__(self, x: Any = 0, radius: float = 0.0) -> None:
        exact = (x.lo, x.hi) if isinstance(x, Ball) else (_raw(x),) * 2
        if radius:
            exact = libmp.mpf_sub(exact[0], _raw(radius)), libmp.mpf_add(exact[1], _raw(radius))
        self.lo, self.hi = exact

    @classmethod
    def of(cls, lo: Raw, hi: Raw) -> Ball:
        made = cls.__new__(cls)
        made.lo, made.hi = (fnan, fnan) if fnan in (lo, hi) else (lo, hi)
        return made

    # arithmetic
    def _pairs(self, other: Any, operation: Callable[..., Raw]) -> Ball:
        y = other if isinstance(other, Ball) else Ball(other)
        pairs = [(a, b) for a in {self.lo, self.hi} for b in {y.lo, y.hi}]
        down, up = ([operation(a, b, ctx.prec, way) for a, b in pairs] for way in "fc")
        return Ball.of(_least(down), _most(up))

    def __add__(self, other: Any) -> Ball:
        y = other if isinstance(other, Ball) else Ball(other)
        return Ball.of(libmp.mpf_add(self.lo, y.lo, ctx.prec, "f"), libmp.mpf_add(self.hi, y.hi, ctx.prec, "c"))

    def __sub__(self, other: Any) -> Ball:
        return self + -(other if isinstance(other, Ball) else Ball(other))

    def __mul__(self, other: Any) -> Ball:
        y = other if isinstance(other, Ball) else Ball(other)
        if self.lo[1] and y.lo[1] and not self.lo[0] and not y.lo[0]:  # both positive
            return Ball.of(libmp.mpf_mul(self.lo, y.lo, ctx.prec, "f"), libmp.mpf_mul(self.hi, y.hi, ctx.prec, "c"))
        return self._pairs(y, libmp.mpf_mul)

    def __truediv__(self, other: Any) -> Ball:
        y = other if isinstance(other, Ball) else Ball(other)
        return ANYTHING if y.contains_zero() else self._pairs(y, libmp.mpf_div)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Ball:
        return Ball(other) - self

    def __rtruediv__(self, other: Any) -> Ball:
        return Ball(other) / self

    def __rpow__(self, other: Any) -> Ball:
        return Ball(other) ** self

    def __pow__(self, other: Any) -> Ball:
        y = other if isinstance(other, Ball) else Ball(other)
        if y.is_exact() and y.is_finite() and y == y.floor():
            return self._power(libmp.to_int(y.lo))
        if not self > 0:
            return ANYTHING
        if self.is_exact() and y.is_exact():
            return _at(lambda m, a: m.power(a, m.make_mpf(y.lo)), self.lo)
        return (y * self.log()).exp()

    def _power(self, n: int) -> Ball:
        if n < 0:
            return 1 / self._power(-n)
        if n % 2 == 0 and self.contains_zero():
            return Ball.of(fzero, (abs(self)._power(n)).hi)
        down, up = ([libmp.mpf_pow_int(v, n, ctx.prec, way) for v in (self.lo, self.hi)] for way in "fc")
        return Ball.of(_least(down), _most(up))

    def __neg__(self) -> Ball:
        return Ball.of(libmp.mpf_neg(self.hi), libmp.mpf_neg(self.lo))

    def __pos__(self) -> Ball:
        return Ball.of(self.lower().lo, self.upper().hi)

    def __abs__(self) -> Ball:
        ends = [libmp.mpf_abs(v) for v in (self.lo, self.hi)]
        return Ball.of(fzero if self.contains_zero() else _least(ends), _most(ends))

    # order: of every number in one and every number in the other
    def __lt__(self, other: Any) -> bool:
        return bool(libmp.mpf_lt(self.hi, (other if isinstance(other, Ball) else Ball(other)).lo))

    def __le__(self, other: Any) -> bool:
        return bool(libmp.mpf_le(self.hi, (other if isinstance(other, Ball) else Ball(other)).lo))

    def __gt__(self, other: Any) -> bool:
        return (other if isinstance(other, Ball) else Ball(other)) < self

    def __ge__(self, other: Any) -> bool:
        return (other if isinstance(other, Ball) else Ball(other)) <= self

    def __eq__(self, other: object) -> bool:
        y = other if isinstance(other, Ball) else Ball(other)
        return self.is_exact() and y.is_exact() and bool(libmp.mpf_eq(self.lo, y.lo))

    def __hash__(self) -> int:
        return hash((self.lo, self.hi))

    def __float__(self) -> float:
        return float(libmp.to_float(self.mid().lo, rnd="n"))

    # what is known of it
    def contains_zero(self) -> bool:
        return bool(libmp.mpf_le(self.lo, fzero) and libmp.mpf_le(fzero, self.hi))

    def is_exact(self) -> bool:
        return bool(self.lo == self.hi != fnan)

    def is_nan(self) -> bool:
        return bool(self.lo == fnan)

    def is_finite(self) -> bool:
        return not any(v in (finf, fninf, fnan) for v in (self.lo, self.hi))

    def lower(self) -> Ball:
        return Ball.of(*(libmp.mpf_pos(self.lo, ctx.prec, "f"),) * 2)

    def upper(self) -> Ball:
        return Ball.of(*(libmp.mpf_pos(self.hi, ctx.prec, "c"),) * 2)

    def mid(self) -> Ball:
        inner = self.lo if self.lo == self.hi else libmp.mpf_shift(libmp.mpf_add(self.lo, self.hi), -1)
        return Ball.of(inner, inner)

    def man_exp(self) -> tuple[int, int]:
        if not self.is_exact() or not self.is_finite():
            raise ValueError("man_exp requires an exact, finite value")
        sign, man, exp, _ = self.lo
        return (-int(man) if sign else int(man)), int(exp)

    def rel_accuracy_bits(self) -> int:
        width = libmp.mpf_sub(self.hi, self.lo)
        if not width[1]:
            return 1 << 30
        size = abs(self).hi
        return int(size[2] + size[3] - width[2] - width[3])

    # selections
    def union(self, other: Ball) -> Ball:
        return Ball.of(_least([self.lo, other.lo]), _most([self.hi, other.hi]))

    def max(self, other: Ball) -> Ball:
        return Ball.of(_most([self.lo, other.lo]), _most([self.hi, other.hi]))

    def min(self, other: Ball) -> Ball:
        return Ball.of(_least([self.lo, other.lo]), _least([self.hi, other.hi]))

    def floor(self) -> Ball:
        return self._ends(lambda v: v if v in (finf, fninf, fnan) else libmp.mpf_floor(v))

    def ceil(self) -> Ball:
        return -(-self).floor()

    def _ends(self, formula: Callable[[Raw], Raw]) -> Ball:
        return Ball.of(formula(self.lo), formula(self.hi))

    # functions
    (
        exp, expm1, log, log1p, tanh, sinh, asinh, acosh, atanh, asin, acos, atan, erf, erfc, erfinv,
    ) = map(_named, (
        "exp", "expm1", "log", "log1p", "tanh", "sinh", "asinh", "acosh", "atanh", "asin", "acos", "atan", "erf",
        "erfc", "erfinv",
    ))  # fmt: skip

    @staticmethod
    def pi() -> Ball:
        return Ball.of(libmp.mpf_pi(ctx.prec, "f"), libmp.mpf_pi(ctx.prec, "c"))

    def sqrt(self) -> Ball:
        if not self >= 0:
            return ANYTHING
        return Ball.of(libmp.mpf_sqrt(self.lo, ctx.prec, "f"), libmp.mpf_sqrt(self.hi, ctx.prec, "c"))

    def rsqrt(self) -> Ball:
        return 1 / self.sqrt()

    def root(self, n: int) -> Ball:
        return _monotone(self, lambda m, x: m.root(x, n)) if self >= 0 else ANYTHING

    def log_base(self, base: int) -> Ball:
        if self.is_exact() and self > 0 and self.is_finite():
            n = round(mpmath.mp.log(mpmath.mp.make_mpf(self.lo), base))
            if abs(n) < 2000 and Ball(base) ** n == self:
                return Ball(n)
        return self.log() / Ball(base).log()

    def erfcinv(self) -> Ball:
        """Of 1 - y, with as many bits as a small y needs."""
        if not (self > 0 and self < 2):
            return ANYTHING
        extra = max(0, -int(self.lo[2] + self.lo[3])) + max(0, -int(self.lo[2]))
        with_bits, ctx.prec = ctx.prec, ctx.prec + extra
        try:
            found = (1 - self).erfinv()
        finally:
            ctx.prec = with_bits
        return +found

    def sin(self) -> Ball:
        return self._wave("sin")

    def cos(self) -> Ball:
        return self._wave("cos")

    def sin_pi(self) -> Ball:
        return self._wave("sinpi")

    def cos_pi(self) -> Ball:
        return self._wave("cospi")

    def _wave(self, name: str) -> Ball:
        """Slopes are at most 1, or pi."""
        if not self.is_finite():
            return ANYTHING
        middle = _at(lambda m, x: getattr(m, name)(x), self.mid().lo)
        reach = ((self - self.mid()) * (4 if name.endswith("pi") else 1)) if not self.is_exact() else Ball(0)
        wave = middle + reach
        return Ball.of(_most([wave.lo, libmp.mpf_neg(fone)]), _least([wave.hi, fone]))

    def tan(self) -> Ball:
        return self.sin() / self.cos()

    def cosh(self) -> Ball:
        return _monotone(abs(self), lambda m, x: m.cosh(x))

    def gamma(self) -> Ball:
        return self._left_of_poles(lambda m, x: m.gamma(x), 0)

    def lgamma(self) -> Ball:
        return self._left_of_poles(lambda m, x: m.loggamma(x), 3)

    def _left_of_poles(self, formula: Callable[..., Any], kind: int) -> Ball:
        if self.is_exact() and not (self <= 0 and self == self.floor()):
            return _at(formula, self.lo)
        return Ball.of(*libmp.mpi_gamma((self.lo, self.hi), ctx.prec, kind))._moved() if self > 0 else ANYTHING

    def digamma(self) -> Ball:
        if self.is_exact():
            return _at(lambda m, x: m.digamma(x), self.lo)
        return _monotone(self, lambda m, x: m.digamma(x)) if self > 0 else ANYTHING

    def bessel_i(self, n: int) -> Ball:
        return _monotone(abs(self) if n == 0 else self, lambda m, x: m.besseli(n, x))

    def bessel_j(self, n: int) -> Ball:
        return _at(lambda m, x: m.besselj(n, x), self.lo) if self.is_exact() else ANYTHING

    def bessel_y(self, n: int) -> Ball:
        return _at(lambda m, x: m.bessely(n, x), self.lo) if self.is_exact() else ANYTHING

    @staticmethod
    def atan2(y: Ball, x: Ball) -> Ball:
        if not (y.is_exact() and x.is_exact()):
            return ANYTHING
        return _at(lambda m, v: m.atan2(v, m.make_mpf(x.lo)), y.lo)

    def _moved(self) -> Ball:
        """Outward, by what the evaluation may be off."""
        if not self.is_finite():
            return self
        pad = libmp.mpf_mul(abs(self).hi, from_man_exp(1, DOUBT - ctx.prec))
        return Ball.of(libmp.mpf_sub(self.lo, pad, ctx.prec, "f"), libmp.mpf_add(self.hi, pad, ctx.prec, "c"))


ANYTHING = Ball(math.nan)


@lru_cache(maxsize=16)
def _context(bits: int) -> Any:
    made = mpmath.mp.clone()
    made.prec = bits
    return made


def _at(formula: Callable[..., Any], x: Raw) -> Ball:
    """A function at a point; results of 0, 1 and -1, and infinities, are taken for exact at short arguments."""
    m = _context(ctx.prec + SPARE)
    try:
        y = formula(m, m.make_mpf(x))
    except (ValueError, ZeroDivisionError, OverflowError):
        return ANYTHING
    if not isinstance(y, m.mpf):
        return ANYTHING  # complex: outside of the domain
    short = x in (fzero, finf, fninf) or libmp.mpf_floor(libmp.mpf_shift(x, 1)) == libmp.mpf_shift(x, 1)
    found = Ball.of(y._mpf_, y._mpf_)
    return found if short and y in (0, 1, -1, m.inf, -m.inf) else found._moved()


class Matrix:
    """As arb_mat: rows x columns of balls, row by row."""

    def __init__(self, rows: int, columns: int, entries: Sequence[Ball]) -> None:
        self.rows, self.columns = rows, columns
        self.of = [list(entries[i * columns : (i + 1) * columns]) for i in range(rows)]

    def entries(self) -> list[Ball]:
        return [x for row in self.of for x in row]

    def __mul__(self, other: Matrix) -> Matrix:
        columns = list(zip(*other.of, strict=True))
        made = [sum((a * b for a, b in zip(row, c, strict=True)), Ball(0)) for row in self.of for c in columns]
        return Matrix(self.rows, other.columns, made)

    def det(self) -> Ball:
        return self._eliminated([[] for _ in self.of])[1]

    def inv(self) -> Matrix:
        one = [Ball(int(i == j)) for i in range(self.rows) for j in range(self.rows)]
        return self.solve(Matrix(self.rows, self.rows, one))

    def solve(self, other: Matrix) -> Matrix:
        return Matrix(self.rows, other.columns, [x for row in self._eliminated(other.of)[0] for x in row])

    def _eliminated(self, right: list[list[Ball]]) -> tuple[list[list[Ball]], Ball]:
        """Gauss and Jordan, by the pivots furthest from 0: (solution, determinant); ZeroDivisionError without one."""
        rows, n, found = [[*a, *b] for a, b in zip(self.of, right, strict=True)], self.rows, Ball(1)
        for i in range(n):
            best = max(range(i, n), key=lambda k: float(abs(rows[k][i]).lower()))
            if rows[best][i].contains_zero():
                if right[0]:
                    raise ZeroDivisionError
                return [], ANYTHING
            found = found * (rows[best][i] if best == i else -rows[best][i])
            rows[i], rows[best] = rows[best], rows[i]
            rows[i] = [x / rows[i][i] for x in rows[i]]
            for k in range(n):
                if k != i:
                    rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
        return [row[n:] for row in rows], found
