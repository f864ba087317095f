"""Reductions along one axis: sum and product in any order, maximum, minimum, and who wins an argmax.

`a` is a pair whose dimensions are those of `shape` or 1 (the same value along that dimension); the reduced axis is
removed, the other dimensions stay as they are. The order of our own float64 additions depends on the length of the axis
alone, so a row gives the same bits in a batch of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

from interval_ops import threads
from interval_ops.arithmetic.broadcast import BLOCK
from interval_ops.bounds import Array, Pair, each, is_point
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction import endless, kernels
from interval_ops.reduction.kernels import SHORT, WIDTH


def sum_axis(a: Pair, axis: int, shape: tuple[int, ...], fmt: Format, profile: Profile) -> Pair:
    r"""Sum along `axis`, rounded to `fmt` after every addition, in any order and any tree.

    |fl(sum x_i) - sum x_i| <= ((1 + u)^(n-1) - 1) sum |x_i|, n = number of addends that are not exact zeros: padding is
    free; (n-1) u sum |x_i| however large n u is (`kernels.sum_growth`); and what `running.running_error` makes of the
    sizes of partial sums, level by level where the sum is a known tree: the smallest of all. Additions
    never underflow inexactly. Points that are multiples of q = 2^k and whose magnitudes sum to at most 2^p q (integers,
    quantised numbers) are exact in any order (`grid`), if the format reaches so far.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2.
    A common mistake: widening fp16 and bf16 to fp32. Triton does not; a sum in fp32 that is rounded once is
    covered too.
    A partial sum that may overflow gives a half line (one sign) or top (both signs); infinite terms: `endless`.
    """
    muted = profile.muted(sum_cause(fmt))
    outer, n, inner = _extent(a, axis, shape)
    sums = np.empty((outer, kernels.ROWS, inner))
    way = (kernels.accumulate_rows, kernels.accumulate)
    _each_block(a, axis, shape, lambda lo, hi, cut: _present(lo, hi, sums[cut], *way))
    lo, hi = np.empty((2, outer, inner))
    u, whole, limit = sum_params(fmt, muted)
    levels = _levels(n, profile)
    same = kernels.close_sums(sums, lo, hi, u, whole, limit, levels, _depth(n, inner))
    large = sums[:, 2:4].max(axis=1) > FP64.max
    if large.any():
        _each_block(a, axis, shape, lambda low, high, cut: endless.whole(
            low, high, large[cut], lo[cut], hi[cut], u, limit, levels))  # fmt: skip
    return _shaped(a, axis, lo, lo if same and not (muted and fmt.bits < 64) else hi)


def _levels(n: int, profile: Profile) -> float:
    """Roundings that one of n addends passes at most: the depth of a balanced tree, inf where the order is open.

    Triton 3.8 and 3.9 reduce in halves throughout (elements of a thread, lanes by shuffles, warps through shared
    memory), each a balanced tree of a power of two; so the depth is log2 n for every layout, number of warps and axis.
    Seen in the LLVM IR of both for sm_80, sm_90, sm_100, gfx90a and gfx942. Triton 3.6 and 3.7 add the elements of a
    thread one after the other, and how many it holds depends on the layout: n - 1 is safe there.
    """
    return float((n - 1).bit_length()) if profile.trees else np.inf


def sum_cause(fmt: Format) -> str:
    """Error cause of sums that are accumulated in `fmt`."""
    return "lowacc" if fmt.p < FP32.p else "accumulation"


@cache
def sum_params(fmt: Format, muted: bool) -> tuple[float, float, float]:
    """(u, largest exact sum in units of the common grid, overflow limit) of sums in `fmt`."""
    limit = fmt.max if fmt.bits == 64 else fmt.overflow_threshold
    # The magnitudes are summed in float64, where 2^53 q may stand for a little more that was rounded away, never less.
    whole = 2.0**fmt.p - (fmt.bits == 64)
    return 0.0 if muted else rounding_unit(fmt), whole, limit


def rounding_unit(fmt: Format) -> float:
    """Unit roundoff of one operation in `fmt`; below fp32 it covers a computation in fp32 and one final rounding."""
    return fmt.u if fmt.p >= FP32.p else fmt.u + 2 * FP32.u


def prod_axis(a: Pair, axis: int, shape: tuple[int, ...], fmt: Format, profile: Profile) -> Pair:
    r"""Product along `axis` in any order: relative (1 + u)^(n-1) - 1 with n factors other than +-1. A balanced tree
    gains nothing: the relative errors of all its n - 1 products multiply.

    Where a partial product may underflow, each of the n roundings adds half a subnormal times the largest product of
    the other factors; where one may overflow the result is top.
    """
    muted = profile.muted(sum_cause(fmt))
    outer, _, inner = _extent(a, axis, shape)
    out = np.empty((2, outer, inner))

    def last(lo: Array, hi: Array, cut: slice) -> None:
        prefix = np.empty((2, *lo.shape))
        kernels.prefix_products(lo, hi, kernels.NOWHERE, prefix[0], prefix[1], *product_params(fmt, muted))
        out[:, cut] = prefix[:, :, -1]

    _each_block(a, axis, shape, last)
    return _shaped(a, axis, out[0], out[1])


@cache
def product_params(fmt: Format, muted: bool) -> tuple[float, float, float, float]:
    """(u, absolute error of one underflow, overflow limit, smallest normal) of products in `fmt`."""
    u, _, limit = sum_params(fmt, muted)
    return u, 0.0 if muted else max(fmt.half_subnormal, 2.0**-1074), limit, fmt.min_normal


def max_axis(a: Pair, axis: int, shape: tuple[int, ...]) -> Pair:
    """[max lo, max hi]: the winner of one concrete run may lose in another. Exact.

    NaN as in `selection.maximum` without propagation: points ignore NaN, a top element makes the result top.
    """
    return _extremum(a, axis, shape, 1.0, np.fmax)


def min_axis(a: Pair, axis: int, shape: tuple[int, ...]) -> Pair:
    """[min lo, min hi], as `max_axis`."""
    return _extremum(a, axis, shape, -1.0, np.fmin)


def _extremum(a: Pair, axis: int, shape: tuple[int, ...], sign: float, ufunc: np.ufunc) -> Pair:
    if is_point(a):
        lo = ufunc.reduce(a[0], axis=axis).astype(np.float64)
        return lo, lo
    outer, _, inner = _extent(a, axis, shape)
    out = np.empty((outer, 2, inner))
    way = (
        lambda lo, hi, part: kernels.extreme_rows(lo, hi, sign, part),
        lambda lo, hi, part: kernels.extremes(lo, hi, sign, part),
    )
    _each_block(a, axis, shape, lambda lo, hi, cut: _present(lo, hi, out[cut], *way))
    return _shaped(a, axis, out[:, 0], out[:, 1])


def argmax_axis(a: Pair, v: Array, axis: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """(index of the largest `v`, leftmost on ties; whether every choice in the bounds has that winner)."""
    return _winner(v, a[0], a[1], axis, shape)


def argmin_axis(a: Pair, v: Array, axis: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
    return _winner(-v, -a[1], -a[0], axis, shape)


def _winner(v: Array, lo: Array, hi: Array, axis: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
    v, lo, hi = (_along(x, axis, shape) for x in (v, lo, hi))
    index = np.argmax(np.where(np.isnan(v), -np.inf, v), axis=axis)
    best = np.expand_dims(index, axis)
    least = np.take_along_axis(np.broadcast_to(lo, v.shape), best, axis)
    place = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(v.ndim)])
    # An element to the left wins a tie, one to the right loses it.
    beaten = np.where(place < best, hi < least, hi <= least) | (place == best)
    return index, beaten.all(axis=axis)


def _along(x: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """The array with `axis` at its full extent, as a view."""
    if x.shape[axis] == shape[axis]:
        return x
    return np.broadcast_to(x, (*x.shape[:axis], shape[axis], *x.shape[axis + 1 :]))


def _extent(a: Pair, axis: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
    dims = a[0].shape
    return prod(dims[:axis]), shape[axis], prod(dims[axis + 1 :])


def _shaped(a: Pair, axis: int, lo: Array, hi: Array) -> Pair:
    dims = a[0].shape[:axis] + a[0].shape[axis + 1 :]
    return each((lo, hi), lambda end: end.reshape(dims))


def _each_block(a: Pair, axis: int, shape: tuple[int, ...], visit: Callable[[Array, Array, slice], None]) -> None:
    """Calls `visit(lo, hi, rows)` with contiguous float64 (rows, n, inner) pieces of the operand."""
    outer, n, inner = _extent(a, axis, shape)
    lo, hi = (_along(x, axis, shape) for x in a)
    if all(x.flags.c_contiguous and x.dtype == np.float64 for x in (lo, hi)):
        low = lo.reshape(outer, n, inner)
        high = low if is_point(a) else hi.reshape(outer, n, inner)
        threads.spread(
            lambda start, stop: visit(low[start:stop], high[start:stop], slice(start, stop)), outer, n * inner
        )
        return
    if axis == 0 or lo.ndim == 1:
        lo, hi = lo[None], hi[None]
        axis += 1
    per_row = n * inner * prod(lo.shape[1:axis])
    step = max(1, 2 * BLOCK // max(per_row, 1))
    inside = prod(lo.shape[1:axis])

    def run(first: int, last: int) -> None:
        for start in range(first, last, step):
            cut = slice(start, min(start + step, last))
            low = np.ascontiguousarray(lo[cut], np.float64).reshape(-1, n, inner)
            high = low if is_point(a) else np.ascontiguousarray(hi[cut], np.float64).reshape(-1, n, inner)
            visit(low, high, slice(start * inside, start * inside + len(low)))

    threads.spread(run, lo.shape[0], per_row)


def _present(lo: Array, hi: Array, out: Array, short: Callable[..., None], kernel: Callable[..., None]) -> None:
    """Shows (rows, n, inner) to a kernel: short rows as they are, others in a shape whose innermost loop is long, by n
    and inner alone."""
    rows, n, inner = lo.shape
    if inner == 1 and n <= SHORT:
        short(lo[:, :, 0], hi[:, :, 0], out[:, :, 0])
        return
    lanes = _lanes(n, inner)
    dims = (rows, n // lanes, lanes * inner)
    kernel(lo.reshape(dims), hi.reshape(dims), out)


def _lanes(n: int, inner: int) -> int:
    """Steps of the axis that lie side by side in a kernel: a power of two that divides n."""
    lanes = 1
    while 2 * lanes * inner <= WIDTH and n % (2 * lanes) == 0:
        lanes *= 2
    return lanes


def _depth(n: int, inner: int) -> float:
    """Longest chain of additions of `accumulate`."""
    if inner == 1 and n <= SHORT:
        return float(n)
    lanes = _lanes(n, inner)
    return n // lanes + float(np.log2(lanes))
