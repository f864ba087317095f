r"""Rows less their mean over their deviation: the exact range in mean-value form and torch's errors, in three passes.

z_i = (x_i - mean) / sigma, sigma^2 = var + eps, around the midpoint with radius r:
R_i = (r_i + mean r + Z_i mean(Z r)) / sigma_min with Z_i >= |z_i|; sigma is 1-Lipschitz in ||.||_2 / sqrt n. What the
quotients of the ends alone say holds as well. torch writes (x - mean) rstd or x rstd - mean rstd.
"""

from __future__ import annotations

import math

import numpy as np

from interval_ops.arithmetic.kernels import add_intervals, scale_intervals
from interval_ops.bounds import Array, Pair
from interval_ops.compiled import compiled, inlined
from interval_ops.formats.rounding import Gate

_UP = 1.0 + 2.0**-20
"""Second-order terms of sums of at most some thousand unit roundoffs, and float64's own rounding."""
_FINE = 2.0**-50


@inlined
def _ends(low: float, high: float, least: float, most: float) -> tuple[float, float]:
    """[low, high] over [least, most] > 0, with float64's slack."""
    first = low / most if low >= 0 else low / least
    last = high / least if high >= 0 else high / most
    return first - abs(first) * _FINE, last + abs(last) * _FINE


@compiled
def _row(
    lo: Array, hi: Array, moments: tuple[float, float, float, float, float, float],
    rates: tuple[float, float, float], low: Array, high: Array,
) -> tuple[float, float]:  # fmt: skip
    (mean_low, mean_high, scatter_low, scatter_high, off, scatter_error), (eps, u, root) = moments, rates
    n = lo.size
    var_low, var_high = scatter_low / n * (1 - _FINE), scatter_high / n * (1 + _FINE)
    least, most = math.sqrt(var_low + eps) * (1 - _FINE), math.sqrt(var_high + eps) * (1 + _FINE)
    total = radii = weighted = largest = 0.0
    for i in range(n):
        mid = 0.5 * lo[i] + 0.5 * hi[i]
        radius = max(hi[i] - mid, mid - lo[i])
        size = min(max(abs(lo[i] - mean_high), abs(hi[i] - mean_low)) / least, math.sqrt(n))
        total, radii, weighted, largest = total + mid, radii + radius, weighted + size * radius, max(largest, abs(mid))
    mean, squares = total / n, 0.0
    for i in range(n):
        centred = 0.5 * lo[i] + 0.5 * hi[i] - mean
        squares += centred * centred
    sigma, known = math.sqrt(squares / n + eps), total - total + radii - radii
    share = scatter_error / n / (var_low + eps) + 4 * u
    scale = (0.5 * share * (1 + share) if share < 0.25 else math.inf) + root + 6 * u
    sound = (known == 0.0) & (scale < math.inf)
    own, added = (n + 16) * 2.0**-51, (off + 3 * u * max(abs(mean_low), abs(mean_high))) / least
    for i in range(n):
        mid = 0.5 * lo[i] + 0.5 * hi[i]
        radius, first, last = max(hi[i] - mid, mid - lo[i]), lo[i] - mean_high, hi[i] - mean_low
        size = min(max(abs(first), abs(last)) / least, math.sqrt(n))
        z = (mid - mean) / sigma
        reach = (radius + radii / n + size * (weighted / n)) / least * (1 + (n + 16) * _FINE)
        reach += own * (largest / least * (1 + abs(z)) + abs(z))
        down, up = _ends(first, last, least, most)
        down, up = z - reach if z - reach > down else down, z + reach if z + reach < up else up
        away = added + 3 * u * max(abs(lo[i]), abs(hi[i])) / least
        error = (max(abs(down), abs(up)) * scale + away * (1 + scale)) * _UP + 2.0**-148 * (u > 0)
        low[i], high[i] = (down - error, up + error) if sound else (math.nan, math.nan)
    return ((1 - scale) / most, (1 + scale) / least) if sound else (math.nan, math.nan)


@compiled
def _around(lo: Array, hi: Array, moments: Array, rates: tuple[float, float, float], out: Array, scales: Array) -> None:
    for r in range(lo.shape[0]):
        given = (moments[0, r], moments[1, r], moments[2, r], moments[3, r], moments[4, r], moments[5, r])
        scales[0, r], scales[1, r] = _row(lo[r], hi[r], given, rates, out[0, r], out[1, r])


def around_rows(rows: Pair, moments: tuple[Pair, Pair, Pair], rates: tuple[float, float, float]) -> tuple[Pair, Pair]:
    """(z, 1 / sigma) of each row as computed and exactly.

    `moments`: exact ranges of the mean and of the sum of squares around it, and what the computed ones are off by;
    `rates`: eps, the unit roundoff, the error of the reciprocal root.
    """
    lo, hi = (np.ascontiguousarray(end, np.float64) for end in rows)
    given = np.stack([np.asarray(x, np.float64).reshape(-1) for pair in moments for x in pair])
    out, scales = np.empty((2, *lo.shape)), np.empty((2, lo.shape[0]))
    _around(lo.reshape(-1, lo.shape[-1]), hi.reshape(-1, lo.shape[-1]), given, rates, out, scales)
    return (out[0], out[1]), (scales[0], scales[1])


@compiled
def around_affine(
    lo: Array, hi: Array, moments: tuple[float, float, float, float, float, float],
    rates: tuple[float, float, float], weight: Array, bias: Array, gate: Gate, held: Array, out: Array,
) -> None:  # fmt: skip
    """One row of a norm with a weight and a bias for each element, or with none (of no elements), as `Rows.affine`
    has it; `held` (4, n) is written to."""
    _row(lo, hi, moments, rates, held[0], held[1])
    if weight.size:
        scale_intervals(held[0], held[1], weight, held[2], held[3], gate)
    else:
        held[2:4] = held[0:2]
    if bias.size:
        add_intervals(held[2], held[3], bias, bias, out[0], out[1], 1.0, gate)
    else:
        out[:] = held[2:4]


__all__ = ["around_affine", "around_rows"]
