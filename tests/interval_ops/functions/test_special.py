"""Special functions in float64 against mpmath at 200 bits: within the error that the interval kernels grant."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from support import rng, trials

from interval_ops.functions import special
from interval_ops.functions.kernels import LIBM

MP = mpmath.mp.clone()
MP.prec = 200
Arguments = Callable[[np.random.Generator, int], np.ndarray]


def erfcinv(x: object) -> object:
    """Root of ln erfc(y) = ln x by the secant method, from a start that need not be good."""
    start = MP.sqrt(max(-MP.log(x * (2 - x)), MP.mpf("1e-6"))) * (1 if x < 1 else -1)
    return MP.findroot(lambda y: MP.log(MP.erfc(y) / x), (start, start * 0.9), tol=1e-60)


def lgamma(x: object) -> object:
    return MP.log(abs(MP.gamma(x)))


def evaluate(function: Callable[..., None], x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    function(x, out)
    return out


def tails(g: np.random.Generator, low: int, n: int) -> np.ndarray:
    return 10.0 ** g.uniform(low, -1, n)


CASES: dict[str, tuple[Callable[..., None], Callable[..., object], Arguments]] = {
    "erfcx": (
        special.scaled_erfc,
        lambda x: MP.exp(x * x) * MP.erfc(x),
        lambda g, n: np.r_[g.uniform(-20, 30, n), 10 ** g.uniform(1, 8, n), 25.0, 24.999],
    ),
    "erfc": (special.erfc, MP.erfc, lambda g, n: g.uniform(-3, 26, n)),
    "erfinv": (
        special.erfinv,
        lambda x: erfcinv(1 - x),
        lambda g, n: np.r_[g.uniform(-1, 1, n), 1 - tails(g, -15, n), tails(g, -25, n), 0.9, 0.9001],
    ),
    "erfcinv": (special.erfcinv, erfcinv, lambda g, n: np.r_[g.uniform(0, 2, n), tails(g, -300, n), 0.1, 1.9]),
    "normcdf": (special.normcdf, MP.ncdf, lambda g, n: np.r_[g.uniform(-37, 9, n), g.uniform(-1.6, 1.6, n)]),
    "normcdfinv": (
        special.normcdfinv,
        lambda x: -MP.sqrt(2) * erfcinv(2 * x),
        lambda g, n: np.r_[g.uniform(0, 1, n), tails(g, -300, n)],
    ),
    "sinpi": (special.sinpi, MP.sinpi, lambda g, n: np.r_[g.uniform(-4, 4, n), g.uniform(-1e9, 1e9, n), 1 + 1e-12]),
    "cospi": (special.cospi, MP.cospi, lambda g, n: np.r_[g.uniform(-4, 4, n), g.uniform(-1e9, 1e9, n), 0.5 + 1e-12]),
    "gamma": (special.gamma, MP.gamma, lambda g, n: np.r_[g.uniform(-30, 35, 4 * n), g.uniform(35, 170, n)]),
    "lgamma": (
        special.lgamma,
        lgamma,
        lambda g, n: np.r_[g.uniform(2.9, 40, n), tails(g, -30, n), 10 ** g.uniform(1, 30, n)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_relative_error(name: str) -> None:
    function, oracle, arguments = CASES[name]
    x = arguments(rng(91), trials(60))
    for v, value in zip(x, evaluate(function, x), strict=True):
        exact = oracle(MP.mpf(float(v)))
        assert abs(MP.mpf(float(value)) - exact) <= abs(exact) * LIBM * 0.75, (v, value)


def test_log_gamma_has_an_absolute_error_near_its_zeros() -> None:
    x = np.r_[rng(92).uniform(0.5, 3, trials(300)), rng(93).uniform(-40, -23.1, trials(100))]
    for v, value in zip(x, evaluate(special.lgamma, x), strict=True):
        exact = lgamma(MP.mpf(float(v)))
        assert abs(MP.mpf(float(value)) - exact) <= abs(exact) * LIBM + 2.0**-47, (v, value)


def test_ends_of_the_domains() -> None:
    inf, nan = np.inf, np.nan
    cases = [
        (special.erfinv, [-1, 0, 1, 1.5, nan], [-inf, 0, inf, nan, nan]),
        (special.erfcinv, [0, 1, 2, -1, nan], [inf, 0, -inf, nan, nan]),
        (special.normcdfinv, [0, 0.5, 1, 2], [-inf, 0, inf, nan]),
        (special.normcdf, [-inf, 0, inf, nan], [0, 0.5, 1, nan]),
        (special.scaled_erfc, [-inf, 0, inf, nan], [inf, 1, 0, nan]),
        (special.sinpi, [0, 1, 0.5, 1.5], [0, 0, 1, -1]),
        (special.cospi, [0, 1, 0.5, 2], [1, -1, 0, 1]),
    ]
    for function, x, want in cases:
        assert np.array_equal(evaluate(function, np.array(x, float)), np.array(want, float), equal_nan=True), function


def test_scaled_erfc_of_the_largest_numbers_does_not_underflow() -> None:
    """erfcx(x) = 1 / (x sqrt(pi)) to float64 there, a subnormal number."""
    x = np.array([1e300, 1e307, 1.7e308])
    out = np.empty(3)
    special.scaled_erfc(x, out)
    for got, v in zip(out, x, strict=True):
        want = 1 / (MP.mpf(float(v)) * MP.sqrt(MP.pi))
        assert abs(got - want) <= 2.0**-1074 + want * 2.0**-51
