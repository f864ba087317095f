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

from render.exact import intervals as iv
from render.exact.intervals import Interval, Maybe
from render.exact.points import (
    ONE,
    PREC,
    ZERO,
    Point,
    down,
    least,
    most,
    number,
    power,
    precision,
    shifted,
    times_down,
    times_up,
    up,
)  # fmt: skip
from render.witness.document import Operation
from render.witness.rule import fmt_of
from render.witness.sums import growth

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator


def formula(e: Evaluator, op: Operation, k: int) -> Maybe:
    """Operands: means, M2 and weights of the parts; `part` says which of the three results is meant."""
    means, squares, weights = (e.terms(op, k, place) for place in range(3))
    counts = [x[0] for x in weights if x is not None and x[0] == x[1] and x[0] >= ZERO]
    if len(counts) < len(weights) or any(x is None or iv.infinite(x) for x in (*means, *squares)):
        return None
    total, top = iv.total([(w, w) for w in counts])
    if total != top:
        return None
    if op.attrs["part"] == "weight":
        return total, total
    if not op.attrs.get("guarded") and sum(w == ZERO for w in counts) > 1:
        return None
    fmt, error = fmt_of(op), e.error("div", fmt_of(op))
    u, eta = power(-fmt.p), power(fmt.emin - fmt.p)
    division = most((u, up(number(error["r"]), times_up(number(error["a"]), power(fmt.p)))))
    off = _error_of_mean(means, counts, u, eta, division)  # type: ignore[arg-type]
    if off is None or power(fmt.p) < total:
        return None
    if op.attrs["part"] == "mean":
        found = _mean(means, counts, total)  # type: ignore[arg-type]
        return _finite(iv.spread(found, off), number(fmt.max / 4))
    out = _second(means, squares, counts, total, off, u, eta, division)  # type: ignore[arg-type]
    return _finite(out, number(fmt.max / 4))


def _finite(x: Maybe, limit: Point) -> Maybe:
    return x if x is not None and iv.magnitude(x) < limit else None


def _range(means: list[Interval]) -> tuple[Point, Point]:
    """(R, X)."""
    reach = up(most(x[1] for x in means), -least(x[0] for x in means))
    return reach, most(iv.magnitude(x) for x in means)


def _product(u: Point, division: Point, factors: int) -> Point:
    """Relative error of a product with so many roundings and one division."""
    whole = times_up(up(ONE, growth(u, factors)), up(ONE, division))
    return up(whole, -ONE)


def _merges(counts: list[Point]) -> Point:
    """m."""
    weights = [w for w in counts if w != ZERO]
    zeros = len(counts) - len(weights)
    most = number(len(counts) - 1)
    if any(w != weights[0] for w in weights):
        return most
    return least((most, shifted(number(len(weights) + 1 + 2 * zeros), -1)))


def _error_of_mean(means: list[Interval], counts: list[Point], u: Point, eta: Point, division: Point) -> Point | None:
    """e, from e <= m (A0 + A1 e)."""
    reach, size = _range(means)
    merges = _merges(counts)
    c = _product(u, division, 2)
    own = up(up(times_up(times_up(c, reach), up(ONE, u)), times_up(u, size)), times_up(number(3), eta))
    again = up(times_up(times_up(number(2), c), up(ONE, u)), u)
    rest = down(ONE, -times_up(merges, again))
    return (times_up(merges, own) / rest).upper() if rest > 0.5 else None


def _mean(means: list[Interval], counts: list[Point], total: Point) -> Interval:
    """The exact weighted mean; of no weight at all, any of the inputs."""
    if total == ZERO:
        return least(x[0] for x in means), most(x[1] for x in means)
    ends = (sum([w * x[i] for x, w in zip(means, counts, strict=True)], ZERO) / total for i in (0, 1))
    low, high = (iv.enclosed(end) for end in ends)
    assert low is not None and high is not None
    return low[0], high[1]


def _root_of_scatter(means: list[Interval], counts: list[Point], total: Point) -> Interval:
    """sqrt(M0), a seminorm of the inputs: that of their midpoints, give or take that of their radii."""
    if total == ZERO:
        return iv.NOTHING
    with precision(4 * PREC):  # sums of squares cancel
        mids = [(x[0] + x[1]) / 2 for x in means]
        first = sum([w * mid for mid, w in zip(mids, counts, strict=True)], ZERO)
        second = sum([w * mid * mid for mid, w in zip(mids, counts, strict=True)], ZERO)
        radii = [x[1] - mid for x, mid in zip(means, mids, strict=True)]
        spread = sum([w * r * r for r, w in zip(radii, counts, strict=True)], ZERO).upper().sqrt()
        square = second - first * first / total
        low, high = (most((end, ZERO)).sqrt() for end in (square.lower(), square.upper()))
    return most((ZERO, (low - spread).lower())), (high + spread).upper()


def _heads(total: Point) -> Point:
    """W log2(W) / 4, rounded up."""
    if total <= ONE:
        return ZERO
    return (total * total.log_base(2) / 4).upper()


def _second(
    means: list[Interval], squares: list[Interval], counts: list[Point], total: Point, off: Point, u: Point, eta: Point,
    division: Point,
) -> Maybe:  # fmt: skip
    """The computed M2."""
    reach, _ = _range(means)
    twice = times_up(number(2), off)
    q = up(up(twice, times_up(u, up(reach, twice))), eta)
    wrong = times_up(q, _heads(total).sqrt().upper())
    low, high = _root_of_scatter(means, counts, total)
    low, high = most((ZERO, down(low, -wrong))), up(high, wrong)
    product = _product(u, division, 3)
    low = times_down(times_down(low, low), down(ONE, -product))
    high = times_up(times_up(high, high), up(ONE, product))
    base_low = base_high = size = ZERO
    for x in squares:
        base_low, base_high = down(base_low, x[0]), up(base_high, x[1])
        size = up(size, iv.magnitude(x))
    merges = len(means) - 1
    lost = times_up(growth(u, 2 * merges), up(size, high))
    tiny = times_up(times_up(number(3 * merges), eta), up(total, times_up(number(2), up(reach, ONE))))
    lost = up(lost, times_up(tiny, up(number(2), q)))
    return down(down(base_low, low), -lost), up(up(base_high, high), lost)
