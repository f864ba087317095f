"""The same functions in ball arithmetic (Arb, by python-flint): rigorous, slow, in any precision.

python-flint is a test dependency.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray

_START, _MOST = 128, 4096
"""Working precision in bits: doubled until the result is known to `_GOAL` bits."""
_GOAL = 80


def _half(x: Any) -> Any:
    from flint import arb

    return arb(1) / 2 * x


def _two() -> Any:
    from flint import arb

    return arb(2)


def _root(x: Any, n: int) -> Any:
    return x.root(n) if x > 0 else -((-x).root(n))


def _norm(*args: Any) -> Any:
    return sum((x * x for x in args[1:]), args[0] * args[0]).sqrt()


BALLS: dict[str, Callable[..., Any]] = {
    **{
        name: (lambda x, name=name: getattr(x, name)())
        for name in ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
                     "atan", "asinh", "acosh", "atanh", "erf", "erfc", "rsqrt", "erfinv", "erfcinv")
    },
    "exp2": lambda x: _two() ** x,
    "exp10": lambda x: (5 * _two()) ** x,
    "log2": lambda x: x.log() / _two().log(),
    "log10": lambda x: x.log() / (5 * _two()).log(),
    "sinpi": lambda x: x.sin_pi(),
    "cospi": lambda x: x.cos_pi(),
    "erfcx": lambda x: (x * x).exp() * x.erfc(),
    "normcdf": lambda x: _half((-x / _two().sqrt()).erfc()),
    "normcdfinv": lambda x: -_two().sqrt() * (2 * x).erfcinv(),
    "cbrt": lambda x: _root(x, 3),
    "rcbrt": lambda x: 1 / _root(x, 3),
    "tgamma": lambda x: x.gamma(),
    "lgamma": lambda x: x.lgamma() if x > 0 else abs(x.gamma()).log(),
    "pow": lambda x, y: x**y if x > 0 else (-x) ** y * (-1) ** int(y.unique_fmpz()),
    "atan2": lambda y, x: type(y).atan2(y, x),
    "hypot": _norm, "norm3d": _norm, "norm4d": _norm,
    "rhypot": lambda *x: 1 / _norm(*x), "rnorm3d": lambda *x: 1 / _norm(*x), "rnorm4d": lambda *x: 1 / _norm(*x),
}  # fmt: skip

ARITY = {"pow": 2, "atan2": 2, "hypot": 2, "rhypot": 2, "norm3d": 3, "rnorm3d": 3, "norm4d": 4, "rnorm4d": 4}


def exactly(name: str, args: tuple[float, ...]) -> Any:
    """The exact value as a ball of at least `_GOAL` good bits; None where it is not a finite real number or is 0."""
    from flint import arb, ctx

    before, prec = ctx.prec, _START
    try:
        while prec <= _MOST:
            ctx.prec = prec
            value = BALLS[name](*(arb(a) for a in args))
            if value.is_finite() and (value.rel_accuracy_bits() >= _GOAL or value.is_exact()):
                return None if value.is_zero() else value
            prec *= 2
        return None
    finally:
        ctx.prec = before


def ulps(value: Any, got: float, bits: int) -> float:
    """|got - value| in units in the last place of `value`, in fp32 or fp64."""
    from flint import arb

    digits = 23 if bits == 32 else 52
    exponent = math.frexp(float(value.mid()))[1] - 1
    return float((abs(arb(got) - value) * arb(2) ** (digits - exponent)).mid())


def worst(name: str, args: tuple[Array, ...], got: Array, bits: int) -> tuple[float, tuple[float, ...]]:
    """Largest error in ulp and where, over points whose exact value is in the normal range."""
    small, large = (2.0**-126, 3.4028e38) if bits == 32 else (2.0**-1022, 1.79e308)
    found: tuple[float, tuple[float, ...]] = (0.0, ())
    for i in range(got.size):
        point = tuple(float(a[i]) for a in args)
        value = exactly(name, point)
        if value is None or not small < abs(float(value.mid())) < large:
            continue
        error = ulps(value, float(got[i]), bits)
        if not error <= found[0]:  # NaN counts
            found = error, point
    return found
