"""Sums, products and linear recurrences in no particular order, from the standard error bounds.

A plain sum of n terms, each addition rounded with unit u: |error| <= ((1 + u)^(n-1) - 1) sum |x| (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., 4.2). Sums of multiples of 2^q whose magnitudes stay below 2^(p+q) are
exact. An addition errs by at most unit times the power of two below its result, too, and no partial sum is larger than
the terms of one sign together, nor than its number of terms times the largest: the smaller bound counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from interval_ops.formats.model import Format
from render.exact import intervals as iv
from render.exact.formats import FP32
from render.exact.intervals import Maybe
from render.exact.points import (
    INF,
    NINF,
    ONE,
    ZERO,
    Point,
    down,
    exponent,
    least,
    most,
    number,
    parts,
    power,
    shifted,
    times_down,
    times_up,
    up,
)
from render.witness.tally import Tally


def growth(unit: Point, count: int) -> Point:
    """(1 + unit)^count - 1, rounded up."""
    if count <= 0 or unit == ZERO:
        return ZERO
    return up(((ONE + unit) ** count).upper(), -ONE)


def summed(unit: Point, count: int, additions: int) -> Point:
    """Error of a sum, relative to the magnitudes: a term passes `count` of its `additions`, which are nearest or nearly
    so; then it is at most additions times unit, however many (Jeannerod and Rump 2013), and `stagnating`."""
    line = times_up(times_up(number(max(additions, 0)), unit), number(1 + 2.0**-9))
    plain = least((growth(unit, count), line))
    return plain if plain < number(0.5) else least((plain, stagnating(unit, line)))


def stagnating(unit: Point, line: Point) -> Point:
    """As `summed`, of sums whose addends are lost or counted twice: (1 + c line)^(1/r) - 1 for every whole r with c =
    ((2 + 2^-9) r / (r + 1))^(r + 1) / (1 - unit) and c unit <= 1; `line` are the additions times unit."""
    found = INF
    for r in (2, 3, 4, 6, 8):
        c = ((number(2 + 2.0**-9) * r / (r + 1)) ** (r + 1) / (ONE - unit)).upper()
        if times_up(c, unit) <= ONE:
            found = least((found, up((ONE + c * line).root(r).upper(), -ONE)))
    return found


def unit_of(fmt: Format) -> Point:
    """Unit roundoff of an addition; below fp32 it may be done in fp32 and rounded once more."""
    u = power(-fmt.p)
    return u if fmt.p >= FP32.p else up(u, power(1 - FP32.p))


def _no_rounding(terms: Tally, fmt: Format) -> bool:
    """Whether every order of the sum is exact: points on a common grid that the format holds up to their size."""
    if terms.step is None:
        return False
    fits = terms.step >= fmt.emin - fmt.p + 1 and terms.size <= number(fmt.max)
    return fits and bool(power(terms.step + fmt.p) >= terms.size)


def plain_sum(terms: Iterable[Maybe], width: int, fmt: Format, tree: bool = False) -> Maybe:
    """Sum of a block of `width` terms, rounded after every addition; `tree`: a term passes at most log2 of them."""
    found = Tally(terms)
    if not found.known:
        return _with_infinities(found, fmt, width - 1, ZERO)
    if not found.count:
        return iv.NOTHING
    return _closed(found, fmt, found.count - 1, ZERO, (width - 1).bit_length() if tree else None)


def atomic_sum(terms: Iterable[Maybe], width: int, fmt: Format, flushes: bool) -> Maybe:
    """Base (first) plus contributions, one rounding each; fp32 adds of a flushing target lose up to 2^-126 twice."""
    found = Tally(terms)
    flush = times_up(number(2 * (width - 1)), power(fmt.emin)) if flushes and fmt.bits == 32 else ZERO
    if not found.known:
        return _with_infinities(found, fmt, width - 1, flush)
    return _closed(found, fmt, width - 1, flush)


def _closed(terms: Tally, fmt: Format, additions: int, flush: Point, levels: int | None = None) -> Maybe:
    """The sum after so many additions; every one of them may lose `flush` besides. `levels`: of a known tree."""
    if flush == ZERO and _no_rounding(terms, fmt):
        return terms.total
    grown = summed(unit_of(fmt), additions if levels is None else min(additions, levels), additions)
    error, lost = times_up(terms.size, grown), times_up(flush, up(ONE, grown))
    # No sum of some of the terms is larger than those of one sign together.
    reach = least((terms.size, shifted(up(terms.size, iv.magnitude(terms.total)), -1)))
    top = up(up(reach, error), lost)
    if top >= number(fmt.max):
        return None
    term = times_up(terms.largest, up(ONE, up(grown, lost))) if lost == ZERO else top
    if levels is None:
        steps = _steps(top, term, additions)
    else:
        steps = _tree_steps(
            times_up(terms.size, up(ONE, grown)), up(iv.magnitude(terms.total), error), top, term, levels
        )
    return iv.spread(terms.total, up(least((error, times_up(unit_of(fmt), steps))), lost))


def _steps(top: Point, term: Point, count: int) -> Point:
    """Sum of the powers of two below the partial sums of `count` additions: the k-th smallest has at most k + 1 terms,
    is at most (k + 1) `term`, and none exceeds `top`."""
    if count <= 0 or top <= ZERO or term <= ZERO:
        return ZERO
    (mantissa, scale), e, left, total = parts(term), exponent(top), count, ZERO
    while left > 0:
        shift = e - scale
        fewest = -(-(1 << shift) // mantissa) if shift >= 0 else 1  # terms that may reach 2^e
        below = min(left, max(0, fewest - 2))
        total = up(total, times_up(number(left - below), power(e)))
        left, e = below, e - 1
    return total


def _tree_steps(whole: Point, total: Point, top: Point, term: Point, levels: int) -> Point:
    """As `_steps` of a balanced tree: the 2^j sums j levels below the root are together at most `whole`."""
    out = ZERO
    for j in range(levels):
        most = least((top, shifted(term, levels - j), *((total,) if j == 0 else ())))
        out = up(out, least((whole, power(exponent(most) + j))) if most > ZERO else ZERO)
    return out


def _with_infinities(terms: Tally, fmt: Format, additions: int, flush: Point) -> Maybe:
    """inf + x is inf for every x but -inf, which no finite terms may add up to; an end that only may be infinite leaves
    what the other ends give. Additions are monotone, so the lower ends give the least sum of every order."""
    upward = any(x[1] == INF for x in terms.endless)
    if terms.open or upward == any(x[0] == NINF for x in terms.endless):
        return None
    finite, ends = (terms.total[0], [x[0] for x in terms.endless]) if upward else (
        -terms.total[1], [-x[1] for x in terms.endless])  # fmt: skip
    sure, ends = INF in ends, [x for x in ends if x != INF]
    grown = summed(unit_of(fmt), additions, additions)
    opposite = shifted(up(terms.size, -finite), -1)  # of a sum of magnitudes and a sum: twice the negative ones
    for x in ends:
        finite, opposite = down(finite, x), up(opposite, most((-x, ZERO)))
    size = up(terms.size, iv.magnitude(iv.total([(x, x) for x in map(abs, ends)])))
    lost = up(times_up(size, grown), times_up(flush, up(ONE, grown)))
    if up(opposite, times_up(opposite, grown)) >= number(fmt.max):
        return None
    least_ = INF if sure else down(finite, -lost)
    return (least_, INF) if upward else (NINF, -least_)


def product(terms: list[Maybe], fmt: Format) -> Maybe:
    """Product of a block in any order; anything where a partial product may overflow.

    A rounding in the subnormal range loses half a spacing, which at most all other factors enlarge.
    """
    factors = [x for x in terms if x is not None]
    if len(factors) < len(terms):
        return None
    out: Maybe = (ONE, ONE)
    large = small = ONE
    for x in factors:
        out = iv.mul(out, x)
        low, high = iv.magnitudes(x)
        large = times_up(large, most((high, ONE)))
        small = times_down(small, least((low, ONE)))
    if out is None or large >= number(fmt.max / 2):
        return None
    grown = growth(unit_of(fmt), len(factors) - 1)
    error = times_up(iv.magnitude(out), grown)
    if small < power(fmt.emin):
        lost = times_up(number(len(factors)), power(fmt.emin - fmt.p))
        error = up(error, times_up(times_up(lost, large), up(ONE, grown)))
    return iv.spread(out, error)


def recurrence(factors: list[Maybe], addends: list[Maybe], fmt: Format) -> Maybe:
    """h_j = a_j h_(j-1) + b_j with h_0 = b_0, combined in any bracketing.

    h_j is the sum of b_i a_(i+1) ... a_j; a term passes at most 2 j roundings, so the error is at most
    ((1 + u)^(2 j) - 1) M_j with M_j = |a_j| M_(j-1) + |b_j|. An underflow loses half a spacing in at most 2 j places,
    which later factors may enlarge.
    """
    total: Maybe = addends[0]
    if any(x is None or iv.infinite(x) for x in (*factors, *addends)) or total is None:
        return None
    size = peak = iv.magnitude(total)
    reach = furthest = ONE
    for x, y in zip(factors[1:], addends[1:], strict=True):
        assert x is not None and y is not None
        total = iv.add(iv.mul(x, total), y)
        size = up(times_up(iv.magnitude(x), size), iv.magnitude(y))
        peak = most((peak, size))
        reach = most((ONE, times_up(reach, iv.magnitude(x))))
        furthest = most((furthest, reach))
    steps = 2 * (len(addends) - 1)
    grown = growth(unit_of(fmt), steps)
    spacing = power(fmt.emin - fmt.p)
    lost = times_up(times_up(number(steps), spacing), times_up(furthest, up(ONE, peak)))
    error = up(times_up(grown, size), times_up(lost, up(ONE, grown)))
    top = times_up(up(up(peak, error), furthest), up(ONE, grown))
    return iv.spread(total, error) if top < number(fmt.max) else None
