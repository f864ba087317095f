r"""Chains of fused multiply-adds along k: the bound of a dot whose order is known, by its running sums.

Triton's lowering of a dot that no matrix unit takes is one `llvm.fmuladd` per product and accumulator, k upwards, and
`acc += tl.dot(a, b)` continues the chain (seen in the LLVM IR of Triton 3.6 and 3.9 for sm_75 to sm_100: no addition of
its own, and no separate product, with fp contraction on or off). With exact running sums s_k and the error E_{k-1} of
the computed ones, the number that step k rounds to nearest is at most |s_k| + E_{k-1}, so that

    E_k = E_{k-1} + u g(|s_k| + E_{k-1}),   g(x) the largest power of two <= x, at least the smallest normal,

and |fl - s_K| <= E_K. A product that is exactly zero costs nothing: its step is exact. Against K u sum |a b| this gains
what the terms cancel: about sqrt(K) for terms of random sign, a factor of 2 to 3 where all have one sign.

A dot whose sum the compiler does not continue from the accumulator starts from zero and is added afterwards: each step
takes the largest of the running sums from every place where its chain may have started (`Product.starts`), and the
additions are charged at the largest number of all. Accumulators that come from
outside (`C`, the sum of their magnitudes) may enter anywhere: C is added to every running sum.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2 (running error analysis); the half
ulp of a number in [2^e, 2^(e+1)) is u 2^e. A common mistake: the bound is for this one order; sums of the same products
in another order, as a matrix library forms them, need not lie inside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from interval_ops.bounds import Pair, is_point
from interval_ops.compiled import compiled
from interval_ops.dot.sums import Array, Product
from interval_ops.formats.rounding import binade

_NORMAL = (2.0**-1022, 0.0, 0.0, 0.0)
LONGEST = 1 << 15
"""Products of longer chains are not kept for this bound (their operands would fill the memory)."""


@compiled
def _row(left, right, start, state, outside, u, least):  # type: ignore[no-untyped-def]
    """One step of all columns: flat arrays of equal length, see `_steps`."""
    x, rx = left
    y, ry = right
    low, high = start
    mid, rad, err, top = state
    for j in range(mid.size):
        r = abs(x) * ry[j] + rx * (abs(y[j]) + ry[j])
        s, t = mid[j] + x * y[j], rad[j] + r
        reach = max(s - low[j], high[j] - s) + t + outside[j] + err[j]
        moved = (y[j] != 0.0) | (ry[j] != 0.0)
        mid[j], rad[j] = s, t
        err[j] += u * max(binade(reach, _NORMAL), least) if moved else 0.0
        top[j] = max(top[j], reach if moved else 0.0)


@compiled
def _steps(a, b, start, state, outside, u, least):  # type: ignore[no-untyped-def]
    """One dot of (g, M, K) and (g, K, N) midpoints and radii, added to the running sums of shape (g, M, N).

    `state`: midpoint and radius enclose s_k, then E_k and the largest rounded number so far; `start` the least and the
    greatest running sum at which the compiler may have started from zero.
    """
    am, ar = a
    bm, br = b
    low, high = start
    mid, rad, err, top = state
    for g in range(am.shape[0]):
        for i in range(am.shape[1]):
            for k in range(am.shape[2]):
                if am[g, i, k] != 0.0 or ar[g, i, k] != 0.0:
                    _row((am[g, i, k], ar[g, i, k]), (bm[g, k], br[g, k]), (low[g, i], high[g, i]),
                         (mid[g, i], rad[g, i], err[g, i], top[g, i]), outside[g, i], u, least)  # fmt: skip


def chain_interval(
    products: Sequence[Product],
    addends: Sequence[Pair],
    shape: tuple[int, ...],
    u: float,
    emin: int,
    limit: float,
    adds: int,
    adding: float,
) -> Pair:
    """Bounds of the chain of `products` in order, `addends` anywhere and `adds` separate additions.

    `shape` (..., M, N) is the shape of the result, u the unit roundoff of the chain, `adding` that of an addition,
    2^emin the smallest normal number and `limit` where sums may overflow. NaN where they may, or operands are not
    finite.
    """
    lead, (m, n) = shape[:-2], shape[-2:]
    lo, hi, outside = np.zeros((3, int(np.prod(lead, dtype=np.int64)), m, n))
    with np.errstate(all="ignore"):
        for low, high in addends:
            lower, upper = _dense(low, shape), _dense(high, shape)
            lo, hi, outside = lo + lower, hi + upper, outside + np.maximum(np.abs(lower), np.abs(upper))
        size = _magnitudes(products, lead, m, n) + outside
        # Room for the float64 evaluation, as an error that is there from the start. NaN where an operand is no number.
        err = (2 * (sum(p.k for p in products) + len(addends)) + 16) * 2.0**-53 * (1.0 + 2.0**-20) * size
        mid, rad, top = _run(products, lead, (m, n), err, outside, u, 2.0**emin)
        err = err + adds * adding * (top + outside + err) * (1.0 + 2 * adds * adding)
        low, high = lo + mid - rad - err, hi + mid + rad + err
        bad = ~(top + err + outside < limit)
    low, high = (np.where(bad, np.nan, np.where(size == 0.0, 0.0, x)) for x in (low, high))
    return low.reshape(shape), high.reshape(shape)


def _run(
    products: Sequence[Product], lead: tuple[int, ...], last: tuple[int, int], err: Array, outside: Array, u: float,
    least: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(midpoints, radii) of the exact sum and the largest rounded number; `err` grows in place."""
    mid, rad, top = np.zeros((3, *err.shape))
    wanted = {start: i for i, p in enumerate(products) for start in p.starts}  # start -> last product that needs it
    sums: dict[int, Array] = {}
    for i, p in enumerate(products):
        if i in wanted:
            sums[i] = mid.copy()
        low = np.minimum.reduce([sums[start] for start in p.starts])
        high = np.maximum.reduce([sums[start] for start in p.starts])
        a, b = _split(p.a, (*lead, last[0], p.k)), _split(p.b, (*lead, p.k, last[1]))
        _steps(a, b, (low, high), (mid, rad, err, top), outside, u, least)
        sums = {start: x for start, x in sums.items() if wanted[start] > i}
    return mid, rad, top


def _dense(x: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(np.broadcast_to(x, shape), np.float64).reshape(-1, *shape[-2:])


def _split(pair: Pair, shape: tuple[int, ...]) -> Pair:
    """Midpoints and radii, rounded up, as (slices, rows, columns)."""
    low = _dense(pair[0], shape)
    if is_point(pair):
        return low, np.zeros_like(low)
    high = _dense(pair[1], shape)
    mid = 0.5 * low + 0.5 * high
    return mid, np.maximum(high - mid, mid - low) * (1.0 + 2.0**-50)


def _magnitudes(products: Sequence[Product], lead: tuple[int, ...], m: int, n: int) -> Array:
    """sum |a| |b|, the larger ends; only its size matters here."""
    total = np.zeros((int(np.prod(lead, dtype=np.int64)), m, n))
    with np.errstate(all="ignore"):
        for p in products:
            a, b = (np.maximum(np.abs(x), np.abs(y)) for x, y in (p.a, p.b))
            total += np.matmul(_dense(a, (*lead, m, p.k)), _dense(b, (*lead, p.k, n)))
    return total
