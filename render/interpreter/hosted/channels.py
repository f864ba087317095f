r"""Batch norm by statistics that are given, in float32: a factor and a shift for each channel, in one pass.

    y = (x - m) w / s + b,   s in [s_-, s_+] as computed and exactly,   F = |w| / s_-

monotone in x, and off by |x - m| F (s_+ - s_-) / (2 s_0) from y with s_0 in the middle. torch writes the difference
over the root, or x f + (b - m f) with f = w (1 / s). Each term is then off by at most 12 roundings of (|x| + |m|) F (of
the factor five, of its products with x and m one each, of the sums what they hold, |b| <= |y| + |x - m| F), and y by 2
of itself (Higham, ASNA, sec. 3.1, second-order terms in the slack). What underflows loses half a subnormal for each of
at most eight steps, times the factor that follows.
"""

from __future__ import annotations

import math

import numpy as np

from interval_ops.bounds import Array, Pair
from interval_ops.compiled import compiled
from interval_ops.formats.model import FP32

_TERMS, _RESULT, _STEPS = 12.0 * FP32.u, 2.0 * FP32.u, 8.0 * FP32.half_subnormal
_MOST = 2.0**126
"""From here on an intermediate result may overflow."""
_UP = 1.0 + 2.0**-18
"""Second-order terms, and float64's own rounding."""


@compiled
def around_boxes(box: Pair, sides: tuple[Array, Array, Array, Array, Array], out: Array) -> None:
    (lo, hi), (mean, least, most, weight, bias) = box, sides
    for c in range(lo.shape[0]):
        m, w, b = mean[c], weight[c], bias[c]
        middle = 0.5 * (least[c] + most[c])
        factor, largest = w / middle, abs(w) / least[c]
        spread = (most[c] - least[c]) / middle
        small = 1.0 + abs(w) + largest
        for i in range(lo.shape[1]):
            x, y = lo[c, i], hi[c, i]
            first, last = (x - m) * factor + b, (y - m) * factor + b
            low, high = min(first, last), max(first, last)
            size = max(abs(x), abs(y)) + abs(m)
            error = (size * largest * (_TERMS + spread) + _RESULT * max(abs(low), abs(high))) * _UP
            error += _STEPS * (small + size) + abs(b) * 2.0**-50
            if not size * max(largest, 1.0) + abs(b) + error + abs(first - last) < _MOST:  # NaN, too
                low = high = math.nan
            out[0, c, i], out[1, c, i] = low - error, high + error


Sides = tuple[Array, Array, Array, Array, Array]
"""Of each channel: mean, ends of the root of the variance, weight, bias."""


def sides_of(count: int, mean: Array, root: Pair, weight: Array | None, bias: Array | None) -> Sides:
    """The same as one array of each."""
    given = (mean, *root, 1.0 if weight is None else weight, 0.0 if bias is None else bias)
    found = (np.ascontiguousarray(np.broadcast_to(np.asarray(x, np.float64).reshape(-1), count)) for x in given)
    return tuple(found)  # type: ignore[return-value]


def around(rows: Pair, mean: Array, root: Pair, weight: Array | None, bias: Array | None) -> Pair:
    """Bounds of rows, one for each channel; `root` of the variances, the others are points."""
    out = np.empty((2, *rows[0].shape))
    around_boxes(rows, sides_of(rows[0].shape[0], mean, root, weight, bias), out)
    return out[0], out[1]


__all__ = ["Sides", "around", "around_boxes", "sides_of"]
