"""The functions of one argument: how each is evaluated in float64, by the shape of its rule in `functions`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from interval_ops.arithmetic.broadcast import Array
from interval_ops.formats.rounding import TINY
from interval_ops.functions import bessel, bessel_modified, kernels, special
from interval_ops.functions import pole_kernels as poles

Evaluate = Callable[[Array, Array], object]


@dataclass(frozen=True, slots=True)
class Monotone:
    """A function that is monotone on its domain: how to evaluate it, and what its float64 value may hide.

    `f0` is f(0); `tiny` the error of float64 where values may be subnormal or underflow (0 where only an exact 0 is 0);
    `floor` the least value that any target returns.
    """

    evaluate: Evaluate
    up: bool = True
    domain: tuple[float, float] = (-math.inf, math.inf)
    f0: float = 0.0
    tiny: float = TINY
    floor: float = -math.inf


def _inverse_root(x: Array, out: Array) -> None:
    np.divide(1.0, np.sqrt(x, out=out), out=out)


def _power_of_ten(x: Array, out: Array) -> None:
    np.power(10.0, x, out=out)


def _inverse_cube_root(x: Array, out: Array) -> None:
    np.divide(1.0, np.cbrt(x, out=out), out=out)


_NON_NEGATIVE = (0.0, math.inf)
_UNIT = (-1.0, 1.0)
_UNDERFLOW = 2.0**-1070  # error of a float64 result that is subnormal, some steps of it included

MONOTONE: dict[str, Monotone] = {
    "exp": Monotone(np.exp, f0=1.0, floor=0.0),
    "exp2": Monotone(np.exp2, f0=1.0, floor=0.0),
    "exp10": Monotone(_power_of_ten, f0=1.0, floor=0.0),
    "log": Monotone(np.log, domain=_NON_NEGATIVE, f0=-math.inf, tiny=0.0),
    "log2": Monotone(np.log2, domain=_NON_NEGATIVE, f0=-math.inf, tiny=0.0),
    "log10": Monotone(np.log10, domain=_NON_NEGATIVE, f0=-math.inf, tiny=0.0),
    "log1p": Monotone(np.log1p, domain=(-1.0, math.inf)),
    "expm1": Monotone(np.expm1),
    "sqrt": Monotone(np.sqrt, domain=_NON_NEGATIVE, floor=0.0),
    "sqrt_rn": Monotone(np.sqrt, domain=_NON_NEGATIVE, floor=0.0),
    "rsqrt": Monotone(_inverse_root, up=False, domain=_NON_NEGATIVE, f0=math.inf, floor=0.0),
    "rsqrt_rn": Monotone(_inverse_root, up=False, domain=_NON_NEGATIVE, f0=math.inf, floor=0.0),
    "libdevice_exp": Monotone(np.exp, f0=1.0, floor=0.0),
    "libdevice_rsqrt": Monotone(_inverse_root, up=False, domain=_NON_NEGATIVE, f0=math.inf, floor=0.0),
    "cbrt": Monotone(np.cbrt),
    "erf": Monotone(kernels.erf),
    "erfc": Monotone(special.erfc, up=False, f0=1.0, tiny=_UNDERFLOW, floor=0.0),
    "erfcx": Monotone(special.scaled_erfc, up=False, f0=1.0, floor=0.0),
    "erfinv": Monotone(special.erfinv, domain=_UNIT),
    "erfcinv": Monotone(special.erfcinv, up=False, domain=(0.0, 2.0), f0=math.inf),
    "normcdf": Monotone(special.normcdf, f0=0.5, tiny=_UNDERFLOW, floor=0.0),
    "normcdfinv": Monotone(special.normcdfinv, domain=(0.0, 1.0), f0=-math.inf),
    "tanh": Monotone(np.tanh),
    "sinh": Monotone(np.sinh),
    "asinh": Monotone(np.arcsinh),
    "atanh": Monotone(np.arctanh, domain=_UNIT),
    "acosh": Monotone(np.arccosh, domain=(1.0, math.inf), f0=math.nan, tiny=0.0),
    "asin": Monotone(np.arcsin, domain=_UNIT),
    "acos": Monotone(np.arccos, up=False, domain=_UNIT, f0=math.pi / 2, tiny=0.0),
    "atan": Monotone(np.arctan),
    "cosh": Monotone(np.cosh, domain=_NON_NEGATIVE, f0=1.0),
    "cyl_bessel_i0": Monotone(bessel_modified.i0, domain=_NON_NEGATIVE, f0=1.0),
    "cyl_bessel_i1": Monotone(bessel_modified.i1),
}
"""Monotone functions, one line each."""

EVEN = frozenset({"cosh", "cyl_bessel_i0"})
"""Functions of |x| that are monotone there."""

_RADIANS = 0.15915494309189535  # turns per radian, 1 / (2 pi)
WAVES: dict[str, tuple[Evaluate, float, float, float]] = {
    "sin": (np.sin, _RADIANS, 0.25, 0.0),
    "cos": (np.cos, _RADIANS, 0.0, 1.0),
    "sinpi": (special.sinpi, 0.5, 0.25, 0.0),
    "cospi": (special.cospi, 0.5, 0.0, 1.0),
}
"""Name -> evaluator, turns per unit of the argument, place of a maximum in turns, value at 0."""

POLES: dict[str, tuple[Evaluate, Callable[..., bool]]] = {
    "tan": (np.tan, poles.close_tan),
    "rcbrt": (_inverse_cube_root, poles.close_rcbrt),
    "tgamma": (special.gamma, poles.close_gamma),
    "lgamma": (special.lgamma, poles.close_lgamma),
}
"""Functions with poles: evaluator and kernel."""

BESSEL: dict[str, Evaluate] = {"j0": bessel.j0, "j1": bessel.j1, "y0": bessel.y0, "y1": bessel.y1}
"""Bessel functions of the first and second kind: their error changes with the size of the argument."""

UNARY: frozenset[str] = frozenset((*MONOTONE, *WAVES, *POLES, *BESSEL))
"""Every function that `unary` knows."""
