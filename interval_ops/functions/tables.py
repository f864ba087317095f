"""The functions of one argument: how each is evaluated in float64, by the shape of its rule in `functions`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from interval_ops.bounds import Array
from interval_ops.formats.rounding import TINY
from interval_ops.functions import bessel, bessel_modified, double_special, doubles, kernels, special
from interval_ops.functions import pole_kernels as poles
from interval_ops.functions.constants import quarter_turns

Evaluate = Callable[[Array, Array], object]


@dataclass(frozen=True, slots=True)
class Monotone:
    """A function that is monotone on its domain: how to evaluate it, and what its float64 value may hide.

    `double` evaluates the ends of fp64 within `doubles.ERROR`, `evaluate` is good to `kernels.LIBM`. `f0` is f(0);
    `tiny` the error of float64 where values may be subnormal or underflow (0 where only an exact 0 is 0);
    `floor` the least value that any target returns; `even`: a function of |x|, monotone there.
    """

    evaluate: Evaluate
    double: Evaluate | None = None
    up: bool = True
    domain: tuple[float, float] = (-math.inf, math.inf)
    f0: float = 0.0
    tiny: float = TINY
    floor: float = -math.inf
    rounded: bool = False
    even: bool = False


@dataclass(frozen=True, slots=True)
class Wave:
    """sin or cos: turns per unit of the argument, place of a maximum in turns, value at 0."""

    evaluate: Evaluate
    turn: float
    phase: float
    f0: float
    double: Evaluate | None = None


@dataclass(frozen=True, slots=True)
class Pole:
    """A function with poles, and the kernel that makes bounds of its values."""

    evaluate: Evaluate
    close: Callable[..., bool]
    double: Evaluate | None = None


@dataclass(frozen=True, slots=True)
class Bessel:
    """A Bessel function of the first or second kind: its error changes with the size of the argument.

    `turns`: places of the extrema in [0, 8] and their values; `at_far`: the value at 8. `even`, `odd`: what it is about
    0; neither where it has a pole there.
    """

    evaluate: Evaluate
    at_far: float
    turns: tuple[tuple[float, float], ...]
    even: bool = False
    odd: bool = False
    double: Evaluate | None = None


Function = Monotone | Wave | Pole | Bessel


def _inverse_root(x: Array, out: Array) -> None:
    np.divide(1.0, np.sqrt(x, out=out), out=out)


def _power_of_ten(x: Array, out: Array) -> None:
    np.power(10.0, x, out=out)


def _inverse_cube_root(x: Array, out: Array) -> None:
    np.divide(1.0, np.cbrt(x, out=out), out=out)


_error = partial(partial, double_special.error_function)
_exponential, _logarithm = partial(partial, doubles.exponential), partial(partial, doubles.logarithm)


def _wave(kind: int) -> Evaluate:
    return lambda x, out: doubles.wave(kind, quarter_turns(), x, out)


_NON_NEGATIVE = (0.0, math.inf)
_UNIT = (-1.0, 1.0)
_UNDERFLOW = 2.0**-1070  # error of a float64 result that is subnormal, some steps of it included
_RADIANS = 0.15915494309189535  # turns per radian, 1 / (2 pi)

FUNCTIONS: dict[str, Function] = {
    "exp": Monotone(np.exp, _exponential(0), f0=1.0, floor=0.0),
    "exp2": Monotone(np.exp2, _exponential(1), f0=1.0, floor=0.0),
    "exp10": Monotone(_power_of_ten, _exponential(2), f0=1.0, floor=0.0),
    "log": Monotone(np.log, _logarithm(0), domain=_NON_NEGATIVE, f0=-math.inf, tiny=0.0),
    "log2": Monotone(np.log2, _logarithm(1), domain=_NON_NEGATIVE, f0=-math.inf, tiny=0.0),
    "log10": Monotone(np.log10, _logarithm(2), domain=_NON_NEGATIVE, f0=-math.inf, tiny=0.0),
    "log1p": Monotone(np.log1p, _logarithm(3), domain=(-1.0, math.inf)),
    "expm1": Monotone(np.expm1, _exponential(3)),
    "sqrt": Monotone(np.sqrt, domain=_NON_NEGATIVE, floor=0.0, rounded=True),
    "rsqrt": Monotone(_inverse_root, partial(doubles.root, 0), up=False, domain=_NON_NEGATIVE, f0=math.inf, floor=0.0),
    "cbrt": Monotone(np.cbrt, partial(doubles.root, 1)),
    "erf": Monotone(kernels.erf, _error(0)),
    "erfc": Monotone(special.erfc, _error(1), up=False, f0=1.0, tiny=_UNDERFLOW, floor=0.0),
    "erfcx": Monotone(special.scaled_erfc, _error(2), up=False, f0=1.0, floor=0.0),
    "erfinv": Monotone(special.erfinv, _error(4), domain=_UNIT),
    "erfcinv": Monotone(special.erfcinv, _error(5), up=False, domain=(0.0, 2.0), f0=math.inf),
    "normcdf": Monotone(special.normcdf, _error(3), f0=0.5, tiny=_UNDERFLOW, floor=0.0),
    "normcdfinv": Monotone(special.normcdfinv, _error(6), domain=(0.0, 1.0), f0=-math.inf),
    "tanh": Monotone(np.tanh, _exponential(4)),
    "sinh": Monotone(np.sinh, _exponential(5)),
    "asinh": Monotone(np.arcsinh, _logarithm(4)),
    "atanh": Monotone(np.arctanh, _logarithm(6), domain=_UNIT),
    "acosh": Monotone(np.arccosh, _logarithm(5), domain=(1.0, math.inf), f0=math.nan, tiny=0.0),
    "asin": Monotone(np.arcsin, partial(doubles.angle, 1), domain=_UNIT),
    "acos": Monotone(np.arccos, partial(doubles.angle, 2), up=False, domain=_UNIT, f0=math.pi / 2, tiny=0.0),
    "atan": Monotone(np.arctan, partial(doubles.angle, 0)),
    "cosh": Monotone(np.cosh, _exponential(6), domain=_NON_NEGATIVE, f0=1.0, even=True),
    "cyl_bessel_i0": Monotone(bessel_modified.i0, domain=_NON_NEGATIVE, f0=1.0, even=True),
    "cyl_bessel_i1": Monotone(bessel_modified.i1),
    "sin": Wave(np.sin, _RADIANS, 0.25, 0.0, _wave(0)),
    "cos": Wave(np.cos, _RADIANS, 0.0, 1.0, _wave(1)),
    "sinpi": Wave(special.sinpi, 0.5, 0.25, 0.0, _wave(3)),
    "cospi": Wave(special.cospi, 0.5, 0.0, 1.0, _wave(4)),
    "tan": Pole(np.tan, poles.close_tan, _wave(2)),
    "rcbrt": Pole(_inverse_cube_root, poles.close_rcbrt, partial(doubles.root, 2)),
    "tgamma": Pole(special.gamma, poles.close_gamma, partial(double_special.gamma_function, 0)),
    "lgamma": Pole(special.lgamma, poles.close_lgamma, partial(double_special.gamma_function, 1)),
    "j0": Bessel(
        bessel.j0, 0.1716508071375539, even=True,
        turns=((0.0, 1.0), (3.8317059702075125, -0.402759395702553), (7.015586669815619, 0.30011575252613254)),
    ),
    "j1": Bessel(
        bessel.j1, 0.23463634685391463, odd=True,
        turns=((1.8411837813406593, 0.5818652242815964), (5.3314427735250325, -0.3461262018537915)),
    ),
    "y0": Bessel(
        bessel.y0, 0.22352148938756622,
        turns=((2.197141326031017, 0.5207864124022675), (5.429681040794135, -0.3403180455234406)),
    ),
    "y1": Bessel(
        bessel.y1, -0.1580604617312475,
        turns=((3.6830228565851777, 0.4167299281064514), (6.9414999536541755, -0.30317374013748943)),
    ),
}  # fmt: skip
"""Every function of one argument that `elementary.unary` knows, one line each."""
