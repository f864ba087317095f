r"""Reductions by a maximum and sums of exponentials: (m, s, ..) of two parts give those of both.

    M = max(m_a, m_b),   S = s_a b^(m_a - M) + s_b b^(m_b - M),   b = e or 2

In exact arithmetic every order and grouping gives M = max m_i and S = sum s_i b^(m_i - M). On its way leaf i passes at
most D merges (n - 1; log2 n in a balanced tree), and every merge multiplies what it holds by 1 + d of a product, an
addition and an exponential, |d| <= u, u, r. The exponential's argument m - M is off by a relative u, so that the power
is off by the factor b^(u |m - M|); maxima along a path only grow, so these differences add up to M - m_i, and with them
all these factors to b^(u (M - m_i)). With r the relative error at the largest difference, where it is largest,

    |fl(S_i) - S_i| <= |S_i| ((1 + u)^(2D) (1 + r)^D b^(u (M - m_i)) - 1),   S_i = s_i b^(m_i - M).

A leaf of m_i = -inf counts nothing beside one that is larger; two of them give NaN, if they ever meet.
A power that is subnormal may be flushed: then a leaf may count nothing, and each merge errs by at most the smallest
normal number times what it scales. Products contracted into the addition are rounded less often.
Source: Higham, Accuracy and Stability, 2nd ed., sec. 3.1, 4.2; Blanchard, Higham, Higham, IMA J. Numer. Anal. 41, 2021.
A common mistake: evaluating one tree in interval arithmetic, where another order has another result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from interval_ops.bounds import Array, Pair
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.functions.elementary import unary
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.scan import along


def reduce_axis(
    m: Pair, sums: Sequence[Pair], axis: int, fmt: Format, profile: Profile, base: str, ordered: bool = False
) -> tuple[Pair, list[Pair]] | None:
    """Bounds of M and of each S over `axis`, which is removed; None where the rule does not hold.

    Operands have one full shape; `base` names the exponential. `ordered`: operands keep their order, so that only
    neighbours merge. The rule needs fp32 or fp64, finite s, and m that is finite, or -inf where no two of these may
    merge (-inf less itself is NaN); ordered rows with such neighbours have NaN for the bounds of their sums.
    """
    if fmt not in (FP32, FP64):
        return None
    ml, mh = (along(x, axis, False) for x in m)
    empty = mh == -np.inf
    if not (np.isfinite(ml) | empty).all() or not (np.isfinite(mh) | empty).all():
        return None
    if not ordered and (empty.sum(1) > 1).any():
        return None
    low, high = ml.max(1, keepdims=True), mh.max(1, keepdims=True)
    shape = m[0].shape[:axis] + m[0].shape[axis + 1 :]
    if ml.shape[1] == 1:
        return (ml.reshape(shape), mh.reshape(shape)), [(lo.reshape(shape), hi.reshape(shape)) for lo, hi in sums]
    with np.errstate(all="ignore"):
        weights = _weights(ml - high, np.minimum(mh - low, 0.0), fmt, profile, base)
        found = [_sum(along(lo, axis, False), along(hi, axis, False), weights, fmt, profile) for lo, hi in sums]
    lost = np.where(_meet(empty), np.nan, 0.0)
    known = [((lo + lost).reshape(shape), (hi + lost).reshape(shape)) for lo, hi in filter(None, found)]
    return ((low.reshape(shape), high.reshape(shape)), known) if len(known) == len(found) else None


def _meet(empty: Array) -> Array:
    found: Array = (empty[:, 1:] & empty[:, :-1]).any(1)
    return found


def _weights(far: Array, near: Array, fmt: Format, profile: Profile, base: str) -> Pair:
    """What leaf i is multiplied with on its way, at least and at most, m_i - M in [far, near]."""
    n = far.shape[1]
    rate = math.log(2.0) if base == "exp2" else 1.0
    depth = float((n - 1).bit_length()) if profile.trees else n - 1.0
    step = _merge(fmt, profile, base, float(-far.min(where=np.isfinite(far), initial=0.0)))
    tilt, slack = (0.0 if profile.muted("arith") else fmt.u * 1.01) * rate, (n + 16) * 2.0**-51
    merged = depth * math.log1p(step) + slack
    err = np.expm1(np.minimum(merged - tilt * far, 700.0)) + slack
    least = np.where(rate * far < math.log(fmt.min_normal) + 1.0, 0.0, np.exp(rate * far))
    return least * np.maximum(1.0 - err, 0.0), np.exp((rate - tilt) * near + merged) * (1.0 + slack)


def _sum(lo: Array, hi: Array, weights: Pair, fmt: Format, profile: Profile) -> Pair | None:
    """Bounds of the sum of s_i times its weight; NaN where it may overflow."""
    if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
        return None
    (least, most), n = weights, lo.shape[1]
    size = np.maximum(np.abs(lo), np.abs(hi))
    whole = (size * most).sum(1)
    flushed = 0.0 if profile.muted("function") else 2.0 * fmt.min_normal
    slack = n * flushed * (1.0 + whole + size.sum(1)) + (n + 4) * 2.0**-52 * whole
    lower = (lo * np.where(lo >= 0, least, most)).sum(1) - slack
    upper = (hi * np.where(hi >= 0, most, least)).sum(1) + slack
    lower = np.where((lo >= 0).all(1), np.maximum(lower, 0.0), lower)
    bad = ~(whole + slack < fmt.max / 2)
    return np.where(bad, np.nan, lower), np.where(bad, np.nan, upper)


def _merge(fmt: Format, profile: Profile, base: str, reach: float) -> float:
    """Relative error of a product, an addition and an exponential whose argument is not below -reach."""
    u = 0.0 if profile.muted("arith") and profile.muted("accumulation") else fmt.u
    rate = math.log(2.0) if base == "exp2" else 1.0
    largest = min(reach, -(math.log(fmt.min_normal) + 1.0) / rate)
    places = np.array([-largest, -0.5 * largest, 0.0])
    lo, hi = unary(base, (places, places), fmt, profile)
    exact = np.exp(rate * places)
    r = float(np.max(np.maximum(hi / exact - 1.0, 1.0 - lo / exact))) + 2.0**-48
    return (1.0 + u) ** 2 * (1.0 + r) - 1.0
