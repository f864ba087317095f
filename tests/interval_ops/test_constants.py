"""Constants that bounds rest on: mathematical ones against mpmath, room for roundings as their proofs have it."""

from __future__ import annotations

import importlib
import math
from typing import Any

import mpmath
import numpy as np
import pytest

MATH = {
    "functions.bessel._GAMMA": lambda: mpmath.euler, "functions.bessel._ROOT_PI": lambda: mpmath.sqrt(mpmath.pi),
    "functions.bessel._TWO_OVER_PI": lambda: 2 / mpmath.pi, "functions.double_double.LN2": lambda: mpmath.log(2),
    "functions.derivatives._LN2": lambda: mpmath.log(2), "functions.kernels._SIXTH": lambda: mpmath.mpf(1) / 6,
    "functions.pole_kernels._HALF_TURN": lambda: 1 / mpmath.pi, "functions.tables._RADIANS": lambda: 0.5 / mpmath.pi,
    "functions.special._ROOT_PI": lambda: mpmath.sqrt(mpmath.pi),
    "functions.special._TWO_OVER_ROOT_PI": lambda: 2 / mpmath.sqrt(mpmath.pi),
    "functions.doubles._STEPS_PER_UNIT": lambda: 32 / mpmath.log(2),
}  # fmt: skip
"""By name: one float64, to nearest, or two that add up to 2^-104 of it."""

ROOM = {
    # float64: half of a spacing, the next number above it, a spacing, the smallest number, the largest
    "dot.kernels.GAMMA": 2.0**-53, "reduction.algebra._EPS": 2.0**-53, "formats.rounding.EPS": 2.0**-52,
    "arithmetic.hull._STEP": math.nextafter(2.0**-53, 1), "formats.rounding.TINY": 2.0**-1074,
    "arithmetic.hull.FP64_MAX": np.finfo(np.float64).max,
    # a product's residual has 2 * 53 bits above the smallest number, or is lost: 2^-1074 * 2^106
    "arithmetic.hull._RESIDUAL_LOST": 2.0**-968,
    # our own functions: an eighth of half a spacing more than correct rounding; numpy's and the C library's: 4 ulp,
    # twice
    "functions.doubles.ERROR": 1.125 * 2.0**-53, "functions.kernels.LIBM": 8 * 2.0**-52,
    "functions.tables._UNDERFLOW": 16 * 2.0**-1074, "functions.pole_kernels._UNDERFLOW": 16 * 2.0**-1074,
    "functions.pole_kernels._LGAMMA_ERROR": 2.0**-46, "arithmetic.rule.FLOAT64_SLACK": 2.0**-50,
    "functions.bessel_orders._ENDS": 2.0**-50, "functions.bessel_orders._TINY": 2.0**-100,
    "functions.doubles._SMALL": 2.0**-100,
    # factors outward
    "reduction.algebra._UP": 1 + 2.0**-48, "reduction.welford._UP": 1 + 2.0**-40,
    # libdevice's and Triton's own: fp32(log2 e)
    "functions.kernels.LOG2E": float(np.float32(1.4426950408889634)),
    # Landau, Bessel functions: monotonicity and bounds (2000): b = 0.674885..., rounded up
    "functions.bessel_orders._LANDAU": 0.6748851,
    # where the guide's errors end, J_128, and the formats' ranges
    "functions.bessel_kernels.FAR": 8.0, "functions.bessel._NEAR": 8.0, "functions.bessel_orders.ONLY_ORDER": 128,
    "functions.bessel_kernels.CURVATURE": 0.5, "dot.parameters.INT32_END": 2.0**31,
}  # fmt: skip


def constant(name: str) -> Any:
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"interval_ops.{module}"), own)


@pytest.mark.parametrize("name", MATH)
def test_mathematical_constants(name: str) -> None:
    with mpmath.workprec(300):
        found, exact = constant(name), MATH[name]()
        parts = found if isinstance(found, tuple) else (found,)
        off = abs(sum(mpmath.mpf(p) for p in parts) - exact) / exact
        assert parts[0] == float(exact) and off <= mpmath.mpf(2) ** (-104 if len(parts) == 2 else -53)


@pytest.mark.parametrize("name", ROOM)
def test_room(name: str) -> None:
    assert constant(name) == ROOM[name]
