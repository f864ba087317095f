"""Special functions in float64 that numpy lacks, good to `function_kernels.LIBM` relative (tested against mpmath).

Each kernel reads a flat array and fills `out`, the form that `functions` evaluates ends with. Where a function has no
relative accuracy (near its zeros) its docstring gives the absolute error.
"""

from __future__ import annotations

import math

import numpy as np

from interval_ops.arithmetic.hull import fused
from interval_ops.compiled import compiled

_ROOT_PI = 1.772453850905516
_TWO_OVER_ROOT_PI = 1.1283791670955126
_ROOT_HALF, _ROOT_HALF_REST = 0.7071067811865476, -4.833646656726457e-17
_WINITZKI = 0.147


@compiled
def erfcx(x: float) -> float:
    """exp(x^2) erfc(x). For x >= 25 the asymptotic series (DLMF 7.12.1), whose 8th term is below 2^-56 there.

    A common mistake: exp(x * x) as it stands, which is off by x^2 2^-53.
    """
    if x >= 25.0:
        t, term, total = 0.5 / (x * x), 1.0, 1.0
        for k in range(1, 9):
            term *= -(2 * k - 1) * t
            total += term
        return total / _ROOT_PI / x  # x * sqrt(pi) may overflow
    square = x * x
    return math.inf if square > 709.0 else math.exp(square) * math.exp(fused(x, x, -square)) * math.erfc(x)


@compiled
def _inverse_erf_guess(log: float) -> float:
    """Winitzki's approximation of |erfinv(x)| from ln(1 - x^2), good to 2e-3: a start for Newton's method."""
    c = 2.0 / (math.pi * _WINITZKI) + 0.5 * log
    return math.sqrt(max(math.sqrt(c * c - log / _WINITZKI) - c, 0.0))


@compiled
def _inverse_erfc_tail(x: float) -> float:
    """erfcinv for 0 < x <= 0.1: Newton's method on ln erfc(y) = ln erfcx(y) - y^2, which keeps its digits."""
    y = _inverse_erf_guess(math.log(x * (2.0 - x)))
    log = math.log(x)
    for _ in range(5):
        scaled = erfcx(y)
        y += (math.log(scaled) - y * y - log) * 0.5 * _ROOT_PI * scaled
    return y


@compiled
def _inverse_erf_centre(x: float) -> float:
    """erfinv for |x| <= 0.9 by Newton's method on erf."""
    y = math.copysign(_inverse_erf_guess(math.log1p(-x * x)), x)
    for _ in range(4):
        y -= (math.erf(y) - x) * 0.5 * _ROOT_PI * math.exp(y * y)
    return y


@compiled
def _erfcinv(x: float) -> float:
    """1 - x and 2 - x are exact where they are used, or lose nothing that the result shows."""
    if not 0.0 < x < 2.0:
        return math.inf if x == 0.0 else (-math.inf if x == 2.0 else math.nan)
    if x <= 0.1:
        return _inverse_erfc_tail(x)
    return _inverse_erf_centre(1.0 - x) if x < 1.9 else -_inverse_erfc_tail(2.0 - x)


@compiled
def _erfinv(x: float) -> float:
    if abs(x) < 2.0**-30:
        return x / _TWO_OVER_ROOT_PI
    if abs(x) <= 0.9 or x != x:
        return _inverse_erf_centre(x)
    return math.copysign(_erfcinv(1.0 - abs(x)), x) if abs(x) <= 1.0 else math.nan


@compiled
def _normcdf(x: float) -> float:
    """erfc(-x / sqrt 2) / 2, with the rounding of the argument taken out: the tail would lose x^2 2^-53."""
    y = -x * _ROOT_HALF
    rest = fused(-x, _ROOT_HALF, -y) - x * _ROOT_HALF_REST
    value = math.erfc(y)
    if not 1.0 < y < 40.0:
        return 0.5 * (value - rest * _TWO_OVER_ROOT_PI * math.exp(-min(y * y, 700.0))) if abs(y) <= 1.0 else 0.5 * value
    return 0.5 * value * (1.0 - rest * _TWO_OVER_ROOT_PI / erfcx(y))


@compiled
def _sinpi(x: float) -> float:
    """sin(pi x) after an exact reduction to a quarter turn on either side of a zero."""
    r = x - 2.0 * np.rint(0.5 * x)
    near = np.rint(2.0 * r)
    t = math.pi * (r - 0.5 * near)
    odd = int(near) & 3
    if odd == 0:
        return math.sin(t)
    if odd == 1:
        return math.cos(t)
    return -math.sin(t) if odd == 2 else -math.cos(t)


@compiled
def _gamma(x: float) -> float:
    return math.gamma(x)


@compiled
def _lgamma(x: float) -> float:
    """ln |gamma(x)|; near its zeros 1 and 2 the error is absolute, below 2^-48."""
    return math.lgamma(x)


@compiled
def scaled_erfc(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = erfcx(x[i])


@compiled
def erfc(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = math.erfc(x[i])


@compiled
def erfinv(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _erfinv(x[i])


@compiled
def erfcinv(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _erfcinv(x[i])


@compiled
def normcdf(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _normcdf(x[i])


@compiled
def normcdfinv(x, out):  # type: ignore[no-untyped-def]
    """-sqrt(2) erfcinv(2 p); 2 p is exact."""
    for i in range(out.size):
        out[i] = -math.sqrt(2.0) * _erfcinv(2.0 * x[i])


@compiled
def sinpi(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _sinpi(x[i])


@compiled
def cospi(x, out):  # type: ignore[no-untyped-def]
    """sin(pi (x + 1/2)), with the half turn added after an exact reduction to [-1, 1]."""
    for i in range(out.size):
        r = abs(x[i] - 2.0 * np.rint(0.5 * x[i]))
        out[i] = _sinpi(0.5 - r) if r > 0.25 else math.cos(math.pi * r)


@compiled
def gamma(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _gamma(x[i])


@compiled
def lgamma(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _lgamma(x[i])
