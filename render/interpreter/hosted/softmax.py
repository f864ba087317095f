r"""Softmax and what is like it: exact ranges in a tight form, and what torch may be off.

y_i = e^{x_i} / sum_j e^{x_j} rises in x_i and falls in every other: the least is e^{lo_i} / (e^{lo_i} + sum_{j != i}
e^{hi_j}), the largest mirrored. Computed as exp(x - max) / sum: relative errors u |x - max| <= u |log y| of each
argument, that of exp twice, n - 1 additions, a division or a product with the reciprocal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from interval_ops.arithmetic.broadcast import BLOCK
from interval_ops.bounds import Pair
from interval_ops.compiled import compiled, inlined
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import Profile
from render.interpreter.hosted.call import Call, Result
from render.interpreter.hosted.rows import UP, Rows, relative, unit

_LEAST = 2.0**-1070
"""More than exp in float64 is off where it underflows."""


def _rest(powers: np.ndarray) -> np.ndarray:
    """sum_{j != i} of the numbers of a row for every i, without a subtraction: prefixes from both ends."""
    found = np.empty(powers.shape)
    n = powers.shape[-1]
    _beside(np.ascontiguousarray(powers).reshape(-1, n), found.reshape(-1, n))
    return found


@compiled
def _beside(powers: np.ndarray, out: np.ndarray) -> None:
    for i in range(powers.shape[0]):
        before = 0.0
        for j in range(powers.shape[1]):
            out[i, j] = before
            before += powers[i, j]
        after = 0.0
        for j in range(powers.shape[1] - 1, -1, -1):
            out[i, j] += after
            after += powers[i, j]


@compiled
def _without(powers: np.ndarray, place: int) -> float:
    found = 0.0
    for k in range(powers.size):
        found += powers[k] if k != place else 0.0
    return found


@compiled
def _shares(first: np.ndarray, last: np.ndarray, slack: float, lost: float, low: np.ndarray, high: np.ndarray) -> None:
    """Least and largest e^{x_i} over the sum, of the exponentials of both ends.

    What the others add up to is the row's sum less the number itself where that is at most half of it: the difference
    is then at least half of a sum that is off by n roundings, within 2 n + 2 of itself. Of the one that is larger the
    others are added.
    """
    for i in range(first.shape[0]):
        f, z, down, up, least, most = first[i], last[i], low[i], high[i], 0.0, 0.0
        for j in range(f.size):
            least += f[j]
            most += z[j]
        for j in range(f.size):
            a, b = max(f[j] - _LEAST, 0.0), z[j] + _LEAST
            down[j] = a / (a + (most - z[j]) + lost) * (1 - slack)
            up[j] = min(b / (b + max(least - f[j] - lost, 0.0)) * (1 + slack) + 5e-324, 1.0)
        for j in range(f.size):
            if (2.0 * z[j] > most) | (2.0 * f[j] > least):
                a, b = max(f[j] - _LEAST, 0.0), z[j] + _LEAST
                down[j] = a / (a + _without(z, j) + lost) * (1 - slack)
                up[j] = min(b / (b + max(_without(f, j) - lost, 0.0)) * (1 + slack) + 5e-324, 1.0)


def _peak(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    top = np.maximum(lo, hi).max(-1, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


def exact_softmax(lo: np.ndarray, hi: np.ndarray) -> Pair:
    """Exact range along the last axis, with float64's relative slack of n + 16 roundings and its underflow."""
    n, top = lo.shape[-1], _peak(lo, hi)
    first, last = (np.exp(end - top).reshape(-1, n) for end in (lo, hi))
    low, high = np.empty(lo.shape), np.empty(lo.shape)
    _shares(first, last, (n + 16) * 2.0**-50, n * _LEAST, low.reshape(-1, n), high.reshape(-1, n))
    return low, high


def softmax(call: Call, logs: bool = False) -> Result:
    rows = Rows(call)
    if not rows.usable or call.get("half_to_float", False):
        return None
    error = _log_error if logs else _softmax_error
    kept = _stored(rows)
    shape = rows.pair[0].shape
    flat = [end.reshape(-1, shape[-1]) for end in rows.pair]
    out, step = np.empty((2, *flat[0].shape)), max(1, BLOCK // max(shape[-1], 1))
    with np.errstate(all="ignore"):
        for start in range(0, len(flat[0]), step):  # what stands between operands and results stays in the cache
            lo, hi = (end[start : start + step] for end in flat)
            fine = (np.isfinite(lo) & np.isfinite(hi)).all(-1, keepdims=True) | all_masked(lo, hi)
            ends = error(lo, hi, rows.n, rows.inner, rows.profile, kept)
            out[:, start : start + step] = [np.where(fine, end, np.nan) for end in ends]
    return rows.full((out[0].reshape(shape), out[1].reshape(shape)))


class _Stored(NamedTuple):
    """What a number loses that kernels keep in a narrow type between passes, relative and besides: exponentials, sums
    or logarithms."""

    u: float
    floor: float


def _stored(rows: Rows) -> _Stored:
    wide = rows.fmt == rows.inner or rows.profile.muted("cast")
    return _Stored(0.0, 0.0) if wide else _Stored(rows.fmt.u, rows.fmt.half_subnormal)


def all_masked(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """Rows in which every infinity is a certain -inf (a mask), and at least one number is finite."""
    mask = (lo == -np.inf) & (hi == -np.inf)
    fine = mask | (np.isfinite(lo) & np.isfinite(hi))
    found: np.ndarray = fine.all(-1, keepdims=True) & ~mask.all(-1, keepdims=True)
    return found


def _softmax_error(lo: np.ndarray, hi: np.ndarray, n: int, fmt: Format, profile: Profile, kept: _Stored) -> Pair:
    low, high = exact_softmax(lo, hi)
    u, add, e = unit(fmt, profile, "arith"), unit(fmt, profile, "accumulation"), relative("exp", fmt, profile)
    # an exponential that is kept is divided by a sum that is not below 1; all of them may miss in that sum
    tiny = kept.floor + (0.0 if profile.muted("function") else 4 * max(fmt.half_subnormal, 2.0**-1074))

    # |x - max| <= |log y| + log n for every element, and the weighted mean of it in the sum is at most log n + 1.
    rest = 2 * e + n * (add + kept.floor) + 3 * (u + kept.u)
    logs = [np.log(np.maximum(y, 5e-324)) for y in (low, high)]
    _off(low, logs[0], high, logs[1], (u, 2 * math.log(n) + 1, rest, tiny))
    return low, high


@inlined
def _grown(z: float) -> float:
    """expm1 of a number from 0 on: up to 2^-8 seven terms of its series are all of float64."""
    return z * (1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6 * (1 + z / 7))))))


@compiled
def _off(
    low: np.ndarray, low_log: np.ndarray, high: np.ndarray, high_log: np.ndarray,
    rates: tuple[float, float, float, float],
) -> None:  # fmt: skip
    """Ends less and plus what they may be off, in their place."""
    u, depth, rest, tiny = rates
    small = (u * (745.0 + depth) + rest) * UP <= 2.0**-8
    down, up = low.reshape(-1), high.reshape(-1)
    first, last = low_log.reshape(-1), high_log.reshape(-1)
    for i in range(down.size):
        z, y = (u * (depth - first[i]) + rest) * UP, (u * (depth - last[i]) + rest) * UP
        z, y = (_grown(z), _grown(y)) if small else (math.expm1(z), math.expm1(y))
        down[i] = max(down[i] * (1 - min(z, 1.0)) - tiny, 0.0)
        up[i] = up[i] * (1 + y) + tiny


def _log_error(lo: np.ndarray, hi: np.ndarray, n: int, fmt: Format, profile: Profile, kept: _Stored) -> Pair:
    """x - logsumexp, rising in its own element and falling in every other; computed as x - max - log(sum)."""
    u, add = unit(fmt, profile, "arith"), unit(fmt, profile, "accumulation")
    e, g = relative("exp", fmt, profile), relative("log", fmt, profile)

    peak, lost = _peak(lo, hi), n * _LEAST
    least, most = np.exp(lo - peak), np.exp(hi - peak)
    first = (lo - peak) - np.log(_rest(most) + least + lost)
    last = (hi - peak) - np.log(np.maximum(_rest(least) + most - lost, 0.0))
    slack = (n + 16) * 2.0**-50

    def reach(y: np.ndarray) -> np.ndarray:  # the logarithm of the sum and x - max may be kept in the type
        depth = np.abs(y) + math.log(n)
        found: np.ndarray = (u * (2 * depth + np.abs(y)) + g * math.log(n) + e + n * add + u * (math.log(n) + 1)) * UP
        stored = kept.u * (2 * depth + 1) + 3 * kept.floor
        result: np.ndarray = found + stored + slack * (1 + np.abs(y) + np.abs(hi - peak) + np.abs(lo - peak))
        return result

    masked = lo == -np.inf
    bottom, top = first - reach(first), last + reach(last)
    return np.where(masked, -np.inf, bottom), np.where(masked, -np.inf, np.minimum(top, 8 * u))


def logsumexp(call: Call) -> Result:
    """Rises in every element: both ends, then the errors of max + log(sum exp(x - max))."""
    rows = Rows(call)
    if not rows.usable:
        return None
    inner, profile, n = rows.inner, rows.profile, rows.n
    u, add = unit(inner, profile, "arith"), unit(inner, profile, "accumulation")
    e, g = relative("exp", inner, profile), relative("log", inner, profile)
    # Steps of torch's own in the type: exponentials and their arguments, which are log n + 1 in the mean at most, the
    # sum, its logarithm, and one more for the maximum that is added.
    kept = _stored(rows)
    steps = kept.u * (3 * math.log(n) + 5) + (n + 3) * kept.floor
    ends = []
    with np.errstate(all="ignore"):
        for x, way in zip(rows.pair, (-1, 1), strict=True):
            top = x.max(-1)
            value = top + np.log(np.exp(x - top[..., None]).sum(-1))
            room = (e + n * add + u * (math.log(n) + 1) + g * math.log(n) + u * (np.abs(value) + math.log(n))) * UP
            ends.append(value + way * (room + steps + (n + 16) * 2.0**-50 * (1 + np.abs(top) + np.abs(value))))
    return rows.reduced((ends[0], ends[1]))
