"""Numba kernels that reduce the middle axis of (outer, n, inner) arrays; the order of additions is fixed by n alone.

Accumulators live in rows of one small local array, so the innermost loop runs over contiguous memory for every axis.
Where `inner` is small, several steps of the axis lie side by side as lanes, which are folded in a tree at the end.
"""

from __future__ import annotations

from math import expm1, isnan

import numpy as np

from interval_ops.arithmetic.hull import FP64_MAX, down, product_inexact, up
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import EPS
from interval_ops.reduction.grid import last_bit
from interval_ops.reduction.running import running_error, stagnation_compiled

WIDTH = 256
SHORT = 128
LANES = 8
ROWS = 7
NOWHERE = np.zeros((0, 0, 0), np.bool_)
"""No place where a prefix starts anew."""
# Rows of accumulators: sum of lo, of hi, of |lo|, of |hi|; addends that are not exact zeros; the largest power of two
# that divides every addend, 0 where one is no point; the largest magnitude.


@compiled
def _absorb(a, b, acc):  # type: ignore[no-untyped-def]
    """Adds one row. `acc` is flat with constant offsets, which lets LLVM prove that its rows do not overlap."""
    for k in range(a.size):
        x, y = a[k], b[k]
        acc[k] += x
        acc[WIDTH + k] += y
        acc[2 * WIDTH + k] += abs(x)
        acc[3 * WIDTH + k] += abs(y)
        acc[4 * WIDTH + k] += 1.0 if (x != 0.0) | (y != 0.0) else 0.0
        acc[5 * WIDTH + k] = min(acc[5 * WIDTH + k], last_bit(x) if x == y else 0.0)
        acc[6 * WIDTH + k] = max(acc[6 * WIDTH + k], max(abs(x), abs(y)))


@compiled
def accumulate(lo, hi, out):  # type: ignore[no-untyped-def]
    """lo, hi (outer, m, lanes * inner) -> out (outer, ROWS, inner); lanes is a power of two, 1 beyond WIDTH columns."""
    outer, m, columns = lo.shape
    inner = out.shape[2]
    acc = np.empty(ROWS * WIDTH)
    for o in range(outer):
        for start in range(0, columns, WIDTH):
            stop = min(columns, start + WIDTH)
            for k in range(ROWS * WIDTH):
                acc[k] = 0.0
            for k in range(5 * WIDTH, 6 * WIDTH):
                acc[k] = np.inf
            for i in range(m):
                _absorb(lo[o, i, start:stop], hi[o, i, start:stop], acc)
            for row in range(ROWS):
                width = stop - start
                while width > inner:
                    width //= 2
                    for k in range(row * WIDTH, row * WIDTH + width):
                        left, right = acc[k], acc[k + width]
                        acc[k] = left + right if row < 5 else min(left, right) if row == 5 else max(left, right)
                for k in range(width):
                    out[o, row, start + k] = acc[row * WIDTH + k]


@compiled
def accumulate_rows(lo, hi, out):  # type: ignore[no-untyped-def]
    """As `accumulate` of (rows, n) arrays into (rows, ROWS), for rows that are short: one term after the other."""
    for o in range(lo.shape[0]):
        a = b = c = d = count = peak = 0.0
        grid = np.inf
        for k in range(lo.shape[1]):
            x, y = lo[o, k], hi[o, k]
            a += x
            b += y
            c += abs(x)
            d += abs(y)
            count += 1.0 if (x != 0.0) | (y != 0.0) else 0.0
            grid = min(grid, last_bit(x) if x == y else 0.0)
            peak = max(peak, max(abs(x), abs(y)))
        out[o, 0], out[o, 1], out[o, 2], out[o, 3], out[o, 4], out[o, 5], out[o, 6] = a, b, c, d, count, grid, peak


@compiled
def growth(n: float, u: float) -> float:
    """(1 + u)**n - 1, from above; n >= 0."""
    t = n * u
    # e^t - 1 <= t + 0.51 t^2 for t <= 2^-6, since t^3/6 + ... <= 0.003 t^2 there.
    return (t + 0.51 * t * t if t <= 0.015625 else expm1(t)) * (1.0 + 2.0**-50)


@compiled
def sum_growth(n: float, levels: float, u: float) -> float:
    """What n additions may err by, relative to the sum of magnitudes, no addend in more than `levels` of them.

    The smallest of (1 + u)^min(n, levels) - 1 and, for every n, n v with v = (1 + 2^-9) u: Jeannerod and Rump 2013,
    Improved error bounds for inner products in floating-point arithmetic, by min(|a|, |b|) as the other bound of one
    addition's error, and `stagnation`, which counts with both. The 2^-9 is for additions in fp32 that are rounded once
    more, which err by |b| (1 + 2^-11).
    """
    plain = min(growth(min(n, levels), u), n * u * (1.0 + 2.0**-9))
    return plain if plain < 0.375 else min(plain, stagnation_compiled(n, u))


@compiled
def sum_bounds(sums, o, k, u, integers, limit, levels, depth, quick):  # type: ignore[no-untyped-def]
    """Ends of the sum in sums[o, :, k], see `reduction.sum_axis`: no term passes more than `levels` roundings. `depth`
    additions lie on the longest path of the accumulators."""
    s_lo, s_hi, m_lo, m_hi = sums[o, 0, k], sums[o, 1, k], sums[o, 2, k], sums[o, 3, k]
    count, grid, peak = sums[o, 4, k], sums[o, 5, k], sums[o, 6, k]
    magnitude = max(m_lo, m_hi)
    if isnan(magnitude) or magnitude > FP64_MAX:
        return np.nan, np.nan  # of infinite terms: `endless`
    if magnitude <= integers * grid and grid > 0.0 and magnitude < limit:
        return s_lo, s_hi
    g = sum_growth(max(count - 1.0, 0.0), levels, u)
    noise = (depth + 4.0) * EPS
    running, top = running_error((s_lo, s_hi), (m_lo, m_hi), count, peak, u, g, noise, levels, quick)
    # Our sum errs by gamma_depth, its magnitude as well, and the three operations below by a unit each.
    slack = (depth + 5.0) * (EPS / 2) * (1.0 + 2.0 * g) if count > 1.0 else 0.0
    if g >= 0.5:
        # x - g |x| need not grow with x any more: charge the larger magnitude of every addend.
        m_lo = m_hi = (
            0.5 * (m_lo + m_hi + (s_hi - s_lo)) * (1.0 + 2.0**-20)
        )  # max(|a|, |b|) <= (|a| + |b| + |b - a|) / 2
    low = s_lo - (min(g * m_lo, running) + slack * m_lo)
    high = s_hi + (min(g * m_hi, running) + slack * m_hi)
    if top < limit:
        return low, high
    # A partial sum may overflow. Without a second sign it stays infinite, otherwise inf - inf follows.
    if s_lo == m_lo:
        return max(low, 0.0), np.inf
    if s_hi == -m_hi:
        return -np.inf, min(high, 0.0)
    return np.nan, np.nan


@compiled
def close_sums(sums, lo, hi, u, integers, limit, levels, depth):  # type: ignore[no-untyped-def]
    """(outer, ROWS, inner) accumulators -> bounds (outer, inner); returns whether every sum is a point."""
    moved = False
    for o in range(sums.shape[0]):
        for k in range(sums.shape[2]):
            low, high = sum_bounds(sums, o, k, u, integers, limit, levels, depth, False)
            moved |= low != high
            lo[o, k], hi[o, k] = low, high
    return not moved


@compiled
def _surpass(a, b, sign, acc):  # type: ignore[no-untyped-def]
    for k in range(a.size):
        x, y = sign * a[k], sign * b[k]
        acc[k] = max(acc[k], x)
        acc[WIDTH + k] = max(acc[WIDTH + k], y)
        acc[2 * WIDTH + k] += np.nan if isnan(x) else 0.0


@compiled
def extremes(lo, hi, sign, out):  # type: ignore[no-untyped-def]
    """sign = 1: [max lo, max hi]; sign = -1: [min lo, min hi]; NaN anywhere gives NaN. Arrays as in `accumulate`."""
    outer, m, columns = lo.shape
    inner = out.shape[2]
    acc = np.empty(3 * WIDTH)
    for o in range(outer):
        for start in range(0, columns, WIDTH):
            stop = min(columns, start + WIDTH)
            for k in range(2 * WIDTH):
                acc[k] = -np.inf
            for k in range(2 * WIDTH, 3 * WIDTH):
                acc[k] = 0.0
            for i in range(m):
                _surpass(lo[o, i, start:stop], hi[o, i, start:stop], sign, acc)
            width = stop - start
            while width > inner:
                width //= 2
                for k in range(width):
                    acc[k] = max(acc[k], acc[k + width])
                    acc[WIDTH + k] = max(acc[WIDTH + k], acc[WIDTH + k + width])
                    acc[2 * WIDTH + k] += acc[2 * WIDTH + k + width]
            for k in range(width):
                out[o, 0, start + k] = sign * acc[k] + acc[2 * WIDTH + k]
                out[o, 1, start + k] = sign * acc[WIDTH + k] + acc[2 * WIDTH + k]


@compiled
def extreme_rows(lo, hi, sign, out):  # type: ignore[no-untyped-def]
    """As `extremes` of (rows, n) arrays into (rows, 2), for rows that are short: LANES elements side by side."""
    acc = np.empty(3 * LANES)
    whole = lo.shape[1] - lo.shape[1] % LANES
    for o in range(lo.shape[0]):
        for k in range(2 * LANES):
            acc[k] = -np.inf
        for k in range(2 * LANES, 3 * LANES):
            acc[k] = 0.0
        for start in range(0, whole, LANES):
            for k in range(LANES):
                x, y = sign * lo[o, start + k], sign * hi[o, start + k]
                acc[k] = max(acc[k], x)
                acc[LANES + k] = max(acc[LANES + k], y)
                acc[2 * LANES + k] += np.nan if isnan(x) else 0.0
        for k in range(lo.shape[1] - whole):
            x, y = sign * lo[o, whole + k], sign * hi[o, whole + k]
            acc[k] = max(acc[k], x)
            acc[LANES + k] = max(acc[LANES + k], y)
            acc[2 * LANES + k] += np.nan if isnan(x) else 0.0
        width = LANES
        while width > 1:
            width //= 2
            for k in range(width):
                acc[k] = max(acc[k], acc[k + width])
                acc[LANES + k] = max(acc[LANES + k], acc[LANES + k + width])
                acc[2 * LANES + k] += acc[2 * LANES + k + width]
        out[o, 0] = sign * acc[0] + acc[2 * LANES]
        out[o, 1] = sign * acc[LANES] + acc[2 * LANES]


@compiled
def prefix_sums(lo, hi, start, out_lo, out_hi, u, integers, limit):  # type: ignore[no-untyped-def]
    """Bounds of every prefix sum along the middle axis, each as `sum_bounds` of the addends since the last `start`.
    Returns whether terms of some are infinite or more than float64 holds."""
    outer, n, inner = lo.shape
    endless = False
    acc = np.empty((1, ROWS, inner))
    count = np.zeros(inner)
    for o in range(outer):
        for i in range(n):
            for k in range(inner):
                if i == 0 or (start.size > 0 and start[o, i, k]):
                    acc[0, :, k] = 0.0
                    acc[0, 5, k] = np.inf
                    count[k] = 0.0
                count[k] += 1.0
                a, b = lo[o, i, k], hi[o, i, k]
                acc[0, 0, k] += a
                acc[0, 1, k] += b
                acc[0, 2, k] += abs(a)
                acc[0, 3, k] += abs(b)
                acc[0, 4, k] += 1.0 if (a != 0.0) | (b != 0.0) else 0.0
                acc[0, 5, k] = min(acc[0, 5, k], last_bit(a) if a == b else 0.0)
                acc[0, 6, k] = max(acc[0, 6, k], max(abs(a), abs(b)))
                ends = sum_bounds(acc, 0, k, u, integers, limit, np.inf, count[k], True)
                out_lo[o, i, k], out_hi[o, i, k] = ends
                endless |= max(acc[0, 2, k], acc[0, 3, k]) > FP64_MAX
    return endless


@compiled
def _product_step(low, high, a, b):  # type: ignore[no-untyped-def]
    """Exact product of two intervals, outward."""
    p, q, r, s = low * a, low * b, high * a, high * b
    if isnan(p) or isnan(q) or isnan(r) or isnan(s):
        return np.nan, np.nan
    inexact = product_inexact(low, a, p) | product_inexact(low, b, q)
    inexact |= product_inexact(high, a, r) | product_inexact(high, b, s)
    return down(min(min(p, q), min(r, s)), inexact), up(max(max(p, q), max(r, s)), inexact)


@compiled
def _close_product(low, high, count, large, small, u, half, limit, normal):  # type: ignore[no-untyped-def]
    """Widens an exact product by count - 1 roundings in any order; half of a subnormal for each that may underflow."""
    if isnan(low) or count <= 1.0 or (low == 0.0 and high == 0.0):
        return low, high
    g = growth(count - 1.0, u)
    if not large * (1.0 + g) < limit:
        return np.nan, np.nan
    a = count * half * large * (1.0 + g) if small * (1.0 - min(g, 1.0)) < normal else 0.0
    return low - (abs(low) * g + a), high + (abs(high) * g + a)


@compiled
def prefix_products(lo, hi, start, out_lo, out_hi, u, half, limit, normal):  # type: ignore[no-untyped-def]
    """Bounds of every prefix product along the middle axis since the last `start`, in any order of multiplications, see
    `prod_axis`."""
    outer, n, inner = lo.shape
    for o in range(outer):
        for k in range(inner):
            low, high, count, large, small = 1.0, 1.0, 0.0, 1.0, 1.0
            for i in range(n):
                a, b = lo[o, i, k], hi[o, i, k]
                if i == 0 or (start.size > 0 and start[o, i, k]):
                    low, high, count, large, small = a, b, 0.0, 1.0, 1.0
                else:
                    low, high = _product_step(low, high, a, b)
                if a != b or abs(a) != 1.0:
                    count += 1.0
                large *= max(1.0, max(abs(a), abs(b)))
                small *= min(1.0, 0.0 if a <= 0.0 <= b else min(abs(a), abs(b)))
                out_lo[o, i, k], out_hi[o, i, k] = _close_product(
                    low, high, count, large, small, u, half, limit, normal
                )
