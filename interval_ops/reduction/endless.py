"""Sums with infinite terms, or with more than float64 holds: what every order gives.

A term that is +inf makes the sum +inf in every order and grouping, unless one of the others is -inf or NaN, or the
finite negative ones overflow among themselves to -inf (IEEE 754, 6.1: infinity plus a finite number is that infinity,
inf - inf is invalid). A term that may be +inf gives a half line from what the lower ends give. Mirrored for -inf.
"""

from __future__ import annotations

from math import inf, isnan

import numpy as np

from interval_ops.arithmetic.hull import FP64_MAX
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import EPS
from interval_ops.reduction.kernels import sum_growth

STATE = 9
# The terms so far: sum of the finite lower ends, of their magnitudes, of the negative ones; the same of the upper ends
# (of the positive ones); terms that are not exact zeros; 1 where one may be +inf, 2 where one is; the same of -inf.
# NaN in the first where one may be anything.


@compiled
def _take(x, y, state):  # type: ignore[no-untyped-def]
    """Adds the term [x, y] to the state."""
    if isnan(x) or isnan(y):
        state[0] = np.nan
        return
    if abs(x) <= FP64_MAX:
        state[0] += x
        state[1] += abs(x)
        state[2] += max(-x, 0.0)
    if abs(y) <= FP64_MAX:
        state[3] += y
        state[4] += abs(y)
        state[5] += max(y, 0.0)
    state[6] += 1.0 if (x != 0.0) | (y != 0.0) else 0.0
    if y == inf:
        state[7] = max(state[7], 2.0 if x == inf else 1.0)
    if x == -inf:
        state[8] = max(state[8], 2.0 if y == -inf else 1.0)


@compiled
def _least(total, size, against, certain, g, noise, limit):  # type: ignore[no-untyped-def]
    """Lower end of a sum without -inf, whose lower ends are finite but for `certain`; NaN where it may be anything.

    `against`: the magnitudes of the negative lower ends. With x -> x - g |x| growing (g < 0.5), no choice of terms is
    below that of the lower ends; where all have one sign no partial sum changes it, however large g is.
    """
    room = 1.0 + g + noise
    if not against * room < limit:
        return np.nan  # a partial sum may be -inf, and meet what is +inf
    if certain:
        return inf
    if against == 0.0:
        return max(total * (1.0 - min(g + noise, 1.0)), 0.0) if total <= FP64_MAX else 0.0
    return total - (g + noise) * size if g < 0.5 and size <= FP64_MAX else np.nan


@compiled
def _closed(state, depth, g, limit):  # type: ignore[no-untyped-def]
    """Ends of the sum of the terms in `state`, which errs by g times the magnitudes at most."""
    upward, downward = state[7] > 0.0, state[8] > 0.0
    if isnan(state[0]) or (upward and downward):
        return np.nan, np.nan
    noise = (depth + 8.0) * EPS * (1.0 + g)
    if not upward and not downward:  # finite terms whose magnitudes float64 does not hold
        upward, downward = state[2] == 0.0, state[5] == 0.0
    if upward:
        low = _least(state[0], state[1], state[2], state[7] == 2.0, g, noise, limit)
        return low, np.nan if isnan(low) else inf
    if downward:
        high = -_least(-state[3], state[4], state[5], state[8] == 2.0, g, noise, limit)
        return np.nan if isnan(high) else -inf, high
    return np.nan, np.nan


@compiled
def whole(lo, hi, pick, out_lo, out_hi, u, limit, levels):  # type: ignore[no-untyped-def]
    """Bounds of the sums along the middle axis of (outer, n, inner), where `pick` (outer, inner)."""
    outer, n, inner = lo.shape
    for o in range(outer):
        for k in range(inner):
            if pick[o, k]:
                state = np.zeros(STATE)
                for i in range(n):
                    _take(lo[o, i, k], hi[o, i, k], state)
                g = sum_growth(max(state[6] - 1.0, 0.0), levels, u)
                out_lo[o, k], out_hi[o, k] = _closed(state, n, g, limit)


@compiled
def prefixes(lo, hi, start, out_lo, out_hi, u, limit):  # type: ignore[no-untyped-def]
    """Those of every prefix since the last `start`, where its terms are not finite."""
    outer, n, inner = lo.shape
    for o in range(outer):
        for k in range(inner):
            state, depth = np.zeros(STATE), 0.0
            for i in range(n):
                if start.size > 0 and start[o, i, k]:
                    state[:] = 0.0
                    depth = 0.0
                depth += 1.0
                _take(lo[o, i, k], hi[o, i, k], state)
                if isnan(state[0]) or max(state[7], state[8]) > 0.0 or max(state[1], state[4]) > FP64_MAX:
                    g = sum_growth(max(state[6] - 1.0, 0.0), inf, u)
                    out_lo[o, i, k], out_hi[o, i, k] = _closed(state, depth, g, limit)
