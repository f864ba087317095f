"""Scans by the combine function (a, b), (c, d) -> (a c, b c + d): the linear recurrence h_j = a_j h_(j-1) + b_j.

Hardware combines neighbouring ranges in an order of its choice, so a bound has to hold for every bracketing.
"""

from __future__ import annotations

import numpy as np

from interval_ops.bounds import Pair
from interval_ops.compiled import compiled
from interval_ops.formats.model import FP32, Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.rule import sum_cause
from interval_ops.reduction.scan import along, back


def linear(a: Pair, b: Pair, axis: int, reverse: bool, fmt: Format, profile: Profile) -> Pair:
    """All prefixes h_j, h_0 = b_0, of operands of one full shape; NaN in both ends where an overflow is possible.

    h_j is the sum over i <= j of b_i a_(i+1) ... a_j. In any bracketing a term passes at most j - i multiplications
    and one addition for each of at most j merges, each with a factor (1 + d), |d| <= u (fma: fewer). With
    M_j = |a_j| M_(j-1) + |b_j| the error is at most gamma_(2j) M_j, gamma_k = k u / (1 - k u) (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., lemma 3.1), plus what underflow loses in at most 2j products, each
    carried on by the products of some range of |a|. A common mistake: the bound of one bracketing, say a tree of
    blocks, which the sequential scan of another layout leaves.
    """
    muted = profile.muted(sum_cause(fmt))
    u = 0.0 if muted else fmt.u + (FP32.u * (1 + fmt.u) if fmt.p < 24 else 0.0)
    eta = 0.0 if muted else max(fmt.half_subnormal, 2.0**-1074)
    a_lo, a_hi, b_lo, b_hi = (along(x, axis, reverse) for x in (*a, *b))
    lo, hi = np.empty((2, *a_lo.shape))
    _prefixes(a_lo, a_hi, b_lo, b_hi, lo, hi, u, eta, fmt.max)
    shape = a[0].shape
    return back(lo, shape, axis, reverse), back(hi, shape, axis, reverse)


@compiled
def _prefixes(a_lo, a_hi, b_lo, b_hi, out_lo, out_hi, u, eta, limit):  # type: ignore[no-untyped-def]
    up = 1.0 + 2.0**-50
    tiny = 2.0**-1070
    for o in range(a_lo.shape[0]):
        for c in range(a_lo.shape[2]):
            low, high, mag, most, reach, far = 0.0, 0.0, 0.0, 0.0, 1.0, 1.0
            good = True
            for j in range(a_lo.shape[1]):
                al, ah, bl, bh = a_lo[o, j, c], a_hi[o, j, c], b_lo[o, j, c], b_hi[o, j, c]
                am, bm = max(abs(al), abs(ah)), max(abs(bl), abs(bh))
                good = good and am + bm < np.inf and al == al and ah == ah and bl == bl and bh == bh
                if j == 0:
                    low, high, mag = bl, bh, bm
                else:
                    p, q, r, s = al * low, al * high, ah * low, ah * high
                    low, high = min(min(p, q), min(r, s)) + bl, max(max(p, q), max(r, s)) + bh
                    mag = (am * mag + bm) * up + tiny
                    # The product and the sum are each rounded to nearest: |h| <= mag, so this covers both.
                    low, high = low - mag * 2.0**-51 - tiny, high + mag * 2.0**-51 + tiny
                most = max(most, mag)
                reach = max(1.0, reach * am * up)
                far = max(far, reach)
                roundings = 2.0 * j * u
                good = good and roundings < 0.5
                gamma = roundings / (1.0 - roundings) * up
                lost = 2.0 * j * eta * far * (1.0 + most) * (1.0 + gamma)
                error = (gamma * mag + lost) * up
                if not good or not (most + error) * (1.0 + gamma) < limit or not far * (1.0 + gamma) < limit:
                    good = False
                    out_lo[o, j, c] = out_hi[o, j, c] = np.nan
                elif error == 0.0:
                    out_lo[o, j, c], out_hi[o, j, c] = low, high
                else:
                    out_lo[o, j, c], out_hi[o, j, c] = (low - error) - mag * 2.0**-52, (high + error) + mag * 2.0**-52
