"""Exact values of the numbers under test, as fractions, and mpmath beside them, which shares no code with Arb."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
from mpmath import libmp

BITS = 400


def fraction(x: Any) -> Fraction:
    """A finite point; or a number of mpmath."""
    if isinstance(x, mpmath.mpf):
        return Fraction(*libmp.to_rational(x._mpf_))
    man, exp = x.man_exp()
    return Fraction(int(man)) * Fraction(2) ** int(exp)


def extended(x: Any) -> Fraction | float:
    """Infinities as floats, which compare with fractions."""
    near = float(x)
    return near if near in (float("inf"), float("-inf")) and x == near else fraction(x)


def holds(found: Any, value: Any, slack: Any = 0) -> bool:
    """Whether an interval (None: anything) holds a number of mpmath, a float or a fraction, give or take `slack`."""
    if found is None:
        return True
    exact = extended(value) if isinstance(value, mpmath.mpf) else value if isinstance(value, Fraction) else None
    exact = extended(mpmath.mpf(float(value))) if exact is None else exact
    return bool(extended(found[0]) <= exact + slack and exact - slack <= extended(found[1]))
