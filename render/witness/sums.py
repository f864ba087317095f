"""Sums, products and linear recurrences in no particular order, from the standard error bounds.

A plain sum of n terms, each addition rounded with unit u: |error| <= ((1 + u)^(n-1) - 1) sum |x| (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., 4.2). Sums of multiples of 2^q whose magnitudes stay below 2^(p+q) are
exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpmath import libmp
from mpmath.libmp import fone, from_int, fzero

from interval_ops.formats.model import Format
from render.witness import balls as b
from render.witness.balls import FP32, PREC, Interval, Maybe, Raw


def growth(unit: Raw, count: int) -> Raw:
    """(1 + unit)^count - 1, rounded up."""
    if count <= 0 or unit == fzero:
        return fzero
    base = libmp.mpf_add(fone, unit)
    return libmp.mpf_sub(libmp.mpf_pow_int(base, count, PREC, "c"), fone, PREC, "c")


def unit_of(fmt: Format) -> Raw:
    """Unit roundoff of an addition; below fp32 it may be done in fp32 and rounded once more."""
    u = b.power(-fmt.p)
    return u if fmt.p >= FP32.p else b.up(u, b.power(1 - FP32.p))


def exact_sum(terms: list[Interval]) -> Interval:
    low = high = fzero
    if all(x[0] == x[1] for x in terms) and not any(b.infinite(x) for x in terms):
        for x in terms:
            low = libmp.mpf_add(low, x[0])
        return low, low
    for x in terms:
        low, high = b.down(low, x[0]), b.up(high, x[1])
    return low, high


def magnitudes(terms: list[Interval]) -> Raw:
    out = fzero
    for x in terms:
        out = b.up(out, b.magnitude(x))
    return out


@dataclass(frozen=True)
class Terms:
    """What a sum needs to know of its terms: how many are not 0, their exact sum, the sum of their magnitudes.

    `step`: all are points and multiples of 2^step (None: they are not).
    """

    count: int
    total: Interval
    size: Raw
    step: int | None


def gathered(terms: list[Interval]) -> Terms:
    """Of finite terms."""
    known = [x for x in terms if x != b.ZERO]
    return Terms(len(known), exact_sum(known), magnitudes(known), lowest(known))


def lowest(terms: list[Interval]) -> int | None:
    """The place of the lowest bit in any of these points; None where there is an interval."""
    if any(x[0] != x[1] for x in terms):
        return None
    return min((int(x[0][2]) for x in terms if x[0][1]), default=0)


def _no_rounding(terms: Terms, fmt: Format) -> bool:
    """Whether every order of the sum is exact: points on a common grid that the format holds up to their size."""
    if terms.step is None:
        return False
    return terms.step >= fmt.emin - fmt.p + 1 and not b.less(b.power(terms.step + fmt.p), terms.size)


def plain_sum(terms: list[Maybe], fmt: Format, tree: bool = False) -> Maybe:
    """Sum of a block, rounded to `fmt` after every addition; `tree`: a term passes at most log2 of them."""
    known = [x for x in terms if x is not None]
    if len(known) < len(terms):
        return None
    if any(b.infinite(x) for x in known):
        return _with_infinities(known)
    return block_sum(gathered(known), len(terms), fmt, tree)


def block_sum(terms: Terms, width: int, fmt: Format, tree: bool) -> Maybe:
    """`plain_sum` of finite terms, `width` of them with those that are 0."""
    if not terms.count:
        return b.ZERO
    passed = terms.count - 1
    return closed(terms, fmt, min(passed, (width - 1).bit_length()) if tree else passed, fzero)


def closed(terms: Terms, fmt: Format, roundings: int, flush: Raw) -> Maybe:
    """The sum after so many roundings of each term; every one of them may lose `flush` besides."""
    if flush == fzero and _no_rounding(terms, fmt):
        return terms.total
    grown = growth(unit_of(fmt), roundings)
    error = b.up(b.times_up(terms.size, grown), b.times_up(flush, b.up(fone, grown)))
    if not b.less(b.up(terms.size, error), b.raw(fmt.max)):
        return None
    return b.spread(terms.total, error)


def _with_infinities(terms: list[Interval]) -> Maybe:
    out: Maybe = b.ZERO
    for x in terms:
        out = b.add(out, x)
    return out


def atomic_sum(terms: list[Maybe], fmt: Format, flushes: bool) -> Maybe:
    """Base (first) plus contributions, one rounding each; fp32 adds of a flushing target lose up to 2^-126 twice."""
    known = [x for x in terms if x is not None]
    if len(known) < len(terms):
        return None
    if any(b.infinite(x) for x in known):
        return _with_infinities(known)
    return shared_sum(gathered(known), len(terms), fmt, flushes)


def shared_sum(terms: Terms, width: int, fmt: Format, flushes: bool) -> Maybe:
    """`atomic_sum` of finite terms."""
    flush = fzero
    if flushes and fmt.bits == 32:
        flush = libmp.mpf_mul(from_int(2 * (width - 1)), b.power(fmt.emin))
    return closed(terms, fmt, width - 1, flush)


def product(terms: list[Maybe], fmt: Format) -> Maybe:
    """Product of a block in any order; anything where a partial product may overflow.

    A rounding in the subnormal range loses half a spacing, which at most all other factors enlarge.
    """
    factors = [x for x in terms if x is not None]
    if len(factors) < len(terms):
        return None
    out: Maybe = (fone, fone)
    large = small = fone
    for x in factors:
        out = b.mul(out, x)
        low, high = b.sorted_magnitudes(x)
        large = b.times_up(large, b.most((high, fone)))
        small = libmp.mpf_mul(small, b.least((low, fone)), PREC, "f")
    if out is None or not b.less(large, b.raw(fmt.max / 2)):
        return None
    grown = growth(unit_of(fmt), len(factors) - 1)
    error = b.times_up(b.magnitude(out), grown)
    if b.less(small, b.power(fmt.emin)):
        lost = libmp.mpf_mul(from_int(len(factors)), b.power(fmt.emin - fmt.p))
        error = b.up(error, b.times_up(b.times_up(lost, large), b.up(fone, grown)))
    return b.spread(out, error)


def recurrence(factors: list[Maybe], addends: list[Maybe], fmt: Format) -> Maybe:
    """h_j = a_j h_(j-1) + b_j with h_0 = b_0, combined in any bracketing.

    h_j is the sum of b_i a_(i+1) ... a_j; a term passes at most 2 j roundings, so the error is at most
    ((1 + u)^(2 j) - 1) M_j with M_j = |a_j| M_(j-1) + |b_j|. An underflow loses half a spacing in at most 2 j places,
    which later factors may enlarge.
    """
    total: Maybe = addends[0]
    if any(x is None or b.infinite(x) for x in (*factors, *addends)) or total is None:
        return None
    size = most = b.magnitude(total)
    reach = furthest = fone
    for x, y in zip(factors[1:], addends[1:], strict=True):
        assert x is not None and y is not None
        total = b.add(b.mul(x, total), y)
        size = b.up(b.times_up(b.magnitude(x), size), b.magnitude(y))
        most = b.most((most, size))
        reach = b.most((fone, b.times_up(reach, b.magnitude(x))))
        furthest = b.most((furthest, reach))
    steps = 2 * (len(addends) - 1)
    grown = growth(unit_of(fmt), steps)
    spacing = b.power(fmt.emin - fmt.p)
    lost = b.times_up(b.times_up(from_int(steps), spacing), b.times_up(furthest, b.up(fone, most)))
    error = b.up(b.times_up(grown, size), b.times_up(lost, b.up(fone, grown)))
    top = b.times_up(b.up(b.up(most, error), furthest), b.up(fone, grown))
    return b.spread(total, error) if b.less(top, b.raw(fmt.max)) else None
