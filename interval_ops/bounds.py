"""Bounds of an array: a pair of ends, and what makes it a point.

Rules pass one array for both ends where every lane is known exactly. `is_point` asks for that, `each` keeps it; nothing
else compares the ends of a pair by identity, and ends that are equal do not make a point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Pair = tuple[Array, Array]
"""(lo, hi); a point passes the same array object twice."""


def exact(values: Array) -> Pair:
    """The point at these values."""
    return values, values


def is_point(a: Pair) -> bool:
    return a[0] is a[1]


def each(a: Pair, move: Callable[[Array], Array]) -> Pair:
    """`move`, monotone or of places, of both ends; a point is moved once and stays one."""
    lo = move(a[0])
    return (lo, lo) if a[0] is a[1] else (lo, move(a[1]))
