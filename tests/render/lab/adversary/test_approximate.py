"""Approximate functions of the adversary stay inside what a profile documents, against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from support import rng, special_values, trials

from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import load_profile
from render.lab.adversary import approximate

ORACLE = {
    "exp2": lambda x: mpmath.power(2, x), "log": mpmath.log, "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sin": mpmath.sin, "cos": mpmath.cos, "erf": mpmath.erf, "tanh": mpmath.tanh, "j0": lambda x: mpmath.besselj(0, x),
    "y1": lambda x: mpmath.bessely(1, x), "cyl_bessel_i1": lambda x: mpmath.besseli(1, x),
}  # fmt: skip


def arguments(name: str, seed: int) -> np.ndarray:
    x = special_values(FP32)
    x = np.concatenate([x[np.isfinite(x)], rng(seed).standard_normal(trials(100)) * 20])
    x = np.abs(x[x != 0]) if name in ("log", "sqrt", "rsqrt", "y1") else x
    return x[np.abs(x) < {"exp2": 120, "cyl_bessel_i1": 88}.get(name, 1e30)].astype(np.float32)


def legal(got: float, exact: mpmath.mpf, error, argument: float) -> bool:
    slack = mpmath.mpf(2) ** -20
    r, a = (error.r, error.a) if abs(argument) < error.until else (2.0**-24, error.beyond)
    near = abs(mpmath.mpf(got) - exact) <= abs(exact) * r * (1 + slack * 2**-28) + a
    flushed = error.ftz and got == 0 and abs(exact) < 2.0**-126
    half = mpmath.mpf(2) ** max(-149, int(mpmath.floor(mpmath.log(abs(exact), 2))) - 23) / 2 if exact else 0
    return bool(near or flushed or abs(mpmath.mpf(got) - exact) <= half)


@pytest.mark.parametrize("profile", ["sm_90", "ieee", "gfx90a"])
@pytest.mark.parametrize("name", ORACLE)
def test_values_lie_within_the_documented_error(name, profile):
    if name not in load_profile(profile).functions:
        pytest.skip("nothing is documented")
    error = load_profile(profile).fn(name)
    x = arguments(name, 1)
    with mpmath.workprec(200), np.errstate(all="ignore"):
        exact = [ORACLE[name](mpmath.mpf(float(v))) for v in x]
        for seed, bias in enumerate(approximate.BIASES):
            for flush in approximate.FLUSHES:
                out = approximate.function(name, x, FP32, error, False, bias, flush, "keep", rng(seed))
                assert out.dtype == np.float32
                for got, want, argument in zip(out.tolist(), exact, x.tolist(), strict=True):
                    assert np.isinf(got) or legal(got, want, error, argument)


def test_biases_reach_the_ends():
    error = load_profile("sm_90").fn("exp2")
    x = np.linspace(-3, 3, 50, dtype=np.float32) + np.float32(0.01)
    exact = np.exp2(x.astype(np.float64))
    low, high = (
        approximate.function("exp2", x, FP32, error, False, b, "keep", "keep", rng(1)) for b in ("low", "high")
    )
    for out, sign in ((low, -1), (high, 1)):
        used = sign * (out - exact) / (exact * error.r)
        assert (used > 0.5).all() and used.max() > 0.9


def test_correctly_rounded_functions_have_one_value():
    error = load_profile("ieee").fn("exp")
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    for bias in approximate.BIASES:
        out = approximate.function("exp", x, FP32, error, False, bias, "keep", "keep", rng(1))
        with mpmath.workprec(100):
            assert out.tolist() == [float(np.float32(float(mpmath.exp(mpmath.mpf(float(v)))))) for v in x]


def test_special_values_stay_exact():
    error = load_profile("sm_90").fn("cos")
    out = approximate.function("cos", np.zeros(4, np.float32), FP32, error, False, "low", "keep", "keep", rng(1))
    assert out.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("through", [False, True])
def test_an_exponential_goes_through_a_rounded_product(through):
    """2^fl(x log2 e) at large x is many ulp from e^x, whatever the error of the instruction."""
    x = np.linspace(60, 80, 200, dtype=np.float32)
    out = approximate.function(
        "exp", x, FP32, load_profile("ieee").fn("exp"), through, "nearest", "keep", "keep", rng(3)
    )
    error = np.abs(out / np.exp(x.astype(np.float64)) - 1)
    assert (error.max() > 2.0**-21) == through
