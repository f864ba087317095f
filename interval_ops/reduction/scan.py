"""Prefix reductions along one axis. Each prefix holds for every order in which its own elements may be combined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops.bounds import Array, Pair, is_point
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction import endless, kernels
from interval_ops.reduction.rule import product_params, sum_cause, sum_params


def cumsum(a: Pair, axis: int, reverse: bool, fmt: Format, profile: Profile, start: Array | None = None) -> Pair:
    """Running sum: element k is a sum of k + 1 addends, bounded as `reduction.sum_axis`; it starts anew where `start`.

    A common mistake: adding the intervals without a rounding error (4094 of 4096 fp32 prefix sums then lie outside).
    """
    u, integers, limit = sum_params(fmt, profile.muted(sum_cause(fmt)))

    def run(lo: Array, hi: Array, begins: Array, out_lo: Array, out_hi: Array) -> None:
        if kernels.prefix_sums(lo, hi, begins, out_lo, out_hi, u, integers, limit):
            endless.prefixes(lo, hi, begins, out_lo, out_hi, u, limit)

    return _scan(a, axis, reverse, start, run)


def cumprod(a: Pair, axis: int, reverse: bool, fmt: Format, profile: Profile, start: Array | None = None) -> Pair:
    """Running product: element k is a product of k + 1 factors, bounded as `reduction.prod_axis`; see `cumsum`."""
    params = product_params(fmt, profile.muted(sum_cause(fmt)))
    return _scan(
        a, axis, reverse, start, lambda lo, hi, at, *out: kernels.prefix_products(lo, hi, at, out[0], out[1], *params)
    )


def cummax(a: Pair, axis: int, reverse: bool = False) -> Pair:
    """Running maximum of both ends, exact; from a top element on everything is top, points ignore NaN."""
    return _extremum(a, axis, reverse, np.maximum, np.fmax)


def cummin(a: Pair, axis: int, reverse: bool = False) -> Pair:
    return _extremum(a, axis, reverse, np.minimum, np.fmin)


def _extremum(a: Pair, axis: int, reverse: bool, ufunc: np.ufunc, ignoring: np.ufunc) -> Pair:
    def run(function: np.ufunc, x: Array) -> Array:
        ordered = np.flip(x, axis) if reverse else x
        out = function.accumulate(ordered, axis=axis, dtype=np.float64)
        return np.ascontiguousarray(np.flip(out, axis)) if reverse else out

    if is_point(a):
        lo = run(ignoring, a[0])
        return lo, lo
    return run(ufunc, a[0]), run(ufunc, a[1])


def segments(a: Pair, axis: int, reverse: bool, larger: bool, start: Array) -> Pair:
    """Running maximum (or minimum) of both ends, exact, that starts anew where `start`; NaN stays NaN until then."""
    ufunc = np.maximum if larger else np.minimum
    begins = along(start, axis, reverse) != 0
    ends = []
    for end in a:
        out = along(end, axis, reverse).copy()
        for j in range(1, out.shape[1]):
            out[:, j] = np.where(begins[:, j], out[:, j], ufunc(out[:, j - 1], out[:, j]))
        ends.append(back(out, a[0].shape, axis, reverse))
    return ends[0], ends[1]


def _scan(a: Pair, axis: int, reverse: bool, start: Array | None, kernel: Callable[..., None]) -> Pair:
    lo = along(a[0], axis, reverse)
    hi = lo if is_point(a) else along(a[1], axis, reverse)
    begins = kernels.NOWHERE if start is None else along(start, axis, reverse) != 0
    out_lo, out_hi = np.empty((2, *lo.shape))
    kernel(lo, hi, begins, out_lo, out_hi)
    return tuple(back(out, a[0].shape, axis, reverse) for out in (out_lo, out_hi))  # type: ignore[return-value]


def along(x: Array, axis: int, reverse: bool) -> Array:
    """(outer, n, inner), contiguous float64, the scan direction first to last."""
    ordered = np.flip(x, axis) if reverse else x
    return np.ascontiguousarray(ordered, np.float64).reshape(-1, x.shape[axis], int(np.prod(x.shape[axis + 1 :])))


def back(x: Array, shape: tuple[int, ...], axis: int, reverse: bool) -> Array:
    """Undoes `along`."""
    out = x.reshape(shape)
    return np.ascontiguousarray(np.flip(out, axis)) if reverse else out
