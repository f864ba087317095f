"""The error function's family and the gamma function at the ends of fp64 intervals, as `doubles`.

erf below 2.5: e^(-z^2) 2 / sqrt pi times the sum of 2^n z^(2n + 1) / (2n + 1)!! (DLMF 7.6.2), whose terms are positive.
erfc beyond: Laplace's continued fraction (7.9.2), whose convergents enclose the value on either side. The inverses are
one step of Newton's method from `special`'s, which squares their 2^-49. ln gamma: Stirling's series (5.11.1) from 24
on, whose remainder is below the first term left out (5.11 ii), 2^-102; below by x gamma(x) = gamma(x + 1); near its
zeros 1 and 2 the power series of zeta (5.7.3).
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from interval_ops.compiled import compiled
from interval_ops.functions import double_double as dd
from interval_ops.functions import doubles, special
from interval_ops.functions.constants import STEP, circle

Double = dd.Double
_SPLIT, _FRACTIONS, _SHIFT = 2.5, 48, 24.0
_ZETAS = 54


def _zeta(k: int, bernoulli: list[Fraction]) -> Fraction:
    """Sum of n^-k for n < 40 and the rest by Euler and Maclaurin (DLMF 25.2.9), good to 10^-38 for k >= 2."""
    n, one = 40, 1 << 200
    total = Fraction(sum(one // i**k for i in range(1, n)), one) + Fraction(n, (k - 1) * n**k) + Fraction(1, 2 * n**k)
    rising = k
    for j, b in enumerate(bernoulli, 1):
        total += b * Fraction(rising, math.factorial(2 * j) * n ** (k - 1 + 2 * j))
        rising *= (k + 2 * j - 1) * (k + 2 * j)
    return total


def _bernoulli(count: int) -> list[Fraction]:
    """B_2, B_4, ... by their recurrence (DLMF 24.5.3)."""
    b = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        b.append(-sum((math.comb(m + 1, k) * b[k] for k in range(m)), Fraction(0)) / (m + 1))
    return b[2::2]


def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stirling's coefficients; those of ln gamma(1 + z) / z; ln(2 pi) / 2, 2 / sqrt pi, 1 / sqrt pi, sqrt 2, gamma."""
    bernoulli = _bernoulli(13)
    stirling = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(bernoulli, 1)]
    with localcontext() as context:
        context.prec = 50
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582")
        pi += circle(pi)[1]
        euler = Fraction("0.57721566490153286060651209008240243104215933593992")
        near = [-euler, *((-1) ** k * _zeta(k, bernoulli) / k for k in range(2, _ZETAS))]
        single = [(2 * pi).ln() / 2, 2 / pi.sqrt(), 1 / pi.sqrt(), Decimal(2).sqrt()]
        return dd.table(stirling), dd.table(near), dd.table([Fraction(x) for x in single])


_STIRLING, _NEAR_ONE, _SINGLE = _tables()
_ERF = dd.table([Fraction(2**n, math.prod(range(1, 2 * n + 2, 2))) for n in range(48)])
_HALF_LOG, _TWO_BY_ROOT, _BY_ROOT, _ROOT_TWO = ((float(high), float(low)) for high, low in _SINGLE)


@compiled
def _less(x: Double, y: Double) -> Double:
    return dd.add(x, (-y[0], -y[1]))


@compiled
def _lowered(x: Double):  # type: ignore[no-untyped-def]
    """(v, n) with e^(-x^2) = v 2^n."""
    square = dd.multiply(x, x)
    return doubles.exp_of((-square[0], -square[1]))


@compiled
def _erf_sum(x: Double) -> Double:
    """erf x e^(x^2) sqrt pi / 2 for 0 <= x < 2.5: the terms left out are below 2^-66 of it."""
    square = dd.multiply(x, x)
    return dd.multiply(x, dd.polynomial(_ERF, 22 if x[0] < 1.0 else 48, square))


@compiled
def _erf_of(x: Double) -> Double:
    """erf x for 0 <= x < 2.5."""
    value, n = _lowered(x)
    return dd.multiply(dd.multiply(_TWO_BY_ROOT, _erf_sum(x)), doubles.scaled(value, math.ldexp(1.0, n)))


@compiled
def _tail(x: Double) -> Double:
    """erfc x e^(x^2) for x >= 2.5: 48 steps of the continued fraction leave less than 2^-66."""
    value = x
    if x[0] < 2.0**60:
        for k in range(_FRACTIONS, 0, -1):
            value = dd.add(x, dd.quotient((0.5 * k, 0.0), value))
    return dd.quotient(_BY_ROOT, value)


@compiled
def erfc_of(x: Double):  # type: ignore[no-untyped-def]
    """(v, n) with erfc x = v 2^n."""
    if x[0] < 0.0:
        value, n = erfc_of((-x[0], -x[1]))
        return _less((2.0, 0.0), doubles.scaled(value, math.ldexp(1.0, max(n, -900)))), 0
    if x[0] < _SPLIT:
        return _less((1.0, 0.0), _erf_of(x)), 0
    value, n = _lowered(x)
    return dd.multiply(value, _tail(x)), n


@compiled
def _inverse(y: float, x: Double) -> Double:
    """erfinv x from y, for |x| <= 1/2."""
    rest = _less(_erf_of((abs(y), 0.0)), (abs(x[0]), math.copysign(1.0, x[0]) * x[1]))[0]
    moved = dd.two_sum(abs(y), -rest * math.exp(y * y) / _TWO_BY_ROOT[0])
    return moved if x[0] > 0.0 else (-moved[0], -moved[1])


@compiled
def inverse_erfc(x: float) -> Double:
    """erfcinv x; the derivative of ln erfc is -2 / sqrt pi / (erfc x e^(x^2))."""
    if not 0.0 < x < 2.0:
        return (math.inf if x == 0.0 else (-math.inf if x == 2.0 else math.nan)), 0.0
    if 0.5 < x < 1.5:
        rest = 1.0 - x
        return _inverse(special._erfinv(rest), (rest, 0.0)) if abs(rest) > 2.0**-100 else (0.0, 0.0)
    p = x if x < 1.0 else 2.0 - x
    y = special._erfcinv(p)
    value, n = erfc_of((y, 0.0))
    m, e = math.frexp(p)
    rest = _less(doubles.scaled(value, math.ldexp(1.0, n - e)), (m, 0.0))[0] / m
    moved = dd.two_sum(y, rest * special.erfcx(y) / _TWO_BY_ROOT[0])
    return moved if x < 1.0 else (-moved[0], -moved[1])


@compiled
def inverse_erf(x: float) -> float:
    size = abs(x)
    if size < 2.0**-30:  # x sqrt pi / 2 (1 + pi x^2 / 12)
        small = dd.quotient((size * 2.0**600, 0.0), _TWO_BY_ROOT)
        return math.copysign(dd.multiply(small, (1.0 + math.pi / 12.0 * x * x, 0.0))[0] * 2.0**-600, x)
    if size <= 0.5:
        return _inverse(special._erfinv(x), (x, 0.0))[0]
    return math.copysign(inverse_erfc(1.0 - size)[0], x) if size <= 1.0 else math.nan


@compiled
def error_function(kind, x, out):  # type: ignore[no-untyped-def]
    """erf, erfc, e^(x^2) erfc x, the normal distribution, erfinv, erfcinv, the normal quantile."""
    for i in range(out.size):
        v = x[i]
        size = abs(v)
        if kind == 4:
            out[i] = inverse_erf(v)
        elif kind == 5:
            out[i] = inverse_erfc(v)[0]
        elif kind == 6:
            q = inverse_erfc(2.0 * v)
            out[i] = -dd.multiply(_ROOT_TWO, q)[0] if abs(q[0]) < math.inf else -q[0]
        elif size != size:
            out[i] = v
        elif kind == 0:
            if size < 2.0**-500:
                out[i] = dd.multiply((v * 2.0**600, 0.0), _TWO_BY_ROOT)[0] * 2.0**-600
            elif size < _SPLIT:
                out[i] = math.copysign(_erf_of((size, 0.0))[0], v)
            else:
                value, n = erfc_of((min(size, 7.0), 0.0))
                out[i] = math.copysign(_less((1.0, 0.0), doubles.scaled(value, math.ldexp(1.0, n)))[0], v)
        elif kind == 2:
            if v >= _SPLIT:
                out[i] = _tail((v, 0.0))[0] if v < math.inf else 0.0
            else:
                value, n = _lowered((max(v, -40.0), 0.0))
                whole, m = erfc_of((max(v, -40.0), 0.0))
                out[i] = math.ldexp(dd.quotient(whole, value)[0], m - n)
        else:
            v = min(max(v, -60.0), 60.0)
            given = (v, 0.0) if kind == 1 else dd.quotient((-v, 0.0), _ROOT_TWO)
            value, n = erfc_of(given)
            out[i] = math.ldexp(value[0], n if kind == 1 else n - 1)


@compiled
def _stirling(z: Double) -> Double:
    """ln gamma z for z >= 24."""
    inverse = dd.quotient((1.0, 0.0), z)
    series = dd.multiply(inverse, dd.polynomial(_STIRLING, 13, dd.multiply(inverse, inverse)))
    log = doubles.log_of(z)
    main = _less(dd.multiply(dd.add(z, (-0.5, 0.0)), log), z)
    return dd.add(dd.add(main, _HALF_LOG), series)


@compiled
def _log_gamma(z: Double) -> Double:
    """ln gamma z for z >= 1/4: relative about its zeros 1 and 2 too, where z has no second part."""
    if abs(z[0] - 1.0) <= 0.25 or abs(z[0] - 2.0) <= 0.25:
        near = dd.add(z, (-1.0, 0.0)) if z[0] < 1.5 else dd.add(z, (-2.0, 0.0))
        value = dd.multiply(near, dd.polynomial(_NEAR_ONE, _ZETAS - 1, near))
        return value if z[0] < 1.5 else dd.add(value, doubles.log1p_of(near))
    product = (1.0, 0.0)
    while z[0] < _SHIFT:
        product = dd.multiply(product, z)
        z = dd.add(z, (1.0, 0.0))
    value = _stirling(z)
    return _less(value, doubles.log_of(product)) if product[0] != 1.0 else value


@compiled
def _log_size(x: float) -> Double:
    """ln |gamma x| for finite x, no pole: left of 1/4 by gamma(x) gamma(1 - x) = pi / sin pi x (DLMF 5.5.3)."""
    if x >= 0.25:
        return _log_gamma((x, 0.0))
    if abs(x) < 2.0**-60:
        log = doubles.log_of((abs(x), 0.0))
        return -log[0], -log[1]
    turns = abs(x - np.rint(x))
    steps = np.rint(turns * STEP)
    rest = dd.multiply((turns - steps / STEP, 0.0), doubles.PI)
    sine = doubles.wave_of(int(steps), rest)[1]
    return _less(doubles.log_of(dd.quotient(doubles.PI, sine)), _log_gamma(dd.two_sum(1.0, -x)))


@compiled
def gamma_function(kind, x, out):  # type: ignore[no-untyped-def]
    """gamma, ln |gamma|; at poles and infinities as the C library."""
    for i in range(out.size):
        v = x[i]
        if v != v or abs(v) == math.inf or (v == np.floor(v) and v <= 0.0):
            out[i] = math.gamma(v) if kind == 0 else math.lgamma(v)
        elif kind == 1:
            if v > 2.0**600:  # x (ln x - 1), whose product may overflow
                out[i] = dd.multiply((v * 2.0**-20, 0.0), dd.add(doubles.log_of((v, 0.0)), (-1.0, 0.0)))[0] * 2.0**20
            else:
                out[i] = _log_size(v)[0]
        elif v > 180.0 or v < -200.0:
            out[i] = math.inf if v > 0.0 else 0.0
        else:
            value, n = doubles.exp_of(_log_size(v))
            negative = v < 0.0 and np.fmod(np.floor(v), 2.0) != 0.0
            out[i] = math.ldexp(-value[0] if negative else value[0], n)
