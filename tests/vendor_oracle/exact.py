"""Mathematical functions in float64, compiled: references for fp32 results, good to a thousandth of an fp32 ulp.

They rest on the C library of the host, not on anything that is measured with them. Inverse functions take one Newton
step from the value under test: its error is squared, so what is left is the error of erf and erfc.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray
_OPTIONS = {"nogil": True, "error_model": "numpy"}

ROOT_PI = math.sqrt(math.pi)
ROOT_2 = math.sqrt(2.0)


@njit(**_OPTIONS)
def _erfinv(x: float, y: float) -> float:
    """erfinv(x) from an approximation y of it."""
    if math.isinf(y):
        return y if x == math.copysign(1.0, y) else math.nan
    a, b = abs(x), abs(y)
    error = math.erf(b) - a if a < 0.5 else (1.0 - a) - math.erfc(b)
    return math.copysign(b - error * ROOT_PI / 2 * math.exp(b * b), x)


@njit(**_OPTIONS)
def _erfcinv(x: float, y: float) -> float:
    if math.isinf(y):
        return y if x == (0.0 if y > 0 else 2.0) else math.nan
    if 0.5 < x < 1.5:
        return y - (math.erf(y) - (1.0 - x)) * ROOT_PI / 2 * math.exp(y * y)
    if x >= 1.5:
        return y + (math.erfc(-y) - (2.0 - x)) * -ROOT_PI / 2 * math.exp(y * y)
    return y + (math.erfc(y) - x) * ROOT_PI / 2 * math.exp(y * y)


@njit(**_OPTIONS)
def _normcdfinv(p: float, y: float) -> float:
    if math.isinf(y):
        return y if p == (1.0 if y > 0 else 0.0) else math.nan
    z = y / ROOT_2
    slope = math.sqrt(2 * math.pi) * math.exp(z * z)
    if 0.25 < p < 0.75:
        return y - (math.erf(z) / 2 - (p - 0.5)) * slope
    if p >= 0.75:
        return y + (math.erfc(z) / 2 - (1.0 - p)) * slope
    return y - (math.erfc(-z) / 2 - p) * slope


@njit(**_OPTIONS)
def _erfcx(x: float) -> float:
    if x > 25.0:
        t = 1 / (x * x)
        return (1 - t / 2 * (1 - 1.5 * t * (1 - 2.5 * t * (1 - 3.5 * t)))) / (x * ROOT_PI)
    return math.exp(x * x) * math.erfc(x)  # the square of an fp32 number is exact


@njit(**_OPTIONS)
def _sinpi(x: float) -> float:
    r = x - 2 * np.rint(x / 2)
    a = abs(r)
    if a > 0.5:
        a = 1 - a
    v = math.sin(math.pi * a) if a < 0.25 else math.cos(math.pi * (0.5 - a))
    return math.copysign(v, r)


@njit(**_OPTIONS)
def _cospi(x: float) -> float:
    a = abs(x - 2 * np.rint(x / 2))
    if a < 0.25:
        return math.cos(math.pi * a)
    if a < 0.75:
        return math.sin(math.pi * (0.5 - a))
    return -math.cos(math.pi * (1 - a))


@njit(**_OPTIONS)
def _exp10(x: float) -> float:
    """10^x: 10^n is exact up to n = 22; the rest of x is small."""
    n = np.rint(x)
    return 10.0**n * math.exp((x - n) * 2.302585092994046)


def _of(f: Any, before: float = 1.0) -> Any:
    """f(before * x), compiled; the second argument is not used."""

    @njit(**_OPTIONS)
    def apply(x: float, y: float) -> float:
        return f(before * x)

    return apply


def _inverse(f: Any) -> Any:
    @njit(**_OPTIONS)
    def apply(x: float, y: float) -> float:
        return 1 / f(x)

    return apply


@njit(**_OPTIONS)
def _normcdf(x: float, y: float) -> float:
    return math.erfc(-x / ROOT_2) / 2


_MATH = ("exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
         "atan", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma")  # fmt: skip

EXACT: dict[str, Any] = {
    **{name: _of(getattr(math, name)) for name in _MATH},
    "tgamma": _of(math.gamma), "exp2": _of(np.exp2), "exp10": _of(_exp10), "cbrt": _of(np.cbrt),
    "rcbrt": _inverse(np.cbrt), "rsqrt": _inverse(math.sqrt), "sinpi": _of(_sinpi), "cospi": _of(_cospi),
    "erfcx": _of(_erfcx), "normcdf": _normcdf, "erfinv": _erfinv, "erfcinv": _erfcinv, "normcdfinv": _normcdfinv,
}  # fmt: skip
"""name: f(x, y), the exact value at x in float64, where y is the value under test (inverse functions start from it)."""


@njit(**_OPTIONS)
def unit(v: float) -> float:
    """The fp32 ulp at v, of normal numbers at least."""
    return math.ldexp(1.0, max(math.frexp(v)[1] - 1, -126) - 23)


@cache
def comparison(name: str) -> Any:
    """(x, y) -> (largest error in ulp, its index, results of another kind, index of the first).

    Errors are distances from the exact value, in ulp of it. Where that is below the normal range, 0 is right too;
    subnormal arguments are left out (the library may read them as 0). Another kind: NaN, or an infinity or a finite
    number for the opposite, more than 16 ulp away from the end of the range.
    """
    exact = EXACT[name]

    @njit(**_OPTIONS)
    def compare(x: Array, y: Array) -> tuple[float, int, int, int]:
        worst, at, odd, first = 0.0, -1, 0, -1
        for i in range(x.size):
            v, got = np.float64(x[i]), np.float64(y[i])
            if v != 0.0 and abs(v) < 2.0**-126:
                continue
            e = exact(v, got)
            if got == 0.0 and abs(e) < 2.0**-126:
                continue
            if math.isnan(e) or not abs(e) < 3.4028e38 or not abs(got) < math.inf:
                same = math.isnan(e) == math.isnan(got) and (abs(e) > 3.4027e38) == (abs(got) > 3.4027e38)
                if not same:
                    odd += 1
                    first = i if first < 0 else first
                continue
            error = abs(got - e) / unit(e)
            if error > worst:
                worst, at = error, i
        return worst, at, odd, first

    return compare
