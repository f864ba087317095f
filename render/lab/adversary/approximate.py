"""Values of approximate functions: anything that the documentation allows around the exact value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.profiles.profile import FnError
from render.lab.adversary.numbers import Array, carrier, subnormal, to_format

BIASES = ("random", "low", "high", "lanes", "nearest", "inward", "outward")
"""Where in the documented range a value lies: anywhere, at its lower or upper end, at random ends per lane, at the
correctly rounded value, towards or away from zero."""

FLUSHES = ("keep", "flush", "mixed")


def _erf(x: Array) -> Array:
    from math import erf

    found: Array = np.vectorize(erf, otypes=[np.float64])(x)
    return found


@cache
def _mp() -> Any:
    import mpmath

    context = mpmath.mp.clone()
    context.prec = 100
    return context


@cache
def _bessel_at(kind: str, order: int, x: float) -> float:
    context = _mp()
    if x != x or (kind == "y" and x < 0):
        return np.nan
    if abs(x) == np.inf or (kind == "y" and x == 0):
        return {"j": 0.0, "y": 0.0 if x else -np.inf, "i": np.inf if order == 0 else x}[kind]
    if kind == "i" and abs(x) > 800:
        return np.inf if order == 0 else float(np.copysign(np.inf, x))
    return float(getattr(context, f"bessel{kind}")(order, context.mpf(x)))


def _bessel(kind: str, order: int) -> Callable[[Array], Array]:
    def function(x: Array) -> Array:
        flat = [_bessel_at(kind, order, float(v)) for v in np.ravel(x)]
        return np.array(flat, np.longdouble).reshape(np.shape(x))

    return function


def exact(name: str) -> Callable[[Array], Array] | None:
    """A function in the extended precision of the host (64 bits of significand on x86), or in float64; None: unknown.

    What numpy has is numpy's, Bessel functions are mpmath's.
    """
    if name == "rsqrt":
        return lambda x: 1 / np.sqrt(x)
    if name == "erf":
        return lambda x: _erf(np.asarray(x, np.float64))
    bessel = re.fullmatch(r"(?:cyl_bessel_)?([jyi])([01])", name)
    if bessel:
        return _bessel(bessel[1], int(bessel[2]))
    found: Callable[[Array], Array] | None = getattr(np, name, None)
    return found


_UNDERFLOW = 2.0**-100

LOG2E = np.float32(1.4426950408889634)


def evaluate(name: str, x: Array) -> Array:
    """The exact value to within 2^-50 relative, far below any documented error."""
    function = exact(name)
    assert function is not None, name
    return function(np.asarray(x, np.longdouble))


def around(exact: Array, error: FnError, fmt: Format, bias: str, flush: str, rng: np.random.Generator) -> Array:
    """A number of fp32 (fp64) within exact * (1 +- r) +- a; an exact value that rounds correctly where r says so."""
    wide = FP64 if fmt.bits == 64 else FP32
    near = exact.astype(carrier(wide))
    out = near
    if (error.r > wide.u or error.a >= _UNDERFLOW) and bias != "nearest":
        out = _inside(exact, near, error, wide, bias, rng)
    if error.ftz:
        out = np.where(
            _chosen(subnormal(exact, wide), flush, rng) | _unreachable(exact, out, error, wide), out * 0, out
        )
    return out


def _unreachable(exact: Array, out: Array, error: FnError, wide: Format) -> Array:
    """Subnormal results that no subnormal number comes close enough to: the instruction flushes."""
    found: Array = subnormal(exact, wide) & ~_legal(exact, out, error)
    return found


def _legal(exact: Array, out: Array, error: FnError) -> Array:
    absolute = error.a if error.a < _UNDERFLOW else error.a * (1 - 2.0**-40)
    reach = np.abs(exact) * error.r * (1 - 2.0**-20) + absolute
    found: Array = (np.abs(out - exact) <= reach) | (out == exact)
    return found


def _inside(exact: Array, near: Array, error: FnError, wide: Format, bias: str, rng: np.random.Generator) -> Array:
    direction = _direction(exact, bias, rng)
    target = exact + direction * (np.abs(exact) * error.r + error.a)
    out = np.where(np.isfinite(exact), target, exact).astype(carrier(wide))
    back = np.nextafter(out, near)
    out = np.where(_legal(exact, out, error), out, back)
    # An exact zero is a special value: log(1), or a finite number over infinity.
    out = np.where(_legal(exact, out, error) & np.isfinite(exact) & (exact != 0), out, near)
    # Absolute errors of a few subnormals stand for underflow: no target changes the sign there.
    flipped = np.signbit(out) != np.signbit(exact)
    return np.where(flipped, exact.astype(out.dtype) * 0, out) if error.a < _UNDERFLOW else out


def _direction(exact: Array, bias: str, rng: np.random.Generator) -> Array:
    if bias in ("low", "high"):
        return np.full(exact.shape, -1.0 if bias == "low" else 1.0)
    if bias == "lanes":
        return rng.choice([-1.0, 1.0], exact.shape)
    if bias in ("inward", "outward"):
        return np.where(exact < 0, -1.0, 1.0) * (1.0 if bias == "outward" else -1.0)
    return rng.uniform(-1, 1, exact.shape)


def _chosen(where: Array, flush: str, rng: np.random.Generator) -> Array:
    if flush == "keep":
        return np.zeros(where.shape, bool)
    return where if flush == "flush" else where & (rng.random(where.shape) < 0.5)


def flushed(x: Array, error: FnError, fmt: Format, flush: str, rng: np.random.Generator) -> Array:
    """The argument as a flushing instruction may read it."""
    if not error.ftz or flush == "keep":
        return x
    return np.where(_chosen(subnormal(x, FP64 if fmt.bits == 64 else FP32), flush, rng), x * 0, x)


def function(
    name: str, x: Array, fmt: Format, error: FnError, through: bool, bias: str, flush: str, fl_in: str,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """`name` at `x` as a target may compute it, in fp32 (fp64) and rounded to `fmt` where that is narrower.

    `through`: e^x as the target compiles it, 2 to the rounded product of x and log2 e.
    """
    x = flushed(x, error, fmt, fl_in, rng)
    if through and fmt.bits != 64:
        x = flushed(np.multiply(x, LOG2E, dtype=np.float32), error, fmt, fl_in, rng)
        name = "exp2"
    exact = evaluate(name, x)
    out = around(exact, error, fmt, bias, flush, rng)
    if error.until < np.inf:
        far = replace(error, r=(FP64 if fmt.bits == 64 else FP32).u, a=error.beyond)
        out = np.where(np.abs(x) >= error.until, around(exact, far, fmt, bias, flush, rng), out)
    near = exact.astype(out.dtype)
    # The tables of special values give f(0) and f(inf) where they are numbers of the format: exp(0) = 1.
    out = np.where(((x == 0) | np.isinf(x)) & (near == exact), near, out)
    return out if fmt.bits >= 32 else to_format(out, fmt)
