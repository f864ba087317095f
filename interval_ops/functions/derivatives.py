"""Derivatives of functions of one argument over intervals: what an error of the argument can become.

f' is evaluated at the ends and where it turns, in float64, and moved outward by 2^-40 of itself and 2^-1073: numpy's
functions are documented within 4 units in the last place, and exp(-x^2) loses 745 more to the rounding of x^2 at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from interval_ops.bounds import Array, Pair

_ROOM, _TINY = 2.0**-40, 2.0**-1073
_LN2 = math.log(2.0)


@dataclass(frozen=True, slots=True)
class Derivative:
    """`at`: f', which rises or falls throughout but for an extremum at 0 (`turns`); `above`: the end of its domain.

    `signs`: `at` is only the size of what f' may be, with either sign.
    """

    at: Callable[[Array], Array]
    turns: bool = False
    above: float = -math.inf
    signs: bool = False


def _bell(x: Array) -> Array:
    found: Array = 2 / math.sqrt(math.pi) * np.exp(-x * x)
    return found


def _squared_secant(x: Array) -> Array:
    small = np.exp(-2 * np.abs(x))
    found: Array = 4 * small / (1 + small) ** 2
    return found


DERIVATIVES: dict[str, Derivative] = {
    "exp": Derivative(np.exp),
    "exp2": Derivative(lambda x: _LN2 * np.exp2(x)),
    "expm1": Derivative(np.exp),
    "log": Derivative(lambda x: 1 / x, above=0.0),
    "log2": Derivative(lambda x: 1 / (x * _LN2), above=0.0),
    "log1p": Derivative(lambda x: 1 / (1 + x), above=-1.0),
    "sqrt": Derivative(lambda x: 0.5 / np.sqrt(x), above=0.0),
    "rsqrt": Derivative(lambda x: -0.5 / (x * np.sqrt(x)), above=0.0),
    "tanh": Derivative(_squared_secant, turns=True),
    "erf": Derivative(_bell, turns=True),
    "erfc": Derivative(lambda x: -_bell(x), turns=True),
    "atan": Derivative(lambda x: 1 / (1 + x * x), turns=True),
    "sin": Derivative(np.ones_like, signs=True),
    "cos": Derivative(np.ones_like, signs=True),
}
"""Of the functions of `tables` by whose arguments errors are followed."""


def over(name: str, x: Pair) -> Pair:
    """The range of f' over an interval; the whole line where it touches the end of the domain, or is NaN."""
    rule, (lo, hi) = DERIVATIVES[name], x
    with np.errstate(all="ignore"):
        values = [rule.at(lo), rule.at(hi)]
        if rule.turns:
            values.append(np.where((lo <= 0) & (hi >= 0), rule.at(np.zeros_like(lo)), values[0]))
        if rule.signs:
            values.append(-values[0])
        low, high = np.minimum.reduce(values), np.maximum.reduce(values)
        low, high = low - (np.abs(low) * _ROOM + _TINY), high + (np.abs(high) * _ROOM + _TINY)
    unknown = ~(lo > rule.above) | np.isnan(low)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
