r"""Mean, variance and what is normalised by them: exact ranges in a tight form, and what torch may be off.

z_i = (x_i - mean) / sigma, sigma^2 = var + eps, by `normalising`. Mean and variance by Welford's update or Chan's
merge in any order (`interval_ops.reduction.welford`), then (x - mean) rstd or x rstd - mean rstd, whichever torch's
kernel writes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic.hull import rounding_gate
from interval_ops.bounds import Array, Pair, each, is_point
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.formats.rounding import Gate
from interval_ops.functions.elementary import unary
from interval_ops.profiles.profile import Profile
from interval_ops.reduction import equal_weights
from render.interpreter.hosted import channels
from render.interpreter.hosted.algebra import quotient
from render.interpreter.hosted.call import Bounds, Call, Result, Rule, exact_profile, number_pair, same_rank
from render.interpreter.hosted.normalising import around_rows
from render.interpreter.hosted.rows import UP, Rows, relative, unit
from render.ops.aten import ATEN, Aten


class Moments:
    """Mean and variance of rows: exact ranges `mean`, `var` (M2 / n), and the errors of what torch computes."""

    def __init__(self, pair: Pair, fmt: Format, profile: Profile) -> None:
        lo, hi = pair
        computed, exact = equal_weights.moments((lo, hi), ((fmt, profile), (FP64, exact_profile())))
        self.n = lo.shape[1]
        self.mean, scatter = exact
        bottom = np.maximum(scatter[0], 0.0)
        self.scatter = bottom, scatter[1]
        self.mean_error = np.maximum(computed[0][1] - exact[0][1], exact[0][0] - computed[0][0]) * UP
        # Welford's update has one factor twice where Chan's merge has a square: at most 3/2 of its error, squared.
        off = np.maximum(computed[1][1] - scatter[1], scatter[0] - computed[1][0])
        self.scatter_error = 2.25 * np.maximum(off, 0.0) * UP

    def variance(self, less: float, fmt: Format, profile: Profile) -> Pair:
        """M2 / max(0, n - less) as computed."""
        low, high = np.maximum(self.scatter[0] - self.scatter_error, 0.0), self.scatter[1] + self.scatter_error
        count = np.full((1,) * low.ndim, max(self.n - less, 0.0))
        return quotient((low, high), (count, count), fmt, profile)

    def computed_mean(self) -> Pair:
        return self.mean[0] - self.mean_error, self.mean[1] + self.mean_error


def spread_of(call: Call, root: bool, with_mean: bool) -> Result:
    """var, std, var_mean and std_mean."""
    rows, less = Rows(call), call.get("correction", 1.0 if call.get("unbiased", True) else 0.0)
    if not rows.usable:
        return None
    moments = Moments(rows.pair, rows.inner, rows.profile)
    pair = moments.variance(1.0 if less is None else float(less), rows.inner, rows.profile)
    spread = rows.reduced(unary("sqrt", pair, rows.inner, rows.profile) if root else pair)
    return (spread, rows.reduced(moments.computed_mean())) if with_mean else spread


def normalised(pair: Pair, eps: float, fmt: Format, profile: Profile) -> tuple[Pair, Pair, Pair]:
    """((x - mean) / sqrt(var + eps), mean, 1 / sqrt(var + eps)) as computed and exactly, along the last axis."""
    lo, hi = pair
    moments = Moments(pair, fmt, profile)
    u = unit(fmt, profile, "arith")
    with np.errstate(all="ignore"):
        known = moments.mean, moments.scatter, (moments.mean_error, moments.scatter_error)
        ends, scale = around_rows((lo, hi), known, (eps, u, relative("rsqrt", fmt, profile)))
    return ends, moments.computed_mean(), scale


def _scaled_difference(x: Pair, mean: Pair, root: Pair, fmt: Format, profile: Profile) -> Pair:
    """(x - mean) / root, also as x / root - mean / root with a rounding of each part."""
    lo, hi = quotient(arithmetic.sub(x, mean, fmt, profile), root, fmt, profile)
    u = unit(fmt, profile, "arith")
    size = (np.maximum(np.abs(x[0]), np.abs(x[1])) + np.maximum(np.abs(mean[0]), np.abs(mean[1]))) / root[0]
    room = 8 * u * size * UP
    return lo - room, hi + room


def norm(op: Aten) -> Rule:
    """Layer, group and batch norm by the statistics of their rows."""
    row = op.row
    assert row is not None

    def rule(call: Call) -> Result:
        rows, eps = Rows(call, row.layout), float(call.get("eps"))
        if not rows.usable:
            return None
        if row.beside:
            given = [call.get(name) for name in row.beside]
            if not call.get("training"):
                return _with_given(rows, given, eps)
        z, *beside = normalised(rows.pair, eps, rows.inner, rows.profile)
        kept = _kept(rows) if row.beside else 0.0
        statistics = (_statistics(rows, pair) for pair in beside)
        return rows.affine(_by_kept(rows, z, beside[0], beside[1][1], kept), kept), *statistics

    return rule


def _statistics(rows: Rows, pair: Pair) -> Bounds:
    """Mean and reciprocal deviation: as they were computed, or rounded to the narrow type that a CPU returns."""
    found = rows.reduced(pair, rounded=False)
    if not _kept(rows):
        return found
    other = rows.reduced(pair)
    return Bounds(np.minimum(found.lo, other.lo), np.maximum(found.hi, other.hi))


def _kept(rows: Rows) -> float:
    """The unit roundoff of a narrow type in which batch norm keeps statistics, factors and shifts of channels."""
    weight = rows.call.get("weight")
    own = weight is None or weight.dtype == rows.call.x.dtype
    return rows.fmt.u if own and rows.fmt != rows.inner and not rows.profile.muted("cast") else 0.0


def _by_kept(rows: Rows, z: Pair, mean: Pair, scale: np.ndarray, kept: float) -> Pair:
    """x f + (b - m f) in place of (x - m) / sigma: f is off by two roundings, m f by four, the shift by one more."""
    if not kept:
        return z
    x, m = (np.maximum(np.abs(p[0]), np.abs(p[1])) for p in (rows.pair, mean))
    reach = kept * (3 * x + 6 * m[..., None]) * scale[..., None] * UP
    return z[0] - reach, z[1] + reach


def _by_factors(rows: Rows, mean: Pair, root: Pair) -> Bounds | None:
    """In float32, with a factor and a shift for each channel: one pass (`channels.around`); None for other ones."""
    sides = _factor_sides(rows, mean, root)
    return None if sides is None else Bounds(*rows.back(channels.around(rows.pair, *sides)))


def _factor_sides(rows: Rows, mean: Pair, root: Pair) -> tuple[Array, Pair, Array | None, Array | None] | None:
    sides = [rows.call.get(name) for name in ("weight", "bias")]
    pairs = [None if t is None else each(rows.call.pair(t), lambda x: np.asarray(x).reshape(-1, 1)) for t in sides]
    plain = rows.inner == rows.fmt == FP32 and not rows.profile.off
    if not plain or not all(is_point(p) for p in (mean, *pairs) if p is not None):
        return None
    weight, bias = (None if p is None else p[0] for p in pairs)
    return mean[0], root, weight, bias


def batch_norm_sides(call: Call) -> channels.Sides | None:
    """What `channels.around_boxes` needs of a batch norm by statistics; None of one that it is no way for."""
    row = ATEN["native_batch_norm"].row
    assert row is not None
    rows, given = Rows(call, row.layout), [call.get(name) for name in row.beside]
    if not rows.usable or call.get("training") or any(not isinstance(g, torch.Tensor) for g in given):
        return None
    sides = _factor_sides(rows, *_mean_and_root(rows, given, float(call.get("eps"))))
    return None if sides is None else channels.sides_of(call.x.shape[1], *sides)


def layer_norm_sides(call: Call) -> RowSides | None:
    """What `normalising.around_affine` needs of a layer norm; None of one that it is no way for."""
    row = ATEN["native_layer_norm"].row
    assert row is not None
    rows = Rows(call, row.layout)
    if not rows.usable or not rows.inner == rows.fmt == FP32 or rows.profile.off:
        return None
    ends, profile = rows.pair, rows.profile
    with np.errstate(all="ignore"):
        found = Moments(ends, FP32, profile)
        given = np.stack([*found.mean, *found.scatter, found.mean_error, found.scatter_error])
    rates = float(call.get("eps")), unit(FP32, profile, "arith"), relative("rsqrt", FP32, profile)
    return RowSides(ends, given, rates, rounding_gate(FP32, profile.muted("arith")))


class RowSides(NamedTuple):
    """Ends of rows, their moments as `around_rows` takes them, its rates, and what the target rounds to."""

    ends: Pair
    moments: Array
    rates: tuple[float, float, float]
    gate: Gate


def _mean_and_root(rows: Rows, given: list[Any], eps: float) -> tuple[Pair, Pair]:
    inner, profile = rows.inner, rows.profile
    mean, var = (each(rows.call.pair(g), lambda x: np.asarray(x).reshape(-1, 1)) for g in given)
    var, small = same_rank([var, number_pair(eps)])
    return mean, unary("sqrt", arithmetic.add(var, small, inner, profile), inner, profile)


def _with_given(rows: Rows, given: list[Any], eps: float) -> Result:
    """Batch norm by statistics that are given."""
    if any(not isinstance(g, torch.Tensor) for g in given):
        return None
    inner, profile = rows.inner, rows.profile
    mean, root = _mean_and_root(rows, given, eps)
    if (found := _by_factors(rows, mean, root)) is not None:
        return found, None, None
    z, kept = _scaled_difference(rows.pair, mean, root, inner, profile), _kept(rows)
    flat = (mean[0][..., 0], mean[1][..., 0]), 1 / root[0][..., 0]
    return rows.affine(_by_kept(rows, z, *flat, kept), kept), None, None
