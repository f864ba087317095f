r"""Reductions by pairs of a maximum and a sum of exponentials: (m, s) of two parts give those of both.

    M = max(m_a, m_b),   S = s_a b^(m_a - M) + s_b b^(m_b - M),   b = e or 2,   s >= 0

In exact arithmetic every order and grouping gives M = max m_i and S = sum s_i b^(m_i - M). On its way leaf i passes at
most D merges (n - 1; log2 n in a balanced tree), and every merge multiplies what it holds by 1 + d of a product, an
addition and an exponential, |d| <= u, u, r. The exponential's argument m - M is off by a relative u, so that the power
is off by the factor b^(u |m - M|); maxima along a path only grow, so these differences add up to M - m_i, and with them
all these factors to b^(u (M - m_i)). With r the relative error at the largest difference, where it is largest,

    |fl(S_i) - S_i| <= S_i ((1 + u)^(2D) (1 + r)^D b^(u (M - m_i)) - 1),   S_i = s_i b^(m_i - M).

A power that is subnormal may be flushed: then a leaf counts nothing below, and above each merge adds at most the
smallest normal number times what it scales. Products contracted into the addition are rounded less often.
Source: Higham, Accuracy and Stability, 2nd ed., sec. 3.1, 4.2; Blanchard, Higham, Higham, IMA J. Numer. Anal. 41, 2021.
A common mistake: evaluating one tree in interval arithmetic, where another order has another result.
"""

from __future__ import annotations

import math

import numpy as np

from interval_ops.bounds import Pair
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.functions.elementary import unary
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.scan import along


def reduce_axis(m: Pair, s: Pair, axis: int, fmt: Format, profile: Profile, base: str) -> tuple[Pair, Pair] | None:
    """Bounds of (M, S) over `axis`, which is removed; None where the rule does not hold.

    Operands have one full shape; `base` names the exponential. The rule needs fp32 or fp64, finite m (-inf less itself
    is NaN) and finite s >= 0.
    """
    if fmt not in (FP32, FP64):
        return None
    ml, mh, sl, sh = (along(x, axis, False) for x in (*m, *s))
    if not all(np.isfinite(x).all() for x in (ml, mh, sl, sh)) or not (sl >= 0).all():
        return None
    shape, n = m[0].shape[:axis] + m[0].shape[axis + 1 :], ml.shape[1]
    rate = math.log(2.0) if base == "exp2" else 1.0
    depth = float((n - 1).bit_length()) if profile.trees else n - 1.0
    low, high = ml.max(1, keepdims=True), mh.max(1, keepdims=True)
    with np.errstate(all="ignore"):
        far, near = ml - high, np.minimum(mh - low, 0.0)  # m_i - M
        step = _merge(fmt, profile, base, float(-far.min()))
        tilt, slack = (0.0 if profile.muted("arith") else fmt.u * 1.01) * rate, (n + 16) * 2.0**-51
        merged = depth * math.log1p(step) + slack
        err = np.expm1(np.minimum(merged - tilt * far, 700.0)) + slack
        flushed = 0.0 if profile.muted("function") else 2.0 * fmt.min_normal
        least = np.where(rate * far < math.log(fmt.min_normal) + 1.0, 0.0, sl * np.exp(rate * far))
        lower = (least * np.maximum(1.0 - err, 0.0)).sum(1)
        upper = (sh * np.exp((rate - tilt) * near + merged) * (1.0 + slack)).sum(1)
        upper = upper + n * flushed * (1.0 + upper + sh.sum(1))
        bad = ~(upper < fmt.max / 2)
    lower, upper = (np.where(bad, np.nan, x) for x in (lower, upper))
    return (low.reshape(shape), high.reshape(shape)), (lower.reshape(shape), upper.reshape(shape))


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
