"""Literals beyond any data are symbols: -1e30 less itself is 0, though no format but fp64 holds the number.

A literal that the format does not hold is the hull of what the user wrote and its rounding, and the difference of two
such hulls is as wide as they are: exp(m - m) of an online maximum that starts at -1e30 would be anything. In real
arithmetic and in every execution each occurrence of the literal is one and the same number. It passes through maxima,
selects, negation and movements with its ends as they are; and the ends of one beyond `BEYOND` are moved out by a few
units of float64 that depend on the number, so that a result of arithmetic does not have them. Two lanes with exactly
the ends of a literal are therefore that literal: their difference is 0, and they are equal.

What is computed from it (`-1e30 * log2(e)`) is no symbol: contraction makes s * k - fl(m * k) another number than 0.
"""

from __future__ import annotations

import numpy as np

from render.interpreter.context import Context
from render.interpreter.handle import Handle
from render.interpreter.memory.symbols import marked
from render.ops.dtypes import BEYOND


def ends(ctx: Context, exact: float, rounded: float) -> tuple[float, float]:
    """The bound of a literal that its format does not hold; one beyond any data is remembered by it."""
    low, high = min(exact, rounded), max(exact, rounded)
    if abs(exact) < BEYOND:
        return low, high
    low, high = marked(exact, rounded)
    ctx.sentinels |= {(low, high), (-high, -low)}
    return low, high


def alike(ctx: Context, x: Handle, y: Handle) -> np.ndarray | None:
    """Lanes in which both operands are one literal; None without any."""
    if not ctx.sentinels or x.is_point or y.is_point or x.pend is not None or y.pend is not None:
        return None
    (xl, xh), (yl, yh) = x.pair, y.pair
    same = (xl == yl) & (xh == yh) & (xl != xh)
    if not same.any():
        return None
    known = np.zeros(same.shape, bool)
    for low, high in ctx.sentinels:
        known |= (xl == low) & (xh == high)
    same = same & known
    return same if same.any() else None
