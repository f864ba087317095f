"""Floating-point atomic additions: what memory may hold after `count` adds in an unknown order."""

from __future__ import annotations

import numpy as np

from interval_ops.bounds import Array, Pair
from interval_ops.formats.model import FP32, Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.rule import rounding_unit, sum_cause
from interval_ops.reduction.running import stagnation


def close_sum(
    base: Array | Pair, sum_lo: Array, sum_hi: Array, mag: Array, count: Array, fmt: Format, profile: Profile
) -> Pair:
    r"""Bounds of base + sum of `count` addends, each added with one rounding to `fmt`, in any order.

    |fl - exact| <= ((1 + u)^count - 1)(|base| + sum |x|), and at most `count` times the unit of the binade of the
    largest partial sum, which lies between base plus all that is negative and base plus all that is positive. The first
    add to a base of 0 gives its addend, without a rounding: one less is counted, and one addend alone is the sum. fp32
    adds of a flushing target lose up to 2^-126 each as well (PTX ISA 8: global atom.add.f32 flushes subnormal inputs
    and results). `sum_lo`, `sum_hi` are float64 sums of the ends of the addends and `mag` the sum of the larger
    magnitudes of their finite ends, accumulated in any order; `base` is a pair, or an array of points. Muted: cause
    "accumulation" ("lowacc" below fp32). Half lines or top where a sum may overflow; `_endless` where addends are
    infinite.
    A common mistake: one rounding for the total instead of one per add (8-way fp16 split-K).
    """
    base_lo, base_hi = base if isinstance(base, tuple) else (base, base)
    low_in, high_in = np.asarray(base_lo, np.float64), np.asarray(base_hi, np.float64)
    n = np.asarray(count, np.float64)
    empty = (low_in == 0) & (high_in == 0)
    roundings = np.where(empty, np.maximum(n - 1, 0), n)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.maximum(np.abs(low_in), np.abs(high_in)) + mag
        muted = profile.muted(sum_cause(fmt))
        u = 0.0 if muted else rounding_unit(fmt)
        flush = FP32.min_normal if fmt.bits == 32 and profile.atomic_flush_fp32 and not muted else 0.0
        # as `kernels.sum_growth`
        growth = np.minimum(np.expm1(roundings * u) * (1 + 2.0**-40), roundings * u * (1 + 2.0**-9))
        growth = np.minimum(growth, stagnation(roundings, u))
        # Our own float64 sums: n + 1 additions here and before, of values and of magnitudes; four operations more.
        own = (n + 5) * 2.0**-53 * (1 + 2 * growth) * total + 2 * n * flush * (1 + growth)
        most = np.maximum(high_in + 0.5 * (sum_hi + mag), 0.5 * (mag - sum_lo) - low_in)
        top = (np.maximum(most, 0.0) + growth * total + own) * (1 + 2.0**-48)
        binade = np.ldexp(1.0, np.frexp(np.where(top < np.inf, top, 0.0))[1] - 1)
        charged = np.minimum(growth * total, np.where(top < np.inf, roundings * u * (1 + 2.0**-40) * binade, np.inf))
        # Nothing is flushed: beyond the subnormals, or zero.
        kept = (flush == 0) | (np.maximum(sum_lo, -np.asarray(sum_hi)) >= flush) | ((sum_lo == 0) & (sum_hi == 0))
        margin = np.where((n == 0) | ((n == 1) & empty & kept), 0.0, charged + own)
        lo, hi = low_in + sum_lo - margin, high_in + sum_hi + margin
        limit = fmt.max if fmt.bits == 64 else fmt.overflow_threshold
        fits = top + margin < limit
        never_negative = (
            (low_in >= 0) & (np.asarray(sum_lo) >= mag * (1 - 2.0**-20)) & (np.asarray(sum_lo) >= 0) & (mag < np.inf)
        )
        never_positive = (
            (high_in <= 0) & (np.asarray(sum_hi) <= -mag * (1 - 2.0**-20)) & (np.asarray(sum_hi) <= 0) & (mag < np.inf)
        )
    lo, hi = _overflowed(lo, hi, fits | (n == 0), never_negative, never_positive)
    ends = np.broadcast_arrays(low_in, high_in, sum_lo, sum_hi)
    endless = (n > 0) & np.isinf(ends).any(axis=0)
    if endless.any():
        bounds, added = (tuple(np.broadcast_to(x, endless.shape)[endless] for x in some) for some in (
            ends, (mag, n, growth)))  # fmt: skip
        lo[endless], hi[endless] = _endless(bounds, added, flush, limit)
    return lo, hi


def _endless(bounds: tuple[Array, ...], added: tuple[Array, ...], flush: float, limit: float) -> Pair:
    """As `reduction.endless`: an infinite addend is the sum, if no finite ones can make the other infinity; one that
    may be infinite leaves what the sum of the other ends gives, for additions are monotone. `added`: magnitudes of the
    finite ends, count, growth."""
    low, high, sum_lo, sum_hi = bounds
    upward, downward = (high == np.inf) | (sum_hi == np.inf), (low == -np.inf) | (sum_lo == -np.inf)
    with np.errstate(invalid="ignore"):
        sides = _least(low, sum_lo, added, flush, limit), _least(-high, -sum_hi, added, flush, limit)
    known = (upward != downward) & ~np.isnan(low + high) & ~np.isnan(sum_lo) & ~np.isnan(sum_hi)
    lo = np.where(known, np.where(upward, sides[0], -np.inf), np.nan)
    hi = np.where(known, np.where(upward, np.inf, -sides[1]), np.nan)
    top = np.isnan(lo) | np.isnan(hi)
    return np.where(top, np.nan, lo), np.where(top, np.nan, hi)


def _least(base: Array, total: Array, added: tuple[Array, ...], flush: float, limit: float) -> Array:
    """Lower end of base + total, lower ends of which none is -inf; NaN where a partial sum may be."""
    mag, n, growth = added
    known, finite = np.where(np.isinf(base), 0.0, base), np.isfinite(total)
    size = np.abs(known) + mag
    lost = growth * size + (n + 5) * 2.0**-53 * (1 + 2 * growth) * size + 2 * n * flush * (1 + growth)
    against = np.maximum(-known, 0.0) + np.where(finite, 0.5 * (mag - total), mag)  # magnitudes of negative ends
    low = np.where(np.isinf(base) | ~finite, np.inf, known + np.where(finite, total, 0.0) - lost)
    return np.where(against + np.where(against > 0, lost, 0.0) < limit, low, np.nan)


def _overflowed(lo: Array, hi: Array, fits: Array, positive: Array, negative: Array) -> Pair:
    low = np.where(fits, lo, np.where(positive, 0.0, np.where(negative, -np.inf, np.nan)))
    high = np.where(fits, hi, np.where(positive, np.inf, np.where(negative, 0.0, np.nan)))
    top = np.isnan(low) | np.isnan(high)
    return np.where(top, np.nan, low), np.where(top, np.nan, high)
