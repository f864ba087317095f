"""`welford` for elements that all count once: mean and M2 of rows in several formats, from one pass over the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from interval_ops.bounds import Array, Pair
from interval_ops.compiled import compiled
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.welford import Rounding, around_root

_UP = 1.0 + 2.0**-40


@compiled
def _rows(lo: Array, hi: Array, out: Array) -> None:
    """Of each row: largest magnitude, least and largest element, sums of the ends, roots of the scatter of midpoints
    and of the squares of radii; NaN everywhere where an end is not finite."""
    n = lo.shape[1]
    for r in range(lo.shape[0]):
        least, most, low, high, total, squares = math.inf, -math.inf, 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            x, y = lo[r, i], hi[r, i]
            least, most = min(least, x), max(most, y)
            low, high, total = low + x, high + y, total + (0.5 * x + 0.5 * y)
        mean, radii = total / n, 0.0
        for i in range(n):
            middle = 0.5 * lo[r, i] + 0.5 * hi[r, i]
            radius = max(hi[r, i] - middle, middle - lo[r, i])
            squares += (middle - mean) * (middle - mean)
            radii += radius * radius
        found = (max(abs(least), abs(most)), least, most, low, high, math.sqrt(squares), math.sqrt(radii))
        sound = (low - low == 0.0) & (high - high == 0.0)
        for k in range(7):
            out[k, r] = found[k] if sound else math.nan


def moments(rows: Pair, formats: Sequence[tuple[Format, Profile]]) -> list[tuple[Pair, Pair]]:
    """(mean, M2) along the last axis of each row as computed in each format; NaN as `welford.reduce_axis` has it.

    The rule is that of `reduce_axis` with weights of 1 and M2 of 0, guarded.
    """
    lo, hi = (np.ascontiguousarray(end, np.float64) for end in rows)
    n, found = lo.shape[1], np.empty((7, lo.shape[0]))
    _rows(lo, hi, found)
    reach, least, most, low, high, root, radii = found
    spread, total = most - least, np.full(lo.shape[0], float(n))
    with np.errstate(all="ignore"):
        room = (radii * _UP + np.sqrt(total) * (n + 6) * 2.0**-52 * reach + root * (n + 8) * 2.0**-52) * _UP
        room += radii * (n + 4) * 2.0**-52
        roots = np.maximum(root - room, 0), root + room
        slack = (n + 4) * 2.0**-52 * reach
        return [
            _of(fmt, profile, (low / n, high / n), roots, (reach, spread, slack, total)) for fmt, profile in formats
        ]


def _of(
    fmt: Format, profile: Profile, means: Pair, roots: Pair, rows: tuple[Array, Array, Array, Array]
) -> tuple[Pair, Pair]:
    reach, spread, slack, total = rows
    n = int(total[0]) if total.size else 1
    rounding = Rounding(fmt, profile, False)
    depth = float(np.ceil(np.log2(n))) if profile.trees else None
    off = rounding.of_mean(min(n - 1, (n + 1) / 2), spread, reach, depth)
    bottom, top = around_root(roots, (0.0, 0.0, 0.0), n, total, spread, off, rounding, depth)
    good = np.isfinite(off + top) & (4 * ((spread + off) ** 2 + reach) * (total + 1) + top < fmt.max)
    good &= n <= 2.0**fmt.p
    ends = means[0] - (off + slack) * _UP, means[1] + (off + slack) * _UP, bottom, top
    low, high, bottom, top = (np.where(good, end, np.nan) for end in ends)
    return (low, high), (bottom, top)


__all__ = ["moments"]
