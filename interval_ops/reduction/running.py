"""What the roundings of a sum may add up to, from how large its partial sums can become, in any order of additions."""

from __future__ import annotations

import math

import numpy as np

from interval_ops.compiled import compiled, inlined
from interval_ops.formats.rounding import binade

_NORMAL = (2.0**-1022, 0.0, 0.0, 0.0)


@compiled
def power_floor(x: float) -> float:
    """The largest power of two that is at most x > 0; 2**-1022 for smaller x."""
    return binade(x, _NORMAL)


@compiled
def ramp(count: float, start: float, step: float, top: float, least: float) -> tuple[float, float]:
    """Upper bounds of the sums over b = 1 .. count of g(v_b) and max(g(v_b), least), v_b = min(top, start + b step).

    g(x) is the largest power of two <= x. One turn per power of two between v_1 and top.
    """
    power, left, plain, raised = power_floor(top), count, 0.0, 0.0
    each = (1.0 - 2.0**-48) / step
    while left > 0.0:
        many = np.floor((power - start) * each)  # that many stay below this power of two
        below = min(left, many) if many > 0.0 else 0.0
        plain += (left - below) * power
        raised += (left - below) * max(power, least)
        left, power = below, 0.5 * power
    return plain, raised


FEW = 256
"""So many sums are looked at by `short_ramp`, exactly: they lie in 10 binades."""


@inlined
def short_ramp(count: float, start: float, step: float, top: float, least: float) -> tuple[float, float]:
    """`ramp` of up to `FEW`, without branches, so that loops over elements are vectorised.

    It begins at the largest v_b. What is left after ten turns lies below the last power, and counts with it; of no
    more than `FEW` that is the binade of v_1.
    """
    largest = min(top, (start + count * step) * (1.0 + 2.0**-50))
    power, left, plain, raised = power_floor(largest), count, 0.0, 0.0
    each = (1.0 - 2.0**-48) / step
    for _ in range(10):
        below = max(min(left, np.floor((power - start) * each)), 0.0)
        plain += (left - below) * power
        raised += (left - below) * max(power, least)
        left, power = below, 0.5 * power
    return plain + left * power, raised + left * max(power, least)


@compiled
def tree_steps(whole: float, total: float, top: float, peak: float, levels: float) -> float:
    """Upper bound of the powers of two below the partial sums of a tree of `levels`, all of them added up.

    The 2^j sums j levels below the root have magnitudes of at most `whole` together; each is at most `top` and
    2^(levels - j) times `peak`, the root at most `total`.
    """
    steps, nodes, leaves = 0.0, 1.0, 2.0**levels
    for j in range(int(levels)):
        largest = max(min(min(top, leaves * peak), total if j == 0 else math.inf), 2.0**-1022)
        steps += min(whole, nodes * power_floor(largest))
        nodes, leaves = 2.0 * nodes, 0.5 * leaves
    return steps


def stagnation(n, u):  # type: ignore[no-untyped-def]
    """What n additions may err by, relative to the sum of magnitudes, in any order and grouping: (1 + c n u)^a - 1.

    An addition to nearest errs by at most k min(|x|, |y|, u |x + y|), k = 1 + 2^-9 as in `sum_growth`: where a sum is
    so large that addends stagnate, each is lost or counted twice, no more. By induction |computed| <= M / L(m), M the
    magnitudes of m addends and L(m) = z(m)^-a, z(m) = 1 + c (m - 1) u, for every a with c u <= 1 and
    c = ((1 + k) / (1 + a))^((1 + a) / a) / (1 - u). The smaller operand of the root, of j addends, is a share t of both
    computed sizes; the claim is linear in t below u and above it hardest at t = u:
    (1 - u) L(m - j) + u L(j) >= (1 + k u) L(m). L is convex and z(j) <= j, so with w = z(m) / z(j) it follows from
    (1 - u) a c / w + w^a >= 1 + k, whose left side is least where w^(1 + a) = c (1 - u). Here a = 1/2 and 1/8. `n` may
    be an array. Source: ours.
    A common mistake: no error beyond the sum itself. Blocks that doubled may be lost or doubled once more.
    """
    least = np.sqrt(1.0 + ((2.0 + 2.0**-9) / 1.5) ** 3 / (1.0 - u) * n * u)
    c = ((2.0 + 2.0**-9) / 1.125) ** 9 / (1.0 - u)
    if c * u <= 1.0:
        least = np.minimum(least, np.sqrt(np.sqrt(np.sqrt(1.0 + c * n * u))))
    return least * (1.0 + 2.0**-46) - 1.0


stagnation_compiled = compiled(stagnation)


@compiled
def running_error(ends, sizes, count, peak, u, growth, noise, levels, quick):  # type: ignore[no-untyped-def]
    """(error, largest partial sum) of `count` addends x_i in [lo_i, hi_i] that are added in any order and grouping.

    `ends` are the sums of lo_i and of hi_i, `sizes` those of |lo_i| and |hi_i|, each within a relative `noise` of the
    latter; no addend is larger than `peak`; no sum of m of them errs by more than `growth` times their magnitudes.
    `levels` of a balanced tree, or inf: in one the errors of a level are at most u times all that it adds up.
    `quick` leaves out how partial sums grow within a binade: for callers who ask once per addend.
    An addition errs by at most u times the power of two below its result. No exact partial sum leaves [-N, P], the sums
    of all negative lower and all positive upper ends, and no computed one is further than growth (P + N) from it. Of
    the count - 1 partial sums, ordered by their number of addends, the k-th has at most k + 1: a partial sum of s
    addends contains s - 2 others, all of fewer. So the k-th is also at most (k + 1) peak (1 + growth).
    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 4.2 (4.3); the counting is ours, and
    the dot rule's.
    """
    rest = noise * (sizes[0] + sizes[1])
    positive, negative = 0.5 * (ends[1] + sizes[1]) + rest, 0.5 * (sizes[0] - ends[0]) + rest
    top = (max(positive, negative) + growth * (positive + negative)) * (1.0 + 2.0**-48)
    if not top < 2.0**1000 or u == 0.0 or count < 2.0:
        return (0.0 if u == 0.0 or count < 2.0 else math.inf), top
    step = max(peak * (1.0 + growth) * (1.0 + 2.0**-48), 2.0**-1000)
    if levels < math.inf:
        whole = (1.0 + growth) * (positive + negative)
        total = max(abs(ends[0]), abs(ends[1])) + rest + growth * (positive + negative)
        units = tree_steps(whole, total * (1.0 + 2.0**-48), top, step, levels)
    elif quick:
        power = power_floor(top)
        few = min(count - 1.0, max(math.floor(power / step * (1.0 - 2.0**-48)) - 1.0, 0.0))  # (few + 1) step <= power
        units = 0.5 * few * (few + 3.0) * step + (count - 1.0 - few) * power
    else:
        units, _ = ramp(count - 1.0, step, step, top, 0.0)
    return u * units * (1.0 + 2.0**-40), top
