r"""Means and sums of squares that are merged in pairs (Chan, Golub, LeVeque), whatever the order of the merges.

    d = b - a,  r = w_b / w,  mean = a + d r,  M2 = M2_a + M2_b + d d w_a r,  w = w_a + w_b

Mean. The exact mean of a part is a convex combination of the means it was merged from, so an error made in one merge
reaches the result with the share of its part in the whole. The error A of one merge grows with the error e of the means
it meets: A = c (R + 2 e) + u (X + e + c (R + 2 e)) + 3 eta, R the range and X the magnitude of the inputs, c the three
factors of d r. In any order e <= m A: w e is at most A times the sum of the weights of all merges, which is largest in
a chain; for n parts of equal weight and z of none that is m = (n + 1) / 2 + z, else m = n + z - 1.

M2. For any order the h D^2 of all merges (h = w_a w_b / w, D the exact difference) add up to the scatter
M0 = sum w (x - mean)^2. A computed d is off by at most q = 2 e + u (R + 2 e), so by Minkowski's inequality their root
is off by q sqrt(H), H = sum h. With p = w_a / w, h = w p (1 - p) <= w H2(p) / 4, H2 the binary entropy, and by its
chain rule the w H2(p) of all merges add up to the entropy of the parts, at most W log2 W: H <= W log2(W) / 4.

For a known tree the bound of the run counts levels, which this does not: nobody is accused there (`LOOSE`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmath import libmp
from mpmath.libmp import fone, from_int, fzero

from render.witness import balls as b
from render.witness.balls import PREC, Interval, Maybe, Raw
from render.witness.document import Operation
from render.witness.rule import fmt_of
from render.witness.sums import growth

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator


def formula(e: Evaluator, op: Operation, k: int) -> Maybe:
    """Operands: means, M2 and weights of the parts; `part` says which of the three results is meant."""
    means, squares, weights = (e.terms(op, k, place) for place in range(3))
    counts = [x[0] for x in weights if x is not None and x[0] == x[1] and not b.less(x[0], fzero)]
    if len(counts) < len(weights) or any(x is None or b.infinite(x) for x in (*means, *squares)):
        return None
    total = fzero
    for w in counts:
        total = libmp.mpf_add(total, w)
    if op.attrs["part"] == "weight":
        return total, total
    if not op.attrs.get("guarded") and sum(w == fzero for w in counts) > 1:
        return None
    fmt, error = fmt_of(op), e.error("div", fmt_of(op))
    u, eta = b.power(-fmt.p), b.power(fmt.emin - fmt.p)
    division = b.most((u, b.up(b.raw(error["r"]), b.times_up(b.raw(error["a"]), b.power(fmt.p)))))
    off = _error_of_mean(means, counts, u, eta, division)  # type: ignore[arg-type]
    if off is None or b.less(b.power(fmt.p), total):
        return None
    if op.attrs["part"] == "mean":
        found = _mean(means, counts, total)  # type: ignore[arg-type]
        return _finite(b.spread(found, off), b.raw(fmt.max / 4))
    out = _second(means, squares, counts, total, off, u, eta, division)  # type: ignore[arg-type]
    return _finite(out, b.raw(fmt.max / 4))


def _finite(x: Maybe, limit: Raw) -> Maybe:
    return x if x is not None and b.less(b.magnitude(x), limit) else None


def _range(means: list[Interval]) -> tuple[Raw, Raw]:
    """(R, X)."""
    reach = b.up(b.most(x[1] for x in means), libmp.mpf_neg(b.least(x[0] for x in means)))
    return reach, b.most(b.magnitude(x) for x in means)


def _product(u: Raw, division: Raw, factors: int) -> Raw:
    """Relative error of a product with so many roundings and one division."""
    whole = b.times_up(b.up(fone, growth(u, factors)), b.up(fone, division))
    return libmp.mpf_sub(whole, fone, PREC, "c")


def _merges(counts: list[Raw]) -> Raw:
    """m."""
    weights = [w for w in counts if w != fzero]
    zeros = len(counts) - len(weights)
    most = from_int(len(counts) - 1)
    if any(w != weights[0] for w in weights):
        return most
    return b.least((most, libmp.mpf_shift(from_int(len(weights) + 1 + 2 * zeros), -1)))


def _error_of_mean(means: list[Interval], counts: list[Raw], u: Raw, eta: Raw, division: Raw) -> Raw | None:
    """e, from e <= m (A0 + A1 e)."""
    reach, size = _range(means)
    merges = _merges(counts)
    c = _product(u, division, 2)
    own = b.up(b.up(b.times_up(b.times_up(c, reach), b.up(fone, u)), b.times_up(u, size)), b.times_up(from_int(3), eta))
    again = b.up(b.times_up(b.times_up(from_int(2), c), b.up(fone, u)), u)
    rest = libmp.mpf_sub(fone, b.times_up(merges, again), PREC, "f")
    return libmp.mpf_div(b.times_up(merges, own), rest, PREC, "c") if b.less(b.power(-1), rest) else None


def _mean(means: list[Interval], counts: list[Raw], total: Raw) -> Interval:
    """The exact weighted mean; of no weight at all, any of the inputs."""
    if total == fzero:
        return b.least(x[0] for x in means), b.most(x[1] for x in means)
    low = high = fzero
    for x, w in zip(means, counts, strict=True):
        low, high = libmp.mpf_add(low, libmp.mpf_mul(w, x[0])), libmp.mpf_add(high, libmp.mpf_mul(w, x[1]))
    return libmp.mpf_div(low, total, PREC, "f"), libmp.mpf_div(high, total, PREC, "c")


def _root_of_scatter(means: list[Interval], counts: list[Raw], total: Raw) -> Interval:
    """sqrt(M0), a seminorm of the inputs: that of their midpoints, give or take that of their radii."""
    mids = [libmp.mpf_shift(libmp.mpf_add(*x), -1) for x in means]
    first = second = rough = fzero
    for x, mid, w in zip(means, mids, counts, strict=True):
        first = libmp.mpf_add(first, libmp.mpf_mul(w, mid))
        second = libmp.mpf_add(second, libmp.mpf_mul(w, libmp.mpf_mul(mid, mid)))
        radius = libmp.mpf_sub(x[1], mid)
        rough = libmp.mpf_add(rough, libmp.mpf_mul(w, libmp.mpf_mul(radius, radius)))
    if total == fzero:
        return b.ZERO
    square = libmp.mpf_mul(first, first)
    ends = (libmp.mpf_sub(second, libmp.mpf_div(square, total, 4 * PREC, way), PREC, w2) for way, w2 in ("cf", "fc"))
    low, high = (libmp.mpf_sqrt(b.most((end, fzero)), PREC, way) for end, way in zip(ends, "fc", strict=True))
    spread = libmp.mpf_sqrt(rough, PREC, "c")
    return b.most((fzero, b.down(low, libmp.mpf_neg(spread)))), b.up(high, spread)


def _heads(total: Raw) -> Raw:
    """W log2(W) / 4, rounded up."""
    if not b.less(fone, total):
        return fzero
    levels = libmp.mpf_div(libmp.mpf_log(total, PREC, "c"), libmp.mpf_log(from_int(2), PREC, "f"), PREC, "c")
    room = b.up(levels, b.power(-100))
    return libmp.mpf_shift(b.times_up(total, room), -2)


def _second(
    means: list[Interval], squares: list[Interval], counts: list[Raw], total: Raw, off: Raw, u: Raw, eta: Raw,
    division: Raw,
) -> Maybe:  # fmt: skip
    """The computed M2."""
    reach, _ = _range(means)
    twice = b.times_up(from_int(2), off)
    q = b.up(b.up(twice, b.times_up(u, b.up(reach, twice))), eta)
    wrong = b.times_up(q, libmp.mpf_sqrt(_heads(total), PREC, "c"))
    low, high = _root_of_scatter(means, counts, total)
    low, high = b.most((fzero, b.down(low, libmp.mpf_neg(wrong)))), b.up(high, wrong)
    product = _product(u, division, 3)
    low = libmp.mpf_mul(libmp.mpf_mul(low, low, PREC, "f"), libmp.mpf_sub(fone, product, PREC, "f"), PREC, "f")
    high = b.times_up(b.times_up(high, high), b.up(fone, product))
    base_low = base_high = size = fzero
    for x in squares:
        base_low, base_high = b.down(base_low, x[0]), b.up(base_high, x[1])
        size = b.up(size, b.magnitude(x))
    merges = len(means) - 1
    lost = b.times_up(growth(u, 2 * merges), b.up(size, high))
    tiny = b.times_up(b.times_up(from_int(3 * merges), eta), b.up(total, b.times_up(from_int(2), b.up(reach, fone))))
    lost = b.up(lost, b.times_up(tiny, b.up(from_int(2), q)))
    return b.down(b.down(base_low, low), libmp.mpf_neg(lost)), b.up(b.up(base_high, high), lost)
