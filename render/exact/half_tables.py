"""Functions of half-precision numbers, exactly: all 2^16 values of a format, rounded to nearest, down and up.

Arb evaluates every value; where its ball does not decide between two numbers of the format it is repeated with more
bits, so no evaluation in float64 is trusted. A device's approximate instruction adds its own error to this.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from render.exact.functions import FORMULAS, MONOTONE, ArbMonotone
from render.exact.points import INF, ONE, TWO, ZERO, number, precision

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


_COMPOSED = {
    "sigmoid": ArbMonotone(lambda x: 1 / (1 + (-x).exp()), limits=(ZERO, ONE)),
    "gelu": ArbMonotone(lambda x: x * (-x / TWO.sqrt()).erfc() / 2, limits=(ZERO, INF)),
}
_ROWS = MONOTONE | _COMPOSED
FUNCTIONS = frozenset(_ROWS) | {"sin", "cos"}
"""What has a table."""


def _end(name: str, x: float) -> float | None:
    """The limit at an end of the domain; NaN outside of it, and at infinity where nothing is stated; None inside."""
    row = _ROWS.get(name)
    if row is None:
        return np.nan if np.isinf(x) else None
    for end, limit in zip(row.domain, row.limits, strict=True):
        if number(x) == end and limit is not None:
            return float(np.copysign(np.inf, x)) if name == "rsqrt" and x == 0 else float(limit)
    return None if np.isfinite(x) and row.domain[0] <= number(x) <= row.domain[1] else np.nan


def _never(name: str, x: float) -> float | None:
    """What the function comes arbitrarily near to far out, from below in magnitude, and never reaches."""
    if name == "gelu":
        return x
    limit = _ROWS[name].limits[x > 0] if name in _ROWS else None
    return float(limit) if limit is not None and limit.is_finite() and limit != 0 else None


@lru_cache(maxsize=32)
def half_table(name: str, fmt: str = "fp16") -> HalfTable:
    """The table of a function of `FUNCTIONS` in fp16 or bf16."""
    dtype = DTYPES[fmt]
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float64)
    grid = np.unique(x[np.isfinite(x)])
    out = np.full((3, x.size), np.nan)
    for i in np.flatnonzero(~np.isnan(x)):
        end = _end(name, float(x[i]))
        out[:, i] = _rounded(name, float(x[i]), grid, dtype) if end is None else end
    return HalfTable(x, *out)


def over(name: str, lo: Array, hi: Array, fmt: str = "fp16") -> tuple[Array, Array]:
    """The range of the exact function over [lo, hi], ends in the format, rounded outward; for rising functions."""
    table = half_table(name, fmt)
    low, high = (np.asarray(end).astype(DTYPES[fmt]).view(np.uint16) for end in (lo, hi))
    return table.down[low], table.up[high]


def _rounded(name: str, x: float, grid: Array, dtype: np.dtype[Any]) -> tuple[float, float, float]:
    """(nearest, down, up) of the function at x among the numbers of the format."""
    formula = _COMPOSED[name].formula if name in _COMPOSED else FORMULAS[name]
    for bits in _BITS:
        with precision(bits):
            y = formula(number(x))
        if not y.is_finite():
            continue
        at = int(np.searchsorted(grid, float(y.mid())))
        for k in (at - 1, at, at + 1):
            if 0 <= k < grid.size and y == number(float(grid[k])):
                return float(grid[k]), float(grid[k]), float(grid[k])
        low = next((k for k in (at, at - 1, at - 2) if k < 0 or (k < grid.size and y > number(float(grid[k])))), None)
        if low is None:
            continue
        if low + 1 < grid.size and not y < number(float(grid[low + 1])):
            continue
        nearest = _nearer(y, grid, low, dtype)
        if nearest is not None:
            down = float(grid[low]) if low >= 0 else -np.inf
            up = float(grid[low + 1]) if low + 1 < grid.size else np.inf
            return nearest, down, up
    limit = _never(name, x)
    if limit is not None and not (y > limit or y < limit):
        below = float(grid[int(np.searchsorted(grid, limit)) - int(np.sign(limit))])
        return limit, min(below, limit), max(below, limit)
    least = float(grid[grid > 0][0])
    if name == "gelu" and x < 0 and abs(y) < number(least / 4):  # below zero, by less than Arb tells from it
        return -0.0, -least, 0.0
    raise ArithmeticError(f"{_BITS[-1]} bits do not decide the function of {x}")


def _nearer(y: Any, grid: Array, low: int, dtype: np.dtype[Any]) -> float | None:
    """The nearer neighbour; beyond the largest number by half a step an infinity. None: not decided."""
    if low < 0 or low + 1 >= grid.size:
        edge = float(grid[0] if low < 0 else grid[-1])
        past = number(edge) + (number(edge) - number(float(grid[1] if low < 0 else grid[-2]))) / 2
        inside, outside = (y > past, y < past) if low < 0 else (y < past, y > past)
        return edge if inside else float(np.copysign(np.inf, edge)) if outside else None
    a, b = number(float(grid[low])), number(float(grid[low + 1]))
    middle = (a + b) / 2
    if y == middle:  # the even one
        return float(np.asarray(float(middle)).astype(dtype))
    return float(grid[low]) if y < middle else float(grid[low + 1]) if y > middle else None
