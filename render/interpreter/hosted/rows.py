r"""Reductions, scans, softmax and norms of host operations: exact ranges in a tight form, and what torch may be off.

softmax    y_i = e^{x_i} / sum_j e^{x_j} rises in x_i and falls in every other: the least is
           e^{lo_i} / (e^{lo_i} + sum_{j != i} e^{hi_j}), the largest mirrored. Computed as exp(x - max) / sum: relative
           errors u |x - max| <= u |log y| of each argument, that of exp twice, n - 1 additions, a division or a product
           with the reciprocal.
norms      z_i = (x_i - mean) / sigma, sigma^2 = var + eps: the mean-value form around the midpoint, radius r,
           R_i = (r_i + mean r + Z_i mean(Z r)) / sigma_min with Z_i >= |z_i|; sigma is 1-Lipschitz in ||.||_2 / sqrt n.
           Mean and variance by Welford's update or Chan's merge in any order (`interval_ops.reduction.welford`), then
           (x - mean) rstd or x rstd - mean rstd, whichever torch's kernel writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.bounds import Pair, each
from interval_ops.formats import casting
from interval_ops.formats.model import FP64, Format
from interval_ops.library import joint
from interval_ops.profiles.profile import Profile
from interval_ops.reduction import scan, welford
from interval_ops.reduction.rule import prod_axis, sum_axis
from render.interpreter.hosted.algebra import by_reciprocal, quotient, unary
from render.interpreter.hosted.call import (
    Bounds,
    Call,
    Result,
    Rule,
    exact_profile,
    finished,
    inner_of,
    number_pair,
    same_rank,
)
from render.ops.dtypes import FORMAT_OF

_UP = 1.0 + 2.0**-20
"""Second-order terms of sums of at most some thousand unit roundoffs, and float64's own rounding."""


def axes_of(dim: Any, rank: int) -> list[int]:
    """The axes that `dim` names; all for None and for an empty list."""
    given = [dim] if isinstance(dim, int) else list(dim or [])
    return sorted({d % rank for d in given}) if given and rank else list(range(rank))


class Rows:
    """An operand with the reduced axes joined as the last one; `back` puts results into their places again."""

    def __init__(self, pair: Pair, axes: list[int]) -> None:
        self.axes = axes
        self.full = pair[0].shape
        self.rest = [d for d in range(len(self.full)) if d not in axes]
        self.shape = [self.full[d] for d in self.rest]
        self.n = int(np.prod([self.full[d] for d in axes], dtype=np.int64))
        self.pair = each(pair, self._joined)

    def _joined(self, x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.transpose(self.rest + self.axes).reshape([*self.shape, -1]), np.float64)

    def reduced(self, pair: Pair, keep: bool) -> Pair:
        full = [1 if d in self.axes else n for d, n in enumerate(self.full)] if keep else self.shape
        return tuple(np.asarray(x).reshape(full) for x in pair)  # type: ignore[return-value]

    def back(self, pair: Pair) -> Pair:
        """Full rows in the operand's own order of axes."""
        lengths = [self.full[d] for d in self.axes]
        inverse = np.argsort(self.rest + self.axes)
        return tuple(np.asarray(x).reshape([*self.shape, *lengths]).transpose(inverse) for x in pair)  # type: ignore[return-value]


def _rows(call: Call, dim: Any = None) -> tuple[Rows, Format] | None:
    """The operand by its dimensions `dim`, and the format of the result."""
    source = FORMAT_OF.get(call.x.dtype)
    fmt = FORMAT_OF.get(call.get("dtype") or call.x.dtype)
    if source is None or fmt is None or not casting.holds(fmt, source):
        return None
    return Rows(call.pair(call.x), axes_of(dim, call.x.dim())), fmt


def reduced(close: Callable[[Rows, Format, Profile], Pair]) -> Rule:
    """A reduction over `dim` (None: over all), computed in float32 or float64 and rounded once."""

    def rule(call: Call) -> Result:
        found = _rows(call, call.get("dim"))
        if found is None or not found[0].n:
            return None
        rows, fmt = found
        pair = close(rows, inner_of(fmt), call.profile)
        return finished(rows.reduced(pair, bool(call.get("keepdim", False))), fmt, call.profile)

    return rule


def total(rows: Rows, fmt: Format, profile: Profile) -> Pair:
    return sum_axis(rows.pair, len(rows.shape), rows.pair[0].shape, fmt, profile)


def average(rows: Rows, fmt: Format, profile: Profile) -> Pair:
    low, high = total(rows, fmt, profile)
    n = np.full((1,) * low.ndim, float(rows.n))
    return by_reciprocal((low, high), (n, n), fmt, profile)


def product(rows: Rows, fmt: Format, profile: Profile) -> Pair:
    return prod_axis(rows.pair, len(rows.shape), rows.pair[0].shape, fmt, profile)


def scanned(scan_: Callable[..., Pair]) -> Rule:
    """cumsum and cumprod; torch's GPU kernels accumulate narrow types in the type itself."""

    def rule(call: Call) -> Result:
        found = _rows(call)
        if found is None:
            return None
        fmt = found[1]
        pair = tuple(np.ascontiguousarray(np.atleast_1d(e), np.float64) for e in call.pair(call.x))
        lo, hi = scan_(pair, int(call.get("dim")) % max(call.x.dim(), 1), False, fmt, call.profile)
        return Bounds(lo.reshape(call.x.shape), hi.reshape(call.x.shape))

    return rule


# --- norms of vectors ---------------------------------------------------------------------------------------------


def vector_norm(call: Call) -> Result:
    order = call.get("ord", call.get("p", 2))
    found = _rows(call, call.get("dim"))
    if found is None or not isinstance(order, (int, float, type(None))) or not found[0].n:
        return None
    rows, fmt = found
    pair = _norm(rows, 2.0 if order is None else float(order), inner_of(fmt), call.profile)
    if pair is None:
        return None
    return finished(rows.reduced(pair, bool(call.get("keepdim", False))), fmt, call.profile)


def _norm(rows: Rows, order: float, fmt: Format, profile: Profile) -> Pair | None:
    sizes = arithmetic.abs_(rows.pair)
    if math.isinf(order):
        pick = np.max if order > 0 else np.min
        return pick(sizes[0], -1), pick(sizes[1], -1)
    if order == 0:
        return None

    def sum_of(pair: Pair) -> Pair:
        return sum_axis(pair, len(rows.shape), pair[0].shape, fmt, profile)

    if order == 1:
        return sum_of(sizes)
    if order == 2:
        return unary("sqrt", sum_of(arithmetic.square(rows.pair, fmt, profile)), fmt, profile)
    p, inverse = (np.full((1,) * sizes[0].ndim, v) for v in (order, 1 / order))
    powers = sum_of(joint.power(sizes, (p, p), fmt, profile))
    near = np.nextafter(inverse, 0.0) if fmt == FP64 else inverse.astype(np.float32).astype(np.float64)
    ends = [np.minimum(near, inverse) * (1 - 2.0**-52), np.maximum(near, inverse) * (1 + 2.0**-52)]
    powers, exponents = same_rank([powers, (ends[0], ends[1])])
    return joint.power(powers, exponents, fmt, profile)


# --- softmax ------------------------------------------------------------------------------------------------------


_LEAST = 2.0**-1070
"""More than exp in float64 is off where it underflows."""


def _rest(others: np.ndarray, top: np.ndarray) -> np.ndarray:
    """sum_{j != i} e^{others_j - top} for every i, without a subtraction: prefixes from both ends."""
    powers = np.exp(others - top)
    first = np.zeros_like(powers[..., :1])

    def ahead(x: np.ndarray) -> np.ndarray:
        return np.concatenate([first, np.cumsum(x, -1)[..., :-1]], -1)

    found: np.ndarray = ahead(powers) + np.flip(ahead(np.flip(powers, -1)), -1)
    return found


def _peak(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    top = np.maximum(lo, hi).max(-1, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


def _exact_softmax(lo: np.ndarray, hi: np.ndarray) -> Pair:
    """Exact range along the last axis, with float64's relative slack of n + 16 roundings and its underflow."""
    n, top = lo.shape[-1], _peak(lo, hi)
    slack, lost = (n + 16) * 2.0**-50, n * _LEAST
    least, most = np.maximum(np.exp(lo - top) - _LEAST, 0.0), np.exp(hi - top) + _LEAST
    low = least / (least + _rest(hi, top) + lost)
    high = most / (most + np.maximum(_rest(lo, top) - lost, 0.0))
    return low * (1 - slack), np.minimum(high * (1 + slack) + 5e-324, 1.0)


def softmax(call: Call) -> Result:
    return _softmax(call, logs=False)


def log_softmax(call: Call) -> Result:
    return _softmax(call, logs=True)


def _softmax(call: Call, logs: bool) -> Result:
    found = _rows(call, int(call.get("dim")))
    if found is None or call.get("half_to_float", False) or not found[0].n:
        return None
    rows, fmt = found
    inner, profile = inner_of(fmt), call.profile
    lo, hi = rows.pair
    with np.errstate(all="ignore"):
        finite = (np.isfinite(lo) & np.isfinite(hi)).all(-1, keepdims=True)
        masked = _masked(lo, hi)
        low, high = (_log_error if logs else _softmax_error)(lo, hi, rows.n, inner, profile)
        low, high = (np.where(finite | masked, end, np.nan) for end in (low, high))
    return finished(rows.back((low, high)), fmt, profile)


def _masked(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """Rows in which every infinity is a certain -inf (a mask), and at least one number is finite."""
    mask = (lo == -np.inf) & (hi == -np.inf)
    fine = mask | (np.isfinite(lo) & np.isfinite(hi))
    found: np.ndarray = fine.all(-1, keepdims=True) & ~mask.all(-1, keepdims=True)
    return found


def _unit(fmt: Format, profile: Profile, cause: str) -> float:
    return 0.0 if profile.muted(cause) else fmt.u


def _relative(name: str, fmt: Format, profile: Profile) -> float:
    return 0.0 if profile.muted("function") else profile.fn(name, fmt.name).r


def _softmax_error(lo: np.ndarray, hi: np.ndarray, n: int, fmt: Format, profile: Profile) -> Pair:
    low, high = _exact_softmax(lo, hi)
    u, add, e = _unit(fmt, profile, "arith"), _unit(fmt, profile, "accumulation"), _relative("exp", fmt, profile)
    tiny = 0.0 if profile.muted("function") else 4 * max(fmt.half_subnormal, 2.0**-1074)

    def reach(y: np.ndarray) -> np.ndarray:
        # |x - max| <= |log y| + log n for every element, and the weighted mean of it in the sum is at most log n + 1.
        depth = -np.log(np.maximum(y, 5e-324)) + 2 * math.log(n) + 1
        grown: np.ndarray = np.expm1((u * depth + 2 * e + n * add + 3 * u) * _UP)
        return grown

    top = high * (1 + reach(high)) + tiny
    return np.maximum(low * (1 - np.minimum(reach(low), 1.0)) - tiny, 0.0), top


def _log_error(lo: np.ndarray, hi: np.ndarray, n: int, fmt: Format, profile: Profile) -> Pair:
    """x - logsumexp, rising in its own element and falling in every other; computed as x - max - log(sum)."""
    u, add = _unit(fmt, profile, "arith"), _unit(fmt, profile, "accumulation")
    e, g = _relative("exp", fmt, profile), _relative("log", fmt, profile)

    peak, lost = _peak(lo, hi), n * _LEAST
    first = (lo - peak) - np.log(_rest(hi, peak) + np.exp(lo - peak) + lost)
    last = (hi - peak) - np.log(np.maximum(_rest(lo, peak) + np.exp(hi - peak) - lost, 0.0))
    slack = (n + 16) * 2.0**-50

    def reach(y: np.ndarray) -> np.ndarray:
        depth = np.abs(y) + math.log(n)
        found: np.ndarray = (u * (2 * depth + np.abs(y)) + g * math.log(n) + e + n * add + u * (math.log(n) + 1)) * _UP
        result: np.ndarray = found + slack * (1 + np.abs(y) + np.abs(hi - peak) + np.abs(lo - peak))
        return result

    masked = lo == -np.inf
    bottom, top = first - reach(first), last + reach(last)
    return np.where(masked, -np.inf, bottom), np.where(masked, -np.inf, np.minimum(top, 8 * u))


def logsumexp(call: Call) -> Result:
    """Rises in every element: both ends, then the errors of max + log(sum exp(x - max))."""
    found = _rows(call, call.get("dim"))
    if found is None or not found[0].n:
        return None
    rows, fmt = found
    inner, profile, n = inner_of(fmt), call.profile, found[0].n
    u, add = _unit(inner, profile, "arith"), _unit(inner, profile, "accumulation")
    e, g = _relative("exp", inner, profile), _relative("log", inner, profile)
    ends = []
    with np.errstate(all="ignore"):
        for x, way in zip(rows.pair, (-1, 1), strict=True):
            top = x.max(-1)
            value = top + np.log(np.exp(x - top[..., None]).sum(-1))
            room = (e + n * add + u * (math.log(n) + 1) + g * math.log(n) + u * (np.abs(value) + math.log(n))) * _UP
            ends.append(value + way * (room + (n + 16) * 2.0**-50 * (1 + np.abs(top) + np.abs(value))))
    keep = bool(call.get("keepdim", False))
    return finished(rows.reduced((ends[0], ends[1]), keep), fmt, profile)


# --- mean, variance and what is normalised by them ----------------------------------------------------------------


class Moments:
    """Mean and variance of rows: exact ranges `mean`, `var` (M2 / n), and the errors of what torch computes."""

    def __init__(self, rows: Rows, fmt: Format, profile: Profile) -> None:
        lo, hi = (np.asarray(end, np.float64) for end in rows.pair)
        zero, one = np.zeros_like(lo), np.ones_like(lo)
        axis = lo.ndim - 1
        wide = inner_of(fmt)
        computed = welford.reduce_axis((lo, hi), (zero, zero), one, axis, wide, profile, True)
        exact = welford.reduce_axis((lo, hi), (zero, zero), one, axis, FP64, exact_profile(), True)
        assert computed is not None and exact is not None
        self.n = rows.n
        self.mean, scatter = exact
        bottom = np.maximum(scatter[0], 0.0)
        self.scatter = bottom, scatter[1]
        self.mean_error = np.maximum(computed[0][1] - exact[0][1], exact[0][0] - computed[0][0]) * _UP
        # Welford's update has one factor twice where Chan's merge has a square: at most 3/2 of its error, squared.
        off = np.maximum(computed[1][1] - scatter[1], scatter[0] - computed[1][0])
        self.scatter_error = 2.25 * np.maximum(off, 0.0) * _UP

    def variance(self, less: float, fmt: Format, profile: Profile) -> Pair:
        """M2 / max(0, n - less) as computed."""
        low, high = np.maximum(self.scatter[0] - self.scatter_error, 0.0), self.scatter[1] + self.scatter_error
        count = np.full((1,) * low.ndim, max(self.n - less, 0.0))
        return quotient((low, high), (count, count), fmt, profile)

    def computed_mean(self) -> Pair:
        return self.mean[0] - self.mean_error, self.mean[1] + self.mean_error


def spread_of(call: Call, root: bool, with_mean: bool) -> Result:
    """var, std, var_mean and std_mean."""
    dim = call.get("dim")
    less = call.get("correction", 1.0 if call.get("unbiased", True) else 0.0)
    found = _rows(call, None if isinstance(dim, bool) else dim)
    if found is None or not found[0].n:
        return None
    rows, fmt = found
    inner, profile = inner_of(fmt), call.profile
    moments = Moments(rows, fmt, profile)
    pair = moments.variance(1.0 if less is None else float(less), inner, profile)
    pair = unary("sqrt", pair, inner, profile) if root else pair
    keep = bool(call.get("keepdim", False))
    spread = finished(rows.reduced(pair, keep), fmt, profile)
    return (spread, finished(rows.reduced(moments.computed_mean(), keep), fmt, profile)) if with_mean else spread


def normalised(rows: Rows, eps: float, fmt: Format, profile: Profile) -> tuple[Pair, Pair, Pair]:
    """((x - mean) / sqrt(var + eps), mean, 1 / sqrt(var + eps)) as computed and exactly, along the last axis."""
    lo, hi = rows.pair
    moments = Moments(rows, fmt, profile)
    n, u = rows.n, _unit(fmt, profile, "arith")
    with np.errstate(all="ignore"):
        var = tuple(end[..., None] / n for end in moments.scatter)
        var_low, var_high = var[0] * (1 - 2.0**-50), var[1] * (1 + 2.0**-50)
        sigma_low, sigma_high = (np.sqrt(v + eps) * f for v, f in ((var_low, 1 - 2.0**-50), (var_high, 1 + 2.0**-50)))
        mean = tuple(end[..., None] for end in moments.mean)
        off = moments.mean_error[..., None]
        first, last = lo - mean[1], hi - mean[0]
        size = np.maximum(np.abs(first), np.abs(last))
        naive = _quotients(first, last, sigma_low, sigma_high)
        low, high = _mean_value(lo, hi, size, sigma_low, eps, n)
        low, high = np.fmax(low, naive[0]), np.fmin(high, naive[1])
        most = np.maximum(np.abs(low), np.abs(high))
        share = moments.scatter_error[..., None] / n / (var_low + eps) + 4 * u
        relative = np.where(share < 0.25, 0.5 * share * (1 + share), np.inf) + _relative("rsqrt", fmt, profile) + 6 * u
        reach = np.maximum(np.abs(lo), np.abs(hi)) + np.maximum(np.abs(mean[0]), np.abs(mean[1]))
        error = (most * relative + (off + 3 * u * reach) / sigma_low * (1 + relative)) * _UP + 2.0**-148 * (u > 0)
        ends = low - error, high + error, (1 - relative) / sigma_high, (1 + relative) / sigma_low
        low, high, least, most = (np.where(np.isfinite(relative), end, np.nan) for end in ends)
    return (low, high), moments.computed_mean(), (least[..., 0], most[..., 0])


def _quotients(lo: np.ndarray, hi: np.ndarray, least: np.ndarray, most: np.ndarray) -> Pair:
    """[lo, hi] over [least, most] > 0, with float64's slack."""
    low = np.where(lo >= 0, lo / most, lo / least)
    high = np.where(hi >= 0, hi / least, hi / most)
    return low - np.abs(low) * 2.0**-50, high + np.abs(high) * 2.0**-50


def _mean_value(lo: np.ndarray, hi: np.ndarray, size: np.ndarray, sigma: np.ndarray, eps: float, n: int) -> Pair:
    """z at the midpoint, and the largest |dz_i/dx_j| over the box times the radii."""
    mid = 0.5 * lo + 0.5 * hi
    radius = np.maximum(hi - mid, mid - lo)
    mean = mid.mean(-1, keepdims=True)
    centred = mid - mean
    z = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    largest = np.minimum(size / sigma, math.sqrt(n))
    reach = radius + radius.mean(-1, keepdims=True) + largest * (largest * radius).mean(-1, keepdims=True)
    # float64's own error at the midpoint: of the mean and the sum of squares, n additions each.
    own = (n + 16) * 2.0**-51 * (np.abs(mid).max(-1, keepdims=True) / sigma * (1 + np.abs(z)) + np.abs(z))
    reach = reach / sigma * (1 + (n + 16) * 2.0**-50) + own
    return z - reach, z + reach


def _affine(call: Call, pair: Pair, weight: Any, bias: Any, side: tuple[int, ...], fmt: Format) -> Pair:
    """z weight + bias, each of the shape `side` beside z; contracted or not."""
    for operand, step in ((weight, arithmetic.mul), (bias, arithmetic.add)):
        if operand is not None:
            given = tuple(np.asarray(end, np.float64).reshape(side) for end in call.pair(operand))
            pair, factor = same_rank([pair, given])  # type: ignore[list-item]
            pair = step(pair, factor, fmt, call.profile)
    return pair


def layer_norm(call: Call) -> Result:
    x, shape = call.x, tuple(call.get("normalized_shape"))
    fmt = FORMAT_OF.get(x.dtype)
    if fmt is None or not x.numel():
        return None
    rows = Rows(call.pair(x), list(range(x.dim() - len(shape), x.dim())))
    inner = inner_of(fmt)
    z, mean, scale = normalised(rows, float(call.get("eps")), inner, call.profile)
    y = _affine(call, rows.back(z), call.get("weight"), call.get("bias"), (1,) * (x.dim() - len(shape)) + shape, inner)
    kept = tuple(rows.reduced(p, True) for p in (mean, scale))
    return finished(y, fmt, call.profile), *(Bounds(*p) for p in kept)


def group_norm(call: Call) -> Result:
    x, groups = call.x, int(call.get("group"))
    fmt = FORMAT_OF.get(x.dtype)
    if fmt is None or not x.numel():
        return None
    count, channels = int(call.get("N")), int(call.get("C"))
    rows = Rows(each(call.pair(x), lambda end: np.asarray(end).reshape(count, groups, -1)), [2])
    inner = inner_of(fmt)
    z, mean, scale = normalised(rows, float(call.get("eps")), inner, call.profile)
    full = tuple(end.reshape(tuple(x.shape)) for end in z)
    side = (1, channels, *[1] * (x.dim() - 2))
    y = _affine(call, full, call.get("weight"), call.get("bias"), side, inner)  # type: ignore[arg-type]
    return finished(y, fmt, call.profile), Bounds(*mean), Bounds(*scale)


def batch_norm(call: Call) -> Result:
    """Over all but the channels; with statistics that are given, elementwise."""
    x, training = call.x, bool(call.get("training"))
    fmt = FORMAT_OF.get(x.dtype)
    given = [call.get(name) for name in ("running_mean", "running_var")]
    if fmt is None or not x.numel() or (training and given[0] is not None):
        return None
    inner, eps, side = inner_of(fmt), float(call.get("eps")), (1, x.shape[1], *[1] * (x.dim() - 2))
    if training:
        rows = Rows(call.pair(x), [d for d in range(x.dim()) if d != 1])
        z, mean, scale = normalised(rows, eps, inner, call.profile)
        pair, kept = rows.back(z), (Bounds(*mean), Bounds(*scale))
    else:
        if any(not isinstance(g, torch.Tensor) for g in given):
            return None
        exact = number_pair(eps)
        mean, var = ((np.asarray(lo).reshape(side), np.asarray(hi).reshape(side)) for lo, hi in map(call.pair, given))
        var, small = same_rank([var, exact])
        root = unary("sqrt", arithmetic.add(var, small, inner, call.profile), inner, call.profile)
        pair = _scaled_difference(call.pair(x), mean, root, inner, call.profile)  # type: ignore[arg-type]
        kept = (None, None)  # type: ignore[assignment]
    return finished(_affine(call, pair, call.get("weight"), call.get("bias"), side, inner), fmt, call.profile), *kept


def _scaled_difference(x: Pair, mean: Pair, root: Pair, fmt: Format, profile: Profile) -> Pair:
    """(x - mean) / root, also as x / root - mean / root with a rounding of each part."""
    lo, hi = quotient(arithmetic.sub(x, mean, fmt, profile), root, fmt, profile)
    u = _unit(fmt, profile, "arith")
    size = (np.maximum(np.abs(x[0]), np.abs(x[1])) + np.maximum(np.abs(mean[0]), np.abs(mean[1]))) / root[0]
    room = 8 * u * size * _UP
    return lo - room, hi + room


# --- losses -------------------------------------------------------------------------------------------------------


def loss(elements: Rule) -> Rule:
    """An elementwise loss, then nothing, the mean or the sum of all."""

    def rule(call: Call) -> Result:
        fmt = FORMAT_OF.get(call.x.dtype)
        found = elements(call)
        if fmt is None or not isinstance(found, Bounds):
            return None
        how = int(call.get("reduction", 1))
        if how == 0:
            return finished((found.lo, found.hi), fmt, call.profile)
        rows = Rows((found.lo, found.hi), list(range(found.lo.ndim)))
        return finished((average if how == 1 else total)(rows, inner_of(fmt), call.profile), fmt, call.profile)

    return rule


def nll_loss(call: Call) -> Result:
    """-x[i, target_i], summed or averaged over the targets that count; weights other than 1 have no rule here."""
    x, target = call.x, call.args[1]
    fmt = FORMAT_OF.get(x.dtype)
    if fmt is None or call.get("weight") is not None or x.dim() not in (1, 2):
        return None
    goals = target.reshape(-1).numpy()
    kept = goals != int(call.get("ignore_index", -100))
    at = np.where(kept, goals, 0)
    ends = [np.asarray(end, np.float64).reshape(-1, x.shape[-1])[np.arange(len(at)), at] for end in call.pair(x)]
    low, high = np.where(kept, -ends[1], 0.0), np.where(kept, -ends[0], 0.0)
    how = int(call.get("reduction"))
    if how == 0:
        return Bounds(low.reshape(target.shape), high.reshape(target.shape)), None
    rows = Rows((low[kept], high[kept]), [0])
    if not rows.n:
        return None
    pair = (average if how == 1 else total)(rows, inner_of(fmt), call.profile)
    count = np.full((), float(kept.sum()))
    return finished(pair, fmt, call.profile), Bounds(count, count)


MEAN, SUM, PROD = reduced(average), reduced(total), reduced(product)
CUMSUM, CUMPROD = scanned(scan.cumsum), scanned(scan.cumprod)
SPREADS = {
    "var": partial(spread_of, root=False, with_mean=False),
    "std": partial(spread_of, root=True, with_mean=False),
    "var_mean": partial(spread_of, root=False, with_mean=True),
    "std_mean": partial(spread_of, root=True, with_mean=True),
}
