"""The values that fp64 bounds begin with: within `doubles.ERROR` of Arb's, wherever float64 has an argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from support import rng, trials

from interval_ops.functions import constants, doubles
from interval_ops.functions.tables import FUNCTIONS

TINY = 2.0**-1074
ARB: dict[str, tuple[Callable[[Any], Any], Callable[[float], bool]]] = {
    "exp": (lambda x: x.exp(), lambda x: True),
    "exp2": (lambda x: (x * flint.arb.const_log2()).exp(), lambda x: True),
    "exp10": (lambda x: (x * flint.arb.const_log10()).exp(), lambda x: True),
    "expm1": (lambda x: x.expm1(), lambda x: True),
    "tanh": (lambda x: x.tanh(), lambda x: True),
    "sinh": (lambda x: x.sinh(), lambda x: True),
    "cosh": (lambda x: x.cosh(), lambda x: True),
    "log": (lambda x: x.log(), lambda x: x > 0),
    "log2": (lambda x: x.log() / flint.arb.const_log2(), lambda x: x > 0),
    "log10": (lambda x: x.log() / flint.arb.const_log10(), lambda x: x > 0),
    "log1p": (lambda x: x.log1p(), lambda x: x > -1),
    "asinh": (lambda x: x.asinh(), lambda x: True),
    "acosh": (lambda x: x.acosh(), lambda x: x >= 1),
    "atanh": (lambda x: x.atanh(), lambda x: abs(x) < 1),
    "atan": (lambda x: x.atan(), lambda x: True),
    "asin": (lambda x: x.asin(), lambda x: abs(x) <= 1),
    "acos": (lambda x: x.acos(), lambda x: abs(x) <= 1),
    "rsqrt": (lambda x: x.rsqrt(), lambda x: x > 0),
    "cbrt": (lambda x: x.root(3) if x > 0 else -(-x).root(3), lambda x: x != 0),
    "rcbrt": (lambda x: 1 / x.root(3) if x > 0 else -1 / (-x).root(3), lambda x: x != 0),
    "sin": (lambda x: x.sin(), lambda x: True),
    "cos": (lambda x: x.cos(), lambda x: True),
    "tan": (lambda x: x.tan(), lambda x: True),
    "sinpi": (lambda x: x.sin_pi(), lambda x: True),
    "cospi": (lambda x: x.cos_pi(), lambda x: True),
    "erf": (lambda x: x.erf(), lambda x: True),
    "erfc": (lambda x: x.erfc(), lambda x: True),
    "erfcx": (lambda x: (x * x).exp() * x.erfc(), lambda x: -26 < x < 1e6),
    "normcdf": (lambda x: (-x / flint.arb(2).sqrt()).erfc() / 2, lambda x: abs(x) < 60),
    "erfinv": (lambda x: x.erfinv(), lambda x: abs(x) < 1),
    "erfcinv": (lambda x: (1 - x).erfinv(), lambda x: 0 < x < 2),
    "normcdfinv": (lambda x: flint.arb(2).sqrt() * (2 * x - 1).erfinv(), lambda x: 0 < x < 1),
    "tgamma": (lambda x: x.gamma(), lambda x: x > 0 or x != math.floor(x)),
    "lgamma": (lambda x: abs(x.gamma()).log() if x < 0 else x.lgamma(), lambda x: x > 0 or (x > -2.26 and x != int(x))),
}


def arguments(name: str) -> np.ndarray:
    """Any size, the middle sizes, neighbours of 1 and 2, steps of the tables and thresholds between methods."""
    g, n = rng(len(name)), trials(400)
    wide = [np.exp2(g.uniform(low, high, n)) for low, high in ((-1073, 1023), (-60, 10), (-10, 4))]
    near = [c + g.choice([-1.0, 1.0], n) * np.exp2(g.uniform(-52, -1, n)) for c in (1, 2)]
    steps = np.arange(1, 128) / 64
    edges = [0.25, 0.75, 1.25, 1.75, 2.5, 7.0, 24.0, 40.0, 170.0, 171.6, 2.0**-7, 2.0**-30, 2.0**500, 2.0**-100, TINY]
    bound = np.r_[steps, edges, math.pi, math.pi / 2, 1e308]
    x = np.r_[(*wide, *near, bound, np.nextafter(bound, 0), np.nextafter(bound, np.inf))]
    return np.r_[x, -x]


def exact(function: Callable[[Any], Any], x: float) -> Any:
    """Arb's value with 100 bits; None where it takes more than 6000 to have them, or has no finite value."""
    before = flint.ctx.prec
    try:
        for bits in (200, 1400, 6000):
            flint.ctx.prec = bits
            value = function(flint.arb(x))
            if value.is_finite() and value.rel_accuracy_bits() > 100:
                return value
    finally:
        flint.ctx.prec = before
    return None


@pytest.mark.parametrize("name", ARB)
def test_values_are_as_good_as_one_rounding(name: str) -> None:
    function, domain = ARB[name]
    x = np.array([v for v in arguments(name).tolist() if domain(v)])
    found = np.empty_like(x)
    evaluate = FUNCTIONS[name].double
    assert evaluate is not None
    evaluate(x, found)
    checked = 0
    for v, y in zip(x.tolist(), found.tolist(), strict=True):
        want = exact(function, v)
        if want is None:
            continue
        checked += 1
        if math.isinf(y):
            assert bool(abs(want) > 2.0**1023 * (2 - 2.0**-52)), (v, y)
        else:
            assert bool(abs(want - flint.arb(y)) <= doubles.ERROR * abs(y) + TINY), (v, y, want)
    assert checked > 0.7 * x.size


def test_every_function_of_fp64_has_values_of_its_own() -> None:
    """The square root is rounded correctly as it is; Bessel functions state an error of their own."""
    without = {name for name, f in FUNCTIONS.items() if f.double is None}
    assert without == {"sqrt", "j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1"}
    assert set(FUNCTIONS) - without == set(ARB)


@pytest.mark.parametrize("special", [0.0, -0.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("name", ARB)
def test_special_values_are_those_of_the_machine(name: str, special: float) -> None:
    x, found, usual = np.array([special]), np.empty(1), np.empty(1)
    with np.errstate(all="ignore"):
        FUNCTIONS[name].double(x, found)  # type: ignore[misc]
        FUNCTIONS[name].evaluate(x, usual)
    np.testing.assert_array_equal(found, usual)


def test_powers_angles_and_norms() -> None:
    g, n = rng(5), trials(3000)
    x = np.exp2(np.where(g.random(n) < 0.3, g.uniform(-1070, 1020, n), g.uniform(-3, 3, n)))
    y = g.choice([-1.0, 1.0], n) * np.exp2(np.where(g.random(n) < 0.3, g.uniform(-1070, 1020, n), g.uniform(-6, 9, n)))
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        for found, function in (
            (doubles.angle_of_point(b, a), lambda p, q: (q / p).atan()),
            (doubles.angle_of_point(b, -a), lambda p, q: flint.arb.atan2(q, -p)),
            (doubles.norm(a, abs(b)), lambda p, q: (p * p + q * q).sqrt()),
            (doubles.power(a, b), lambda p, q: (p.log() * q).exp()),
        ):
            want = exact(lambda p, function=function, b=b: function(p, flint.arb(b)), a)
            if want is not None and 2.0**-1020 < abs(found) < math.inf:
                assert bool(abs(want - flint.arb(found)) <= doubles.ERROR * abs(found)), (a, b, found)


def test_tables() -> None:
    """Each number of two parts against Arb, and the words of 2 / pi."""
    before = flint.ctx.prec
    flint.ctx.prec = 1600
    try:
        pi, ln2 = flint.arb.pi(), flint.arb.const_log2()
        for j in range(constants.STEP):
            step = flint.arb(j) / constants.STEP
            for name, want in (("POWERS", (ln2 * step).exp()), ("ANGLES", step.atan()), ("SINES", (pi * step).sin())):
                high, low = constants.TABLES[name][j]
                assert bool(abs(flint.arb(high) + flint.arb(low) - want) <= 2.0**-104 * abs(want) + 1e-300), (name, j)
    finally:
        flint.ctx.prec = before
    exact = mpmath.mp.clone()
    exact.prec = 1600
    for e in (-53, -1, 0, 400, 971):
        words = [exact.mpf(float(w)) for w in constants.quarter_turns()[e - constants.LOWEST]]
        assert abs(exact.fmod(exact.ldexp(2 / exact.pi, e), 4) - sum(words)) < 2.0**-150 * min(words[0], 1)


def test_powers_of_numbers_near_one_and_out_of_range() -> None:
    """A base near 1 has a small logarithm, whatever the exponent: no power of it leaves the range for that."""
    for x in (1 + 2.0**-20, 1 - 2.0**-30, 1 + 2.0**-52, 1.25, 0.75):
        for y in (1.0, -3.0, 1000.5, 2.0**20, -(2.0**10)):
            if abs(y * math.log(x)) > 600:
                continue
            with mpmath.workprec(200):
                exact = float(mpmath.power(x, y))
            assert abs(doubles.power(x, y) - exact) <= 2 * doubles.ERROR * exact, (x, y)
    assert doubles.power(10.0, 400.0) == doubles.power(0.1, -400.0) == math.inf
    assert doubles.power(10.0, -400.0) == doubles.power(0.1, 400.0) == 0.0
