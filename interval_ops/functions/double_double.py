"""Numbers of about 106 bits as unevaluated sums of two float64, for series that cancel.

Each operation is within 2^-102 relative unless a part underflows (Joldes, Muller, Popescu, "Tight and rigorous error
bounds for basic building blocks of double-word arithmetic", ACM TOMS 44, 2017: AccurateDWPlusDW within 3 * 2^-106 for
any signs, DWTimesDW within 7 * 2^-106).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from interval_ops.arithmetic.hull import fused
from interval_ops.compiled import compiled

Double = tuple[float, float]

LN2: Double = (0.6931471805599453, 2.3190468138462996e-17)
_LOG_TERMS = 24


def split(x: Fraction) -> Double:
    """The two parts of a rational number: what is left is below 2^-106 of it."""
    high = float(x)
    return high, float(x - Fraction(high))


def table(numbers: list[Fraction]) -> np.ndarray:
    """The parts of rational numbers, one row each."""
    return np.array([split(x) for x in numbers])


_ODD = table([Fraction(1, 2 * k + 1) for k in range(_LOG_TERMS)])


@compiled
def two_sum(a: float, b: float) -> Double:
    """a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@compiled
def add(x: Double, y: Double) -> Double:
    """x + y: both parts are summed exactly first, so that opposite signs lose nothing."""
    s, e = two_sum(x[0], y[0])
    t, f = two_sum(x[1], y[1])
    e += t
    high = s + e
    e = e - (high - s) + f
    total = high + e
    return total, e - (total - high)


@compiled
def multiply(x: Double, y: Double) -> Double:
    p = x[0] * y[0]
    e = fused(x[0], y[0], -p) + (x[0] * y[1] + x[1] * y[0])
    high = p + e
    return high, e - (high - p)


@compiled
def quotient(x: Double, y: Double) -> Double:
    """x / y, with two steps of long division."""
    q = x[0] / y[0]
    p = multiply((q, 0.0), y)
    rest = add(x, (-p[0], -p[1]))
    more = rest[0] / y[0]
    p = multiply((more, 0.0), y)
    rest = add(rest, (-p[0], -p[1]))
    high, low = two_sum(q, more)
    return add((high, low), (rest[0] / y[0], 0.0))


@compiled
def polynomial(coefficients: np.ndarray, terms: int, x: Double) -> Double:
    """Sum of coefficients[k] x^k for k < terms, by Horner's rule: off by 2^-100 terms sum |coefficients[k] x^k|."""
    total = (coefficients[terms - 1, 0], coefficients[terms - 1, 1])
    for k in range(terms - 2, -1, -1):
        total = add(multiply(total, x), (coefficients[k, 0], coefficients[k, 1]))
    return total


@compiled
def log(x: float) -> Double:
    """ln x for finite x > 0, within 2^-98 of max(|ln x|, 2^-1): ln m = 2 artanh((m - 1) / (m + 1)), m = x 2^-e near 1.

    |m - 1| / (m + 1) <= 0.1716, so that 24 terms of the series leave 0.1716^48 / 49 < 2^-127.
    """
    m, e = math.frexp(x)
    if m < 0.7071067811865476:
        m, e = 2.0 * m, e - 1
    t = quotient((m - 1.0, 0.0), two_sum(m, 1.0))
    series = multiply(t, polynomial(_ODD, _LOG_TERMS, multiply(t, t)))
    return add(multiply((float(e), 0.0), LN2), (2.0 * series[0], 2.0 * series[1]))
