"""Compiled loops of the dot rule: statistics of operands, exact interval products, accumulation, the final bound.

All kernels are serial, release the GIL and expect C-contiguous three-dimensional arrays (slice, row, column). Infinite
and NaN operands may pass through them: whatever they yield is replaced in `finish`, by the marks of row and column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from interval_ops.compiled import compiled
from interval_ops.formats.rounding import _bits, _float, _single
from interval_ops.reduction.grid import last_bit
from interval_ops.reduction.running import power_floor, ramp, short_ramp

Array = np.ndarray[Any, Any]

GAMMA = 2.0**-53
"""float64 unit roundoff: a sum of n terms in any order is within n * GAMMA * (sum of magnitudes), to first order."""


@compiled
def row_stats(bits: Array, one: Any, peak: Array, low: Array) -> None:
    """Largest magnitude per row and smallest nonzero magnitude per slice, of non-negative floats given as bits.

    The bits of non-negative IEEE numbers are ordered like the numbers, so integer max and min do (and vectorise).
    `low` holds the minimum minus `one` (unsigned): a zero wraps to the largest integer and drops out.
    """
    for g in range(bits.shape[0]):
        low[g] = ~(one - one)
        for i in range(bits.shape[1]):
            largest, smallest = one - one, low[g]
            for k in range(bits.shape[2]):
                largest = max(largest, bits[g, i, k])
                smallest = min(smallest, bits[g, i, k] - one)
            peak[g, i] = largest
            low[g] = smallest


@compiled
def column_stats(bits: Array, one: Any, peak: Array, low: Array) -> None:
    """As `row_stats`, with the largest magnitude per column."""
    for g in range(bits.shape[0]):
        smallest = ~(one - one)
        peak[g, :] = 0
        for k in range(bits.shape[1]):
            for j in range(bits.shape[2]):
                peak[g, j] = max(peak[g, j], bits[g, k, j])
                smallest = min(smallest, bits[g, k, j] - one)
        low[g] = smallest


@compiled
def split_interval(lo: Array, hi: Array, mid: Array, rad: Array, mag: Array) -> None:
    """Midpoint, radius (rounded up) and magnitude max(|lo|, |hi|) of flat interval arrays; NaN reaches `mag`."""
    for i in range(lo.size):
        m = 0.5 * lo[i] + 0.5 * hi[i]
        r = max(hi[i] - m, m - lo[i])
        mid[i] = m
        rad[i] = r + r * 2.0**-51
        v = max(abs(lo[i]), abs(hi[i]))
        # Nonzero magnitudes stay so large that no product of two of them underflows.
        mag[i] = (2.0**-480 if 0.0 < v < 2.0**-480 else v) + 0.0 * m


NARROW = 2.0**-12
"""Of magnitudes: radii so small that products of two of them are nothing beside the rest of a radius."""


def is_narrow(radius: Array, size: Array) -> bool:
    """Whether radii are little beside magnitudes in every slice, whichever are packed together."""
    r, m = (x.reshape(len(x), -1).sum(1) for x in (radius, size))
    return bool((r <= NARROW * m).all())


@compiled
def pack_single(x: Array, row: int, column: int, value: Array, mag: Array) -> None:
    """Single precision points at `row`, `column` of what is packed, in float64, with magnitudes."""
    for g in range(x.shape[0]):
        for i in range(x.shape[1]):
            source, to, size = x[g, i], value[g, row + i], mag[g, row + i]
            for k in range(x.shape[2]):
                to[column + k] = source[k]
                size[column + k] = abs(source[k])


@compiled
def pack_read(
    bits: Array, row: int, column: int, twice: bool, value: Array, mag: Array, cut: Array, near: Array
) -> None:
    """`pack_single` of what these are the bits of, and as a tensor core reads them: by `readings.truncate_tf32` into
    `cut`, with `twice` by `readings.round_tf32` into `near` as well. One loop that looks at each number once."""
    keep, half, infinite = np.uint32(0xFFFFE000), np.uint32(0x1000), np.uint32(0x7F800000)
    positive, last = np.uint32(0x7FFFFFFF), column + bits.shape[2]
    for g in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            pattern, read = bits[g, i], cut[g, row + i, column:last]
            to, size = value[g, row + i, column:last], mag[g, row + i, column:last]
            if twice:
                other = near[g, row + i, column:last]
                for k in range(bits.shape[2]):
                    b = pattern[k]
                    to[k], size[k], read[k] = _single(b), _single(b & positive), _single(b & keep)
                    other[k] = _single((b + half) & keep if (b & infinite) != infinite else b)
            else:
                for k in range(bits.shape[2]):
                    b = pattern[k]
                    to[k], size[k], read[k] = _single(b), _single(b & positive), _single(b & keep)


@compiled
def _truncated(x: float) -> float:
    """`readings.truncate_tf32` of one number: 10 fraction bits are kept, below 2**-126 multiples of 2**-136."""
    cut = _float(_bits(x) & -0x40000000000)
    small = np.trunc(x * 2.0**136) * 2.0**-136
    return small if abs(x) < 2.0**-126 else cut


@compiled
def split_truncated(lo: Array, hi: Array, mid: Array, rad: Array) -> None:
    """Midpoint and radius (rounded up) of [lo, hi] as a tensor core reads it: reading is monotone."""
    for i in range(lo.size):
        low, high = _truncated(lo[i]), _truncated(hi[i])
        m = 0.5 * low + 0.5 * high
        r = max(high - m, m - low)
        mid[i] = m
        rad[i] = r + r * 2.0**-51


@compiled
def narrow_up(x: Array, out: Array) -> None:
    """float32 upper bounds of non-negative float64 numbers below 2**127; nonzero ones are at least 2**-126."""
    for i in range(x.size):
        v = x[i]
        out[i] = 0.0 if v == 0.0 else max(v * (1.0 + 2.0**-22), 2.0**-126)


@compiled
def multiply_intervals(alo: Array, ahi: Array, blo: Array, bhi: Array, lo: Array, hi: Array) -> None:
    """Sums over k of the exact products [alo, ahi] * [blo, bhi] (RENDER paper, Algorithm 1), in float64.

    Per product the minimum and maximum of the four end point products; where the sign of a is known two of them decide.
    The error of the two sums is within (K + 1) * GAMMA * sum of max |a| max |b|; the caller adds it.
    """
    rows, terms, columns = alo.shape[1], alo.shape[2], blo.shape[2]
    for g in range(alo.shape[0]):
        for i in range(rows):
            down, up = lo[g, i], hi[g, i]
            down[:] = 0.0
            up[:] = 0.0
            for k in range(terms):
                p, q = alo[g, i, k], ahi[g, i, k]
                if p == 0.0 and q == 0.0:
                    continue
                bl, bh = blo[g, k], bhi[g, k]
                if p >= 0.0:
                    for j in range(columns):
                        s, t = p * bl[j], q * bl[j]
                        down[j] += s if s < t else t
                        s, t = p * bh[j], q * bh[j]
                        up[j] += s if s > t else t
                elif q <= 0.0:
                    for j in range(columns):
                        s, t = p * bh[j], q * bh[j]
                        down[j] += s if s < t else t
                        s, t = p * bl[j], q * bl[j]
                        up[j] += s if s > t else t
                else:
                    for j in range(columns):
                        s, t = p * bh[j], q * bl[j]
                        down[j] += s if s < t else t
                        s, t = p * bl[j], q * bh[j]
                        up[j] += s if s > t else t


@compiled
def scale(out: Array, x: Array, inflate: float, tiny: Array) -> None:
    """out = x * inflate + tiny: an upper bound of a sum of magnitudes from its float32 or float64 value."""
    for g in range(x.shape[0]):
        for i in range(x.shape[1]):
            for j in range(x.shape[2]):
                out[g, i, j] = x[g, i, j] * inflate + tiny[g]


@compiled
def spread(lo: Array, hi: Array, radius: Array, inflate: float, tiny: Array) -> None:
    """Turns the centre in `lo` into centre -+ radius; the rounding is covered by the float64 slack of `finish`."""
    for g in range(lo.shape[0]):
        for i in range(lo.shape[1]):
            for j in range(lo.shape[2]):
                centre = lo[g, i, j]
                r = radius[g, i, j] * inflate + tiny[g]
                lo[g, i, j] = centre - r
                hi[g, i, j] = centre + r


class Parameters(NamedTuple):
    """The scalars of `finish`; `dot.rule` says what they mean. The `off_` ones are inf to leave a bound out, else 0."""

    eps: float
    growth: float
    floor: float
    floor2: float
    align: float
    rho: float
    omega: float
    leaf: float
    blocks: float
    step: float
    adds: float
    add_omega: float
    add_growth: float
    sign_growth: float
    work_relative: float
    work_power: float
    off_work: float
    depth_relative: float
    depth_power: float
    off_depth: float
    off_signs: float
    least: float
    subnormal: float
    emin_acc: float
    limit: float
    slack: float
    ulp: float
    finest: float
    cut: float
    outer: float
    far: float


class Evaluated(NamedTuple):
    """Sums of products, (slices, M, N): their ends, and those of the operands as the unit reads them (`tlo`, `thi`).

    Where they are `spread`, `lo` and `tlo` are centres, `hi` and `thi` radii to be taken times `factor` plus the
    `underflow` of the slice. `mag` times `factor` plus the slice's `tiny` bounds the sum of product magnitudes.
    """

    lo: Array
    hi: Array
    tlo: Array
    thi: Array
    mag: Array
    factor: float
    tiny: Array
    underflow: Array


class Peaks(NamedTuple):
    """Largest magnitudes of the operands by row and column (NaN: not finite), and powers of two that divide them."""

    rows: Array
    columns: Array
    row_grid: Array
    column_grid: Array


class Addends(NamedTuple):
    """Ends of the sum of the other addends; of several also the sum of magnitudes, and a power of two dividing all."""

    lo: Array
    hi: Array
    weight: Array
    grid: Array


NONE, POINT, INTERVAL, SEVERAL = range(4)
"""The addends that `finish` reads: none, one, or the sum of several."""


FLAT, LONG, SHORT = range(3)
"""How `finish` counts how partial sums grow: not at all, of any number of blocks, of up to `running.FEW`."""


@cache
def finisher(ramped: int, read: bool, addends: int, spread: bool) -> Callable[..., None]:
    """`finish` in variants, because a loop without calls and branches is vectorised.

    `ramped` (`FLAT`, `LONG`, `SHORT`) takes account of partial sums that grow block by block; worth its time where the
    accumulator is coarse.
    `read`: the operands as the unit reads them have sums of their own. `addends`: NONE, POINT, INTERVAL or SEVERAL.
    `spread`: the sums are given as centres and radii in place of the two ends.
    """

    @compiled
    def finish(sums: Evaluated, addend: Addends, peaks: Peaks, p: Parameters, out: tuple[Array, Array]) -> None:
        lo, hi, tlo, thi, mag, factor, tiny, underflow = sums
        add_lo, add_hi, weight, grid = addend
        rows, columns, row_grid, column_grid = peaks
        out_lo, out_hi = out
        eps, growth, floor, floor2 = p.eps, 1.0 + p.growth, p.floor, p.floor2
        align, rho, omega, leaf = p.align, p.rho, p.omega, p.leaf
        blocks, step, adds, add_omega = p.blocks, p.step, p.adds, p.add_omega
        add_growth, sign_growth = 1.0 + p.add_growth, 1.0 + p.sign_growth
        work_relative, work_power, off_work = p.work_relative, p.work_power, p.off_work
        depth_relative, depth_power, off_depth = p.depth_relative, p.depth_power, p.off_depth
        off_signs, least, subnormal, emin_acc = p.off_signs, p.least, p.subnormal, p.emin_acc
        limit, slack, ulp, finest, cut_at = p.limit, p.slack, 0.5 * p.ulp, p.finest, p.cut
        outer, far = p.outer, p.far
        first, each_block = 1.0 if step == 1.0 else 0.0, 1.0 if ramped else blocks
        part, share = blocks if ramped else 1.0, max(each_block, 1.0)
        steps = 2.0**-51 if slack > 0.0 else 0.0
        work_full, depth_full, grown = 1.0 + work_relative, 1.0 + depth_relative, sign_growth * (1.0 + 2.0**-50)
        for g in range(lo.shape[0]):
            for i in range(lo.shape[1]):
                row, coarse = rows[g, i], row_grid[g, i]
                at = min(i, add_lo.shape[1] - 1) if addends else 0  # one row may stand for all
                for j in range(lo.shape[2]):
                    m, c, column = mag[g, i, j] * factor + tiny[g], 0.0, columns[g, j]
                    low, high = lo[g, i, j], hi[g, i, j]
                    if spread:
                        r = high * factor + underflow[g]
                        low, high = low - r, low + r
                    if read:
                        less, more = tlo[g, i, j], thi[g, i, j]
                        if spread:
                            r = more * factor + underflow[g]
                            less, more = less - r, less + r
                        low, high = min(low, less), max(high, more)
                    if addends:
                        less, more = add_lo[g, at, j], add_hi[g, at, j]
                        low, high = low + less, high + more
                        c = weight[g, at, j] if addends == SEVERAL else max(abs(less), abs(more))
                    s = m * growth + c
                    ends = row + column
                    operand = eps * m + floor * ends + floor2
                    loose = s * slack
                    low, high = low - operand, high + operand
                    # The largest partial sum: R of exact sums, `top` of computed ones.
                    reach = min(s, 0.5 * (s + (max(-low, high) + loose)))
                    peak = row * column * growth
                    wide = max(emin_acc, max(least * max(least, max(row, column)) * growth, subnormal * peak))
                    err = reach * work_relative + leaf * s * work_full + add_omega * work_full
                    err += work_power * ((align + outer) * max(0.0, wide - reach) + omega)
                    top = reach * add_growth + err
                    # Multiples of q: what is aligned is not cut, and where they all fit the sums are exact.
                    q = coarse * column_grid[g, j]
                    if addends == POINT:
                        q = min(q, last_bit(add_lo[g, at, j]))
                    elif addends == INTERVAL:
                        q = 0.0
                    elif addends == SEVERAL:
                        q = min(q, grid[g, at, j])
                    whole = 0.0 if q >= cut_at * power_floor(max(top, wide)) else 1.0
                    fits = (q >= cut_at * power_floor(max(reach, wide))) & (q >= ulp * reach) & (q >= finest)
                    if ramped:
                        start = (c + first * peak) * add_growth + err + leaf * s
                        each = max(step * peak * add_growth, 2.0**-1000)
                        if ramped == SHORT:
                            units, cut = short_ramp(blocks, start, each, top, power_floor(wide))
                        elif top < limit:
                            units, cut = ramp(blocks, start, each, top, power_floor(wide))
                        else:
                            units, cut = 0.0, 0.0
                    else:
                        units, cut = power_floor(top), power_floor(max(top, wide))
                    among = min(cut, part * power_floor(max(min(top, peak + far), wide)))
                    among = min(among, m * growth / share + part * wide + far)
                    local = (align * each_block) * (among * whole) + (outer * each_block) * cut
                    local += (rho * each_block) * units + blocks * omega + leaf * s
                    local += adds * power_floor(top) + add_omega
                    deep = s * depth_relative + depth_power * ((align + outer) * max(0.0, wide - s) + omega)
                    deep += add_omega * depth_full
                    err = 0.0 if fits else min(local, min(err + off_work, deep + off_depth))
                    rest = 0.0 if fits else loose + err * 2.0**-48
                    x = max(low - err, -(0.5 * (s - low + loose) * grown + add_omega + off_signs))
                    y = min(high + err, 0.5 * (s + high + loose) * grown + add_omega + off_signs)
                    x -= (rest + abs(x) * steps) if (slack > 0.0) & (not fits) else 0.0
                    y += (rest + abs(y) * steps) if (slack > 0.0) & (not fits) else 0.0
                    inside, zero = (top < limit) & (ends == ends), (s == 0.0) & (ends == ends)
                    out_lo[g, i, j] = 0.0 if zero else x if inside else math.nan
                    out_hi[g, i, j] = 0.0 if zero else y if inside else math.nan

    finish.__doc__ = """The bound around the hull of [lo, hi] and [tlo, thi], plus [add_lo, add_hi], as proved in `dot`.

    What `spread` sums are is said in `Evaluated`; their rounding is covered by the float64 slack.
    Results that may overflow the accumulator, and lanes with non-finite operands, become NaN in both ends; a sum whose
    terms are all exactly zero stays exactly zero.
    """
    return finish
