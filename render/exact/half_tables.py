"""Functions of half-precision numbers, exactly: all 2^16 values of a format, rounded to nearest, down and up.

Arb evaluates every value; where its ball does not decide between two numbers of the format it is repeated with more
bits, so no evaluation in float64 is trusted. A device's approximate instruction adds its own error to this.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from flint import arb, ctx

Array = np.ndarray
DTYPES = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
_BITS = (80, 320, 1280, 5120)


class HalfTable(NamedTuple):
    """By the bits of the argument, as float64: the argument, and its function to nearest (even), down and up. NaN
    outside of the domain; infinities where the format has no number."""

    x: Array
    nearest: Array
    down: Array
    up: Array


def _log2(x: Any) -> Any:
    mantissa, exponent = np.frexp(float(x))
    return arb(int(exponent) - 1) if mantissa == 0.5 else x.log() / arb(2).log()


def _exp2(x: Any) -> Any:
    whole = float(x)
    return arb(2) ** int(whole) if whole.is_integer() else (x * arb(2).log()).exp()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(), "exp2": _exp2, "log": lambda x: x.log(), "log2": _log2, "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: 1 / x.sqrt(), "sin": lambda x: x.sin(), "cos": lambda x: x.cos(), "tanh": lambda x: x.tanh(),
    "erf": lambda x: x.erf(), "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "gelu": lambda x: x * (-x / arb(2).sqrt()).erfc() / 2,
}  # fmt: skip
_LIMITS = {"exp": (0.0, np.inf), "exp2": (0.0, np.inf), "log": (np.nan, np.inf), "log2": (np.nan, np.inf),
           "sqrt": (np.nan, np.inf), "rsqrt": (np.nan, 0.0), "tanh": (-1.0, 1.0), "erf": (-1.0, 1.0),
           "sigmoid": (0.0, 1.0), "gelu": (0.0, np.inf)}  # fmt: skip
"""At -inf and at inf; NaN for functions that are not here."""
_NEVER: dict[str, Callable[[float], float]] = {
    "tanh": lambda x: np.copysign(1.0, x), "erf": lambda x: np.copysign(1.0, x), "sigmoid": lambda x: 1.0,
    "gelu": lambda x: x,
}  # fmt: skip
"""What the function comes arbitrarily near to, from below in magnitude, and never reaches."""
_AT_ZERO = {"log": -np.inf, "log2": -np.inf, "rsqrt": np.inf}


@lru_cache(maxsize=32)
def half_table(name: str, fmt: str = "fp16") -> HalfTable:
    """The table of a function of `FUNCTIONS` in fp16 or bf16."""
    dtype = DTYPES[fmt]
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float64)
    grid = np.unique(x[np.isfinite(x)])
    out = np.full((3, x.size), np.nan)
    before = ctx.prec
    try:
        for i in np.flatnonzero(np.isfinite(x)):
            if x[i] == 0 and name in _AT_ZERO:
                out[:, i] = _AT_ZERO[name] if name != "rsqrt" or not np.signbit(x[i]) else -np.inf
            elif not (x[i] < 0 and np.isnan(_LIMITS.get(name, (0.0, 0.0))[0])):
                out[:, i] = _rounded(name, float(x[i]), grid, dtype)
    finally:
        ctx.prec = before
    for end, value in zip((-np.inf, np.inf), _LIMITS.get(name, (np.nan, np.nan)), strict=True):
        out[:, x == end] = value
    return HalfTable(x, *out)


def over(name: str, lo: Array, hi: Array, fmt: str = "fp16") -> tuple[Array, Array]:
    """The range of the exact function over [lo, hi], ends in the format, rounded outward; for rising functions."""
    table = half_table(name, fmt)
    low, high = (np.asarray(end).astype(DTYPES[fmt]).view(np.uint16) for end in (lo, hi))
    return table.down[low], table.up[high]


def _rounded(name: str, x: float, grid: Array, dtype: np.dtype[Any]) -> tuple[float, float, float]:
    """(nearest, down, up) of the function at x among the numbers of the format."""
    for bits in _BITS:
        ctx.prec = bits
        y = FUNCTIONS[name](arb(x))
        if not y.is_finite():
            continue
        at = int(np.searchsorted(grid, float(y.mid())))
        for k in (at - 1, at, at + 1):
            if 0 <= k < grid.size and y == arb(float(grid[k])):
                return float(grid[k]), float(grid[k]), float(grid[k])
        low = next((k for k in (at, at - 1, at - 2) if k < 0 or (k < grid.size and y > arb(float(grid[k])))), None)
        if low is None:
            continue
        if low + 1 < grid.size and not y < arb(float(grid[low + 1])):
            continue
        nearest = _nearer(y, grid, low, dtype)
        if nearest is not None:
            down = float(grid[low]) if low >= 0 else -np.inf
            up = float(grid[low + 1]) if low + 1 < grid.size else np.inf
            return nearest, down, up
    if name in _NEVER and y.overlaps(arb(limit := float(_NEVER[name](x)))):
        below = float(grid[int(np.searchsorted(grid, limit)) - int(np.sign(limit))])
        return limit, min(below, limit), max(below, limit)
    least = float(grid[grid > 0][0])
    if name == "gelu" and x < 0 and abs(y) < arb(least / 4):  # below zero, by less than Arb tells from it
        return -0.0, -least, 0.0
    raise ArithmeticError(f"{_BITS[-1]} bits do not decide the function of {x}")


def _nearer(y: Any, grid: Array, low: int, dtype: np.dtype[Any]) -> float | None:
    """The nearer neighbour; beyond the largest number by half a step an infinity. None: not decided."""
    if low < 0 or low + 1 >= grid.size:
        edge = float(grid[0] if low < 0 else grid[-1])
        past = arb(edge) + (arb(edge) - arb(float(grid[1] if low < 0 else grid[-2]))) / 2
        inside, outside = (y > past, y < past) if low < 0 else (y < past, y > past)
        return edge if inside else float(np.copysign(np.inf, edge)) if outside else None
    a, b = arb(float(grid[low])), arb(float(grid[low + 1]))
    middle = (a + b) / 2
    if y == middle:  # the even one
        return float(np.asarray(float(middle)).astype(dtype))
    return float(grid[low]) if y < middle else float(grid[low + 1]) if y > middle else None
