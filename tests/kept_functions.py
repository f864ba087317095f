"""Cases of `kept_bounds`: functions of one argument, their derivatives, Bessel functions of any order."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from kept_bounds import ROUGHLY, Cases, Pair, boxes, numbers, points

from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.functions import bessel, bessel_modified, bessel_orders, constants, derivatives, special
from interval_ops.functions.elementary import FUNCTIONS, unary
from interval_ops.profiles.profile import MissingRule, Profile, load_profile

PROFILES = {name: load_profile(name) for name in ("any", "sm_90", "torch-cpu")}
PROFILES["muted"] = load_profile("any").mute("function")
N = 32
TURNS = np.arange(-8, 17) * 0.785398163397448279
"""Near extrema and poles of waves, up to the rounding of float64."""
SIZES = np.array([1e-320, 1e-300, 1e-40, 1e-20, 1e-9, 1e-3, 0.03, 0.3, 0.7, 0.99, 1.0, 1.01, 1.4616, 1.9, 2.0, 2.4, 3.0,
                  3.83, 5.5, 7.5, 7.9, 8.1, 9.2, 12.0, 26.0, 27.3, 40.0, 88.7, 89.0, 104.0, 127.0, 170.6, 171.7, 700.0,
                  709.0, 710.0, 745.2, 1023.5, 1e4, 48000.0, 1e5, 1e7, 1e16, 1e22, 1e300])  # fmt: skip
"""Between and beyond where formulas change."""


def arguments(fmt: Format) -> list[Pair]:
    near = np.concatenate([SIZES, -SIZES[::2], 1 - SIZES[:10], TURNS])
    with np.errstate(all="ignore"):
        x = near if fmt is FP64 else near.astype(np.float32).astype(np.float64)
    around = x - np.abs(x) * fmt.u * 4, x + np.abs(x) * fmt.u * 4
    return [points(fmt, 41, N), boxes(fmt, 43, N), (x, x), around, (np.minimum(x, x / 2), np.maximum(x, x / 2))]


def _unary(name: str, fmt: Format, profile: Profile, quick: bool = False) -> object:
    try:
        return [unary(name, x, fmt, profile, quick=quick) for x in arguments(fmt)]
    except MissingRule:
        return None


def _orders(fmt: Format, profile: Profile) -> object:
    n = np.repeat(np.array([-3, -1, 0, 1, 2, 3, 7, 40]), 12)
    x = np.tile(np.array([0.0, 1e-30, 1e-3, 0.5, 1.0, 2.0, 5.0, 8.5, 20.0, 1e3, -2.0, np.nan]), 8)
    found: list[object] = [bessel_orders.values(second, n, x) for second in (False, True)]
    for order in (bessel_orders.first_kind, bessel_orders.second_kind):
        for box in ((x, x), (x, x + np.abs(x) * fmt.u * 2), (x * 0.5, np.abs(x) * 1.5)):
            try:
                found.append(order(n, box, fmt, profile))
            except MissingRule:
                found.append(None)
    return found


def _derivatives(name: str) -> object:
    x = numbers(FP32, 3, 64)
    around = x - np.abs(x) * 2.0**-20, x + np.abs(x) * 2.0**-20
    return [derivatives.over(name, box) for box in ((x, x), around, (-np.abs(x), np.abs(x)), (x * 0, np.abs(x)))]


def _values() -> object:
    x = np.concatenate([SIZES, -SIZES, 1 - SIZES[:12], TURNS])
    found: list[object] = [constants.quarter_turns(), [bessel.error(v) for v in np.abs(x) if 1e-300 < v < 1e6]]
    kernels = (special.scaled_erfc, special.erfc, special.erfinv, special.erfcinv, special.normcdf, special.normcdfinv,
               special.sinpi, special.cospi, special.gamma, special.lgamma, bessel.j0, bessel.j1, bessel.y0, bessel.y1,
               bessel_modified.i0, bessel_modified.i1)  # fmt: skip
    for kernel in kernels:
        out = np.empty_like(x)
        kernel(x, out)
        found.append(out)
    return found


LIBRARY = ("cyl_bessel_i0", "cyl_bessel_i1", "j0", "j1", "y0", "y1")
"""Functions that begin with the C library's in fp64 as well."""
SINGLE = 2.0**-36

CASES: Cases = {}
for _name, _on in itertools.product(FUNCTIONS, PROFILES):
    # In fp64 by our own double words, in fp32 by numpy's functions.
    CASES[f"{_name} fp64 {_on}"] = (partial(_unary, _name, FP64, PROFILES[_on]), ROUGHLY if _name in LIBRARY else 0.0)
    if _on != "torch-cpu":
        CASES[f"{_name} fp32 {_on}"] = (partial(_unary, _name, FP32, PROFILES[_on]), SINGLE)
for _name in FUNCTIONS:
    CASES[f"{_name} quick"] = (partial(_unary, _name, FP64, PROFILES["muted"], True), SINGLE)
for _name, _fmt in itertools.product(("exp", "sin", "log", "rsqrt"), (FP16, BF16)):
    CASES[f"{_name} {_fmt.name}"] = (partial(_unary, _name, _fmt, PROFILES["any"]), SINGLE)
for _fmt, _on in itertools.product((FP32, FP64), ("any", "sm_90", "muted")):
    CASES[f"orders {_fmt.name} {_on}"] = (partial(_orders, _fmt, PROFILES[_on]), ROUGHLY)
for _name in derivatives.DERIVATIVES:
    CASES[f"derivative of {_name}"] = (partial(_derivatives, _name), ROUGHLY)
CASES["values"] = (_values, 2.0**-46)
