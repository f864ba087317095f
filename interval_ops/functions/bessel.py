"""Bessel functions of orders 0 and 1 in float64, with a proved error; the form of `special`.

J and Y below `SERIES_END`: the power series at 0 (DLMF 10.2.2, 10.8.1, 10.8.2) in double-double numbers. Its terms add
up to I0(x) in magnitude (10.25.2), so that the cancellation costs 2^-94 I0(x): 2^-83 at 8, 2^-61 at 25. The first term
left out is below 2^-100. Beyond: Hankel's expansion (10.17.3, 10.17.4), whose remainders for real x and these orders
are below the first term left out (10.17 iii), 2^-60 from 25 on; what is left is the error of float64's sine and cosine.
`error` states the sum, with room.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np

from interval_ops.compiled import compiled
from interval_ops.functions import double_double as dd

SERIES_END = 25.0
_NEAR = 8.0
_TERMS, _NEAR_TERMS = 64, 34
_GAMMA: dd.Double = (0.5772156649015329, -4.942915152430645e-18)
_TWO_OVER_PI: dd.Double = (0.6366197723675814, -3.935735335036497e-17)
_ROOT_PI = 1.772453850905516


def _harmonic(n: int) -> list[Fraction]:
    return list(accumulate((Fraction(1, k) for k in range(1, n + 1)), initial=Fraction(0)))


def _series(order: int) -> list[Fraction]:
    """Coefficients of J_order(x) / (x/2)^order in powers of x^2 / 4."""
    return [Fraction((-1) ** k, math.factorial(k) * math.factorial(k + order)) for k in range(_TERMS)]


def _hankel(order: int, start: int) -> np.ndarray:
    """(-1)^k a_(2k + start)(order) for k = 0, 1, ... (DLMF 10.17.1)."""
    a = [Fraction(1)]
    for k in range(1, 2 * _HANKEL_TERMS):
        a.append(a[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return np.array([float((-1) ** k * a[2 * k + start]) for k in range(_HANKEL_TERMS)])


_HANKEL_TERMS = 14
_H = _harmonic(_TERMS)
_J0, _J1 = dd.table(_series(0)), dd.table(_series(1))
_Y0 = dd.table([-c * _H[k] for k, c in enumerate(_series(0))])
_Y1 = dd.table([-c * (_H[k] + _H[k + 1]) / 2 for k, c in enumerate(_series(1))])
_P0, _Q0, _P1, _Q1 = (_hankel(order, start) for order in (0, 1) for start in (0, 1))


@compiled
def error(x: float) -> float:
    """Absolute error of the values here beside 2^-50 relative."""
    x = abs(x)
    if x < _NEAR:
        return 0.0 if x == 0.0 else 2.0**-76 * min(x, 1.0) + 2.0**-1072  # J1 of a subnormal number is one
    return 2.0**-48 / math.sqrt(x)


@compiled
def _horner(coefficients, x):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(coefficients.size - 1, -1, -1):
        total = total * x + coefficients[k]
    return total


@compiled
def _square(x: float) -> dd.Double:
    """x^2 / 4."""
    return dd.multiply((0.5 * x, 0.0), (0.5 * x, 0.0))


@compiled
def _terms(x: float) -> int:
    return _NEAR_TERMS if x < _NEAR else _TERMS


@compiled
def _far(x: float, order: int, second: bool) -> float:
    """Hankel's expansion for x >= 25; cos and sin of x - (order/2 + 1/4) pi from those of x."""
    t = 1.0 / x
    p, q = _P0, _Q0
    if order == 1:
        p, q = _P1, _Q1
    even, odd = _horner(p, t * t), _horner(q, t * t) * t
    c, s = math.cos(x), math.sin(x)
    cosine, sine = (c + s, s - c) if order == 0 else (s - c, -(s + c))
    value = even * sine + odd * cosine if second else even * cosine - odd * sine
    return value / (_ROOT_PI * math.sqrt(x))


@compiled
def _j0(x: float) -> float:
    x = abs(x)
    if not x < math.inf:
        return 0.0 if x == math.inf else x
    return dd.polynomial(_J0, _terms(x), _square(x))[0] if x < SERIES_END else _far(x, 0, False)


@compiled
def _j1(x: float) -> float:
    if not abs(x) < math.inf:
        return math.copysign(0.0, x) if x == x else x
    if abs(x) >= SERIES_END:
        return math.copysign(1.0, x) * _far(abs(x), 1, False)
    return dd.multiply((0.5 * x, 0.0), dd.polynomial(_J1, _terms(abs(x)), _square(x)))[0]


@compiled
def _y0(x: float) -> float:
    """2/pi ((ln(x/2) + gamma) J0(x) + sum of (-1)^(k+1) H_k (x^2/4)^k / k!^2); NaN below 0."""
    if not x > 0.0 or x == math.inf:
        return -math.inf if x == 0.0 else (0.0 if x > 0.0 else math.nan)
    if x >= SERIES_END:
        return _far(x, 0, True)
    z, n = _square(x), _terms(x)
    log = dd.add(dd.log(0.5 * x) if x > 1e-300 else (math.log(x) - dd.LN2[0], 0.0), _GAMMA)
    total = dd.add(dd.multiply(log, dd.polynomial(_J0, n, z)), dd.polynomial(_Y0, n, z))
    return dd.multiply(_TWO_OVER_PI, total)[0]


@compiled
def _y1(x: float) -> float:
    """2/pi ((ln(x/2) + gamma) J1(x) - 1/x - x/2 sum of (-1)^k (H_k + H_(k+1)) / 2 (x^2/4)^k / (k! (k+1)!))."""
    if not x > 0.0 or x == math.inf:
        return -math.inf if x == 0.0 else (0.0 if x > 0.0 else math.nan)
    if x >= SERIES_END:
        return _far(x, 1, True)
    if x < 2.0**-60:
        return -_TWO_OVER_PI[0] / x
    z, n, half = _square(x), _terms(x), (0.5 * x, 0.0)
    log = dd.add(dd.log(0.5 * x), _GAMMA)
    series = dd.add(dd.multiply(log, dd.polynomial(_J1, n, z)), dd.polynomial(_Y1, n, z))
    pole = dd.quotient((-1.0, 0.0), (x, 0.0))
    return dd.multiply(_TWO_OVER_PI, dd.add(dd.multiply(half, series), pole))[0]


@compiled
def j0(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _j0(x[i])


@compiled
def j1(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _j1(x[i])


@compiled
def y0(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _y0(x[i])


@compiled
def y1(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _y1(x[i])
