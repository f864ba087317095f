r"""Reductions by the combine function of Chan, Golub and LeVeque: (mean, M2, weight) of two parts give those of both.

    d = mean_b - mean_a,  w = w_a + w_b,  r = w_b / w
    mean = mean_a + d r,  M2 = M2_a + M2_b + d d w_a r

Weights are exact integers, so w is exact. Notation: u unit roundoff, e_d error of a division, R the range and X the
largest magnitude of the inputs (those of weight 0 included, for they meet the others), e the largest error of a mean.

Mean. The exact mean of both parts is (1 - r) mean_a + r mean_b, so errors are averaged and each merge adds at most

    A = c (R + 2e) + u (X + e + c (R + 2e)) + 2 eta,   c = (1 + u)^2 (1 + e_d) - 1.

With the mean as (w_a mean_a + w_b mean_b) / w the first R is X: two products, an addition, a division.
Along a path of at most D merges (a balanced tree) that gives e <= D A. In any order the average helps: w e is at most
A times the sum of w over all merges, which a chain makes largest: with n equal weights e <= ((n + 1)/2 + z) A, where z
counts weights of 0 (whose merges average nothing); with other weights e <= (N - 1) A.

M2. The sum over all merges of h D^2, h = w_a w_b / w, D the difference of the exact means, is the exact scatter M0 in
every order. A computed d is at most eta_d = 2e + u (R + 2e) off, so by Minkowski's inequality the computed sum lies
between (sqrt(M0) -+ eta_d sqrt(H))^2, H = sum h <= W log2(W) / 4 (by the entropy inequality H2(p) >= 4 p (1 - p)), or
depth W / 4 in a balanced tree; then its own roundings: three per product and a division, two additions per merge.

Raw squares. With M2 = M2_a + w_a mean_a^2 + M2_b + w_b mean_b^2 - w mean^2 instead, Q = M2 + w mean^2 of the computed
values is Q_a + Q_b but for the roundings of that merge, whatever the error of the means. Let S = sum w x^2, t = S +
sum |M2|, b = (sqrt(S) + e sqrt(W))^2, which bounds the sums of w mean^2 over parts that share no element (Cauchy and
Minkowski). At most six roundings of a term give g (|Q_a| + |Q_b| + 2 (w_a mean_a^2 + w_b mean_b^2) + w mean^2) a merge,
g = 6 u / (1 - 6 u), so over K merges in a chain, or K levels of a tree, |Q - exact| <= E = K g (t + 3 b) / (1 - K g).
At the end M2 = Q - W mean^2 is E + W e (2 |mean| + e) off.

Source: Chan, Golub, LeVeque, Algorithms for Computing the Sample Variance, Am. Stat. 37 (1983), for the formula. A
common mistake: evaluating one tree in interval arithmetic, where mean_a occurs twice: its width doubles at every level,
and another tree leaves it all the same.
"""

from __future__ import annotations

import numpy as np

from interval_ops.bounds import Array, Pair
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.scan import along

_UP = 1.0 + 2.0**-40


def reduce_axis(
    mean: Pair,
    m2: Pair,
    weight: Array,
    axis: int,
    fmt: Format,
    profile: Profile,
    guarded: bool,
    weighted: bool = False,
    raw: bool = False,
) -> tuple[Pair, Pair] | None:
    """Bounds of (mean, M2) over `axis`, which is removed; None where the rule does not hold.

    Operands have one full shape; `weight` are exact values. `guarded`: r is 0 where w is 0. `weighted`: the mean is
    (w_a mean_a + w_b mean_b) / w instead, 0 if guarded and w is 0; `raw`: and M2 by raw squares, with max(w, 1) for w.
    The rule needs fp32 or fp64, weights that are integers of 0 and more, and a total that the format holds exactly.
    Rows with operands that are not finite, or where a step may overflow, get NaN in both ends.
    """
    if fmt not in (FP32, FP64):
        return None
    xl, xh, sl, sh, w = (along(x, axis, False) for x in (*mean, *m2, weight))
    total = w.sum(1)
    if not (np.isfinite(w).all() and (w >= 0).all() and (w == np.rint(w)).all() and (total <= 2.0**fmt.p).all()):
        return None
    with np.errstate(all="ignore"):
        rounding = Rounding(fmt, profile, weighted)
        reach = np.maximum(np.abs(xl), np.abs(xh)).max(1)
        spread = xh.max(1) - xl.min(1)
        depth = np.ceil(np.log2(w.shape[1])) if profile.trees else None
        off = rounding.of_mean(_merges(w), spread, reach, depth)
        low, high = _means(xl, xh, w, total, reach, off)
        if weighted and guarded:  # 0 over what stands for w, of no weight at all
            low, high = (
                np.where(total == 0, pick(end, 0), end) for pick, end in ((np.minimum, low), (np.maximum, high))
            )
        if raw:
            bottom, top = _raw_squares((xl, xh), (sl, sh), w, total, reach, off, rounding, depth)
        else:
            bottom, top = _scatter((xl, xh), (sl, sh), w, total, spread, reach, off, rounding, depth)
        good = np.isfinite(off + top) & (4 * ((spread + off) ** 2 + reach) * (total + 1) + top < fmt.max)
        zeroed = weighted and guarded and bool((w == 0).any())  # a mean of 0 beside the others: d is one of these
        good &= 4 * (reach + off) ** 2 * (total + 1) < (fmt.max if raw or zeroed else np.inf)
        good &= np.isfinite(xl + xh + sl + sh).all(1)
        if not guarded:
            good &= (w == 0).sum(1) < 2
        ends = [np.where(good, end, np.nan) for end in (low, high, bottom, top)]
    shape = mean[0].shape[:axis] + mean[0].shape[axis + 1 :]
    low, high, bottom, top = (end.reshape(shape) for end in ends)
    return (low, high), (bottom, top)


class Rounding:
    """The errors of one merge in a format, all zero where accumulation is muted."""

    def __init__(self, fmt: Format, profile: Profile, weighted: bool) -> None:
        muted = profile.muted("accumulation")
        self.weighted = weighted
        self.u = 0.0 if muted else fmt.u
        self.eta = 0.0 if muted else max(fmt.half_subnormal, 2.0**-1074)
        error = profile.fn("div", fmt.name)
        # A share of at least 2^-p: an absolute error counts for so much more.
        self.division = 0.0 if muted else max(error.r + error.a * 2.0**fmt.p, fmt.u)
        self.c = ((1 + self.u) ** 2 * (1 + self.division) - 1) * _UP

    def of_mean(self, merges: Array | float, spread: Array, reach: Array, depth: float | None) -> Array:
        """e: the largest error of a computed mean, over all ways to merge (or all trees of that depth)."""
        u, c = self.u, self.c
        base = c * (reach if self.weighted else spread) * (1 + u) + u * reach + 4 * self.eta
        again = (2 * c + u + 2 * u * c) * _UP
        if depth is not None:
            off: Array = np.zeros_like(spread)
            for _ in range(int(depth)):
                off = (off * (1 + again) + base) * _UP
            return off
        return np.where(merges * again < 0.5, merges * base / (1 - merges * again) * _UP, np.inf)


def _merges(w: Array) -> Array:
    """The sum of w over all merges of a chain, in units of the weight of all."""
    n, zeros = w.shape[1], (w == 0).sum(1)
    largest = w.max(1)
    equal = ((w == 0) | (w == largest[:, None])).all(1)
    found: Array = np.where(equal, np.minimum(n - 1, (n - zeros + 1) / 2 + zeros), n - 1)
    return found


def _means(xl: Array, xh: Array, w: Array, total: Array, reach: Array, off: Array) -> Pair:
    """The exact weighted mean of the ends, and the error around it; of no weight at all, any of the inputs."""
    slack = (w.shape[1] + 4) * 2.0**-52 * reach
    low, high = ((w * x).sum(1) / np.maximum(total, 1) for x in (xl, xh))
    empty = total == 0
    low, high = np.where(empty, xl.min(1), low), np.where(empty, xh.max(1), high)
    return low - (off + slack) * _UP, high + (off + slack) * _UP


def _scatter(
    x: Pair, m2: Pair, w: Array, total: Array, spread: Array, reach: Array, off: Array, rounding: Rounding,
    depth: float | None,
) -> Pair:  # fmt: skip
    """Bounds of the computed M2."""
    sl, sh = m2
    sums = sl.sum(1), sh.sum(1), np.maximum(np.abs(sl), np.abs(sh)).sum(1)
    roots = _exact_root(*x, w, total, reach)
    return around_root(roots, sums, w.shape[1], total, spread, off, rounding, depth)


def around_root(
    roots: Pair, sums: tuple[Array | float, Array | float, Array | float], n: int, total: Array, spread: Array,
    off: Array, rounding: Rounding, depth: float | None,
) -> Pair:  # fmt: skip
    """The computed M2 of n elements, from the root of its exact value; `sums` of the ends and magnitudes before."""
    u, (root_low, root_high), (low, high, held) = rounding.u, roots, sums
    levels = np.log2(np.maximum(total, 1)) if depth is None else depth
    wrong = (2 * off + u * (spread + 2 * off)) * np.sqrt(total * levels / 4) * _UP
    product = ((1 + u) ** 3 * (1 + rounding.division) - 1) * _UP
    between_low = np.maximum(root_low - wrong, 0) ** 2 * (1 - product)
    between_high = (root_high + wrong) ** 2 * (1 + product) * _UP
    adds = 2 * (n - 1 if depth is None else depth) * u
    relative = (adds / (1 - adds) if adds < 0.5 else np.inf) + (2 * n + 8) * 2.0**-52
    size = held + between_high
    lost = (relative * size + 2 * n * rounding.eta * (total + 2)) * _UP
    return low + between_low - lost, high + between_high + lost


def _raw_squares(
    x: Pair, m2: Pair, w: Array, total: Array, reach: Array, off: Array, rounding: Rounding, depth: float | None
) -> Pair:
    """Bounds of the computed M2 by raw squares."""
    n, u = w.shape[1], rounding.u
    sl, sh = m2
    root_low, root_high = _exact_root(*x, w, total, reach)
    squares = (w * np.maximum(np.abs(x[0]), np.abs(x[1])) ** 2).sum(1) * (1 + (n + 4) * 2.0**-52)
    size = squares + np.maximum(np.abs(sl), np.abs(sh)).sum(1)
    means = (np.sqrt(squares) + off * np.sqrt(total)) ** 2 * _UP
    grown = (n - 1 if depth is None else depth) * 6 * u / (1 - 6 * u) * _UP
    lost = np.where(grown < 0.5, grown / (1 - grown) * (size + 3 * means), np.inf)
    lost += total * off * (2 * reach + 3 * off) + 8 * n * rounding.eta * (1 + reach + off) * (total + 1)
    lost = (lost + (2 * n + 16) * 2.0**-52 * (size + root_high**2)) * _UP
    return sl.sum(1) + root_low**2 - lost, sh.sum(1) + root_high**2 + lost


def _exact_root(xl: Array, xh: Array, w: Array, total: Array, reach: Array) -> Pair:
    """Bounds of the root of the exact scatter sum w (x - mean)^2: a seminorm of x, so by its midpoints and radii."""
    mid = 0.5 * xl + 0.5 * xh
    rad = np.maximum(xh - mid, mid - xl) * _UP
    mean = ((w * mid).sum(1) / np.maximum(total, 1))[:, None]
    n = w.shape[1]
    root = np.sqrt((w * (mid - mean) ** 2).sum(1))
    room = np.sqrt((w * rad**2).sum(1)) + np.sqrt(total) * (n + 6) * 2.0**-52 * reach + root * (n + 8) * 2.0**-52
    return np.maximum(root - room * _UP, 0), root + room * _UP
