"""One pass over flat arrays of an output where numpy takes ten: is there anything to look at, and the largest figures.

Each gives what the array expressions at its caller give, bit for bit; they stop at the first element that decides.
`flats` makes the arrays alike, so that each pass is compiled once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.compiled import compiled, inlined

LARGEST = float(np.finfo(np.float64).max)


def flats(*arrays: np.ndarray) -> list[Any]:
    """One-dimensional, contiguous, float64, and not to be written to; a view where that is possible."""
    found = []
    for x in arrays:
        y = np.ascontiguousarray(x, np.float64).reshape(-1)
        y = y.view() if y is x else y
        y.flags.writeable = False
        found.append(y)
    return found


@compiled
def off(y, exact, times, u, floor):  # type: ignore[no-untyped-def]
    """Whether a finite |y - exact| exceeds times (u |exact| + floor)."""
    for i in range(y.size):
        gap = abs(y[i] - exact[i])
        if gap < np.inf and gap > times * (u * abs(exact[i]) + floor):
            return True
    return False


@compiled
def exceeds(error, exact, times, u, floor):  # type: ignore[no-untyped-def]
    """Whether an error exceeds times (u |exact| + floor)."""
    for i in range(error.size):
        most = times * (u * abs(exact[i]) + floor)
        if error[i] > most:
            return True
    return False


@compiled
def further(error, allowed, times):  # type: ignore[no-untyped-def]
    """Whether times error / allowed exceeds times, for an error above 0."""
    for i in range(error.size):
        used = times * error[i] / allowed[i]
        if error[i] > 0 and used > times:
            return True
    return False


@compiled
def distances(y, exact, out):  # type: ignore[no-untyped-def]
    """|y - exact| into `out`, at most the largest number, and 0 where one of the two is not finite."""
    for i in range(out.size):
        gap = min(abs(y[i] - exact[i]), LARGEST)
        out[i] = gap if abs(y[i]) < np.inf and abs(exact[i]) < np.inf else 0.0


@compiled
def differing(y, ref, exact, lo, hi, u, floor):  # type: ignore[no-untyped-def]
    """(whether a |y - ref| exceeds u |exact| + floor, whether one does where [lo, hi] is without 0, or exact is 0)."""
    found = False
    for i in range(y.size):
        if abs(y[i] - ref[i]) > u * abs(exact[i]) + floor:
            found = True
            if not (lo[i] <= 0.0 <= hi[i] and exact[i] != 0):
                return True, True
    return found, False


@compiled
def apart(y, ref, exact, u, floor, part):  # type: ignore[no-untyped-def]
    """(whether a |y - ref| exceeds u |exact| + floor, whether one is at least that part of |exact|, which is not 0)."""
    rounding = large = False
    for i in range(y.size):
        gap, size = abs(y[i] - ref[i]), abs(exact[i])
        rounding = rounding or gap > u * size + floor
        large = large or (0.0 < size < np.inf and gap >= part * size)
    return rounding, large


@compiled
def explained(pick, ref, exact, radius, lo, hi):  # type: ignore[no-untyped-def]
    """Whether |ref - exact| <= radius < infinity and exact lies in [lo, hi], for every element of `pick`."""
    for i in range(ref.size):
        if pick[i] and not (abs(ref[i] - exact[i]) <= radius[i] < np.inf and lo[i] <= exact[i] <= hi[i]):
            return False
    return True


@compiled
def as_far(pick, one, other, exact):  # type: ignore[no-untyped-def]
    """Whether, for an element of `pick`, |one - exact| is not less than |other - exact|, or one of them is NaN."""
    for i in range(exact.size):
        this, that = abs(one[i] - exact[i]), abs(other[i] - exact[i])
        if pick[i] and not this < that:
            return True
    return False


@compiled
def same_bits(x, y):  # type: ignore[no-untyped-def]
    """Whether both are equal in every bit; a NaN is one whatever its payload."""
    for i in range(x.size):
        if x[i] != y[i]:
            if x[i] == x[i] or y[i] == y[i]:
                return False
        elif x[i] == 0 and np.signbit(x[i]) != np.signbit(y[i]):
            return False
    return True


@compiled
def largest_gap(y, exact):  # type: ignore[no-untyped-def]
    """(largest |y - exact|, its first place): 0 where both are the same infinity or NaN, infinite where one is not."""
    best, place = -1.0, 0
    for i in range(y.size):
        gap = abs(y[i] - exact[i])
        if not gap <= best:  # hardly ever; infinities of one sign give NaN
            a, e = y[i], exact[i]
            gap = 0.0 if a == e or (a != a and e != e) else np.inf if gap != gap else gap
            if gap > best:
                best, place = gap, i
    return best, place


SELECTED = 1 << 14
"""Numbers up to which sorting a part of them costs less than counting them first."""


def kth(x: np.ndarray, rank: int) -> float:
    """The number of that rank (from 0) of a flat array without NaN: what a sort would put there.

    Counted by the first 16 bits, in which order of floats is order of integers; only numbers that share those with the
    one that is looked for are sorted. x is read twice, and not written to.
    """
    return _ranked(x, rank)[0]


def _ranked(x: np.ndarray, rank: int) -> tuple[float, float | None]:
    """(`kth`, the number of the next rank where the same look gives it)."""
    if x.size <= SELECTED:
        return float(np.partition(x, rank)[rank]), None
    bits = np.ascontiguousarray(x, np.float64).view(np.int64)
    counts = np.zeros(1 << 16, np.int64)
    _count(bits, counts)
    before = np.cumsum(counts)
    top = int(np.searchsorted(before, rank, side="right"))
    chosen = np.empty(counts[top])
    _choose(bits, top, chosen.view(np.int64))
    rank -= int(before[top] - counts[top])
    ranks = [rank, rank + 1] if rank + 1 < chosen.size else [rank]
    chosen.partition(ranks)
    return float(chosen[rank]), float(chosen[rank + 1]) if len(ranks) > 1 else None


def median(x: np.ndarray) -> float:
    """As `numpy.median` of a flat array, NaN where one of its numbers is."""
    if np.isnan(x.max(initial=-np.inf)):
        return float("nan")
    low, after = _ranked(x, (x.size - 1) // 2)
    if x.size % 2:
        return low
    if after is None:
        upto, more = _beyond(x, low)
        after = low if upto > x.size // 2 else more
    return float(np.mean([low, after]))


@compiled
def _beyond(x, low):  # type: ignore[no-untyped-def]
    """(how many are at most `low`, the smallest that is more)."""
    upto, more = 0, np.inf
    for y in x:
        upto += y <= low
        more = y if low < y < more else more
    return upto, more


@inlined
def _place(bits):  # type: ignore[no-untyped-def]
    """The first 16 bits of a float's pattern, in the order of floats: negative ones have theirs turned round."""
    return ((bits >> 48) ^ 0x8000 if bits >= 0 else ~(bits >> 48)) & 0xFFFF


@compiled
def _count(bits, counts):  # type: ignore[no-untyped-def]
    for b in bits:
        counts[_place(b)] += 1


@compiled
def _choose(bits, top, out):  # type: ignore[no-untyped-def]
    n = 0
    for b in bits:
        if _place(b) == top:
            out[n] = b
            n += 1


@compiled
def relative_widths(out, low, high):  # type: ignore[no-untyped-def]
    """(high - low) / |middle| into `out`, 0 where there is no width; `out` may be `low`."""
    for i in range(out.size):
        width = high[i] - low[i]
        out[i] = 0.0 if width == 0 else width / abs(low[i] + width / 2)


@compiled
def binned(small, wide, scale, further, settled, lo, hi, ref):  # type: ignore[no-untyped-def]
    """Smallest |ref|, and largest distance of an end from ref (one float64 `further`), of each bin of |ref| scale."""
    last = small.size - 1
    for i in range(ref.size):
        if not settled[i]:
            size, above, below = abs(ref[i]), hi[i] - ref[i], ref[i] - lo[i]
            at = min(int(size * scale), last)
            cover = above if above > below else below
            cover = cover if cover > 0.0 else 0.0
            small[at] = size if size < small[at] else small[at]
            if cover > wide[at] or (further and cover == wide[at]):  # the next one is more than what is kept
                wide[at] = np.nextafter(cover, np.inf) if further else cover


@compiled
def within(ref, atol, rtol):  # type: ignore[no-untyped-def]
    """How many |ref| are above 0 and at most atol + rtol |ref|."""
    found = 0
    for x in ref:
        size = abs(x)
        found += 0.0 < size <= atol + rtol * size
    return found


@compiled
def extremes(y, got, ref, lo, hi, rtol, atol):  # type: ignore[no-untyped-def]
    """(largest |got - ref|, its first place, how many exceed atol + rtol |ref|, largest distance of an end from ref,
    largest usage of y), of numbers that are all finite."""
    gap_most, place, far, cover, used_most = 0.0, -1, 0, -np.inf, 0.0
    for i in range(ref.size):
        gap = abs(got[i] - ref[i])
        if place < 0 or gap > gap_most:
            gap_most, place = gap, i
        far += not gap <= atol + rtol * abs(ref[i])
        above, below = hi[i] - ref[i], ref[i] - lo[i]
        cover = above if above > cover else cover
        cover = below if below > cover else cover
        half = (hi[i] - lo[i]) / 2
        away = abs(y[i] - (lo[i] + half))
        used = away / half if half != 0 else 0.0 if away == 0 else np.inf
        if lo[i] <= y[i] <= hi[i] and used > 1.0:
            used = 1.0
        used_most = used if used > used_most else used_most
    return gap_most, place, far, cover, used_most


@compiled
def compared(low, high, lo, hi, exact, narrow, slack, small):  # type: ignore[no-untyped-def]
    """(whether some gap exceeds slack |exact|, elements that agreement is told of, largest gap, largest in half widths
    of [lo, hi], largest finite |exact|): [low, high] against `exact`, where it is known to `narrow` half widths."""
    told, gap_most, used, largest = 0, 0.0, 0.0, 0.0
    for i in range(exact.size):
        e, size, half = exact[i], abs(exact[i]), (hi[i] - lo[i]) / 2
        if not size < np.inf:
            continue
        largest = size if size > largest else largest
        room = np.maximum(narrow * (hi[i] - lo[i]) / 2, slack * size)
        if not (abs(low[i]) < np.inf and abs(high[i]) < np.inf and (high[i] - low[i] <= room or not room < np.inf)):
            continue
        gap = low[i] - e if low[i] > e else e - high[i] if high[i] < e else 0.0
        if gap > slack * size:
            return True, 0, 0.0, 0.0, 0.0
        beside = half if half > size else size
        reach = slack * size
        told += reach <= small * beside or reach == 0
        gap_most = gap if gap > gap_most else gap_most
        if gap > 0 and gap / half > used:
            used = gap / half
    return False, told, gap_most, used, largest


@compiled
def settled(lo, hi, exact, slack):  # type: ignore[no-untyped-def]
    """(whether every point of [lo, hi] is within slack |exact| of each finite exact, how many those are, the largest
    such distance, the largest in half widths, the largest finite |exact|)."""
    told, most, used, largest = 0, 0.0, 0.0, 0.0
    for i in range(exact.size):
        size = abs(exact[i])
        if not size < np.inf:
            continue
        above, below, width = hi[i] - exact[i], exact[i] - lo[i], hi[i] - lo[i]
        if not (above <= slack * size and below <= slack * size):
            return False, 0, 0.0, 0.0, 0.0
        reach = above if above > below else below
        told += 1
        largest = size if size > largest else largest
        most = reach if reach > most else most
        if width > 0 and 2 * reach > used * width:
            used = 2 * reach / width
    return True, told, most, used, largest


@compiled
def beyond(value, lo, hi, ref, exact, out):  # type: ignore[no-untyped-def]
    """Whether all is finite and exact in [lo, hi]; then `out` says which ref are not."""
    for i in range(value.size):
        if not (abs(value[i]) < np.inf and abs(lo[i]) < np.inf and abs(hi[i]) < np.inf and abs(ref[i]) < np.inf):
            return False
        if not lo[i] <= exact[i] <= hi[i]:
            return False
        out[i] = ref[i] < lo[i] or ref[i] > hi[i]
    return True


@compiled
def extent(lo, hi, ref):  # type: ignore[no-untyped-def]
    """(whether all is finite, largest |ref|)."""
    largest = 0.0
    for i in range(ref.size):
        size = abs(ref[i])
        if not (abs(lo[i]) < np.inf and abs(hi[i]) < np.inf and size < np.inf):
            return False, 0.0
        largest = size if size > largest else largest
    return True, largest


@compiled
def furthest(pick, y, lo, hi):  # type: ignore[no-untyped-def]
    """(how far y lies outside of [lo, hi], the first place where that is most) among `pick`, of finite numbers."""
    most, place = -np.inf, 0
    for i in range(y.size):
        if pick[i]:
            below, above = lo[i] - y[i], y[i] - hi[i]
            away = below if below > above else above
            if away > most:
                most, place = away, i
    return most, place


@compiled
def hollow(y, ref, exact, ends, width, differs, wide, out):  # type: ignore[no-untyped-def]
    """`out`: where |y - ref| is at least that part of a finite |exact| that is not 0, and the bound holds 0 and is at
    least `wide` of the largest |exact| of the row of `width` elements."""
    lo, hi = ends
    for first in range(0, exact.size, width):
        most, zeros = -1.0, 0
        for i in range(first, first + width):  # without a branch: hardly ever is there one
            out[i] = False
            zeros += (lo[i] <= 0.0) & (hi[i] >= 0.0)
        for i in range(first, first + width if zeros else first):
            size = abs(exact[i])
            if not (lo[i] <= 0.0 <= hi[i] and 0.0 < size < np.inf and abs(y[i] - ref[i]) >= differs * size):
                continue
            if most < 0:
                for k in range(first, first + width):
                    beside = abs(exact[k])
                    most = beside if most < beside < np.inf else most
            half = (hi[i] - lo[i]) / 2
            out[i] = wide * most <= half < np.inf


@compiled
def half_widths(lo, hi, out):  # type: ignore[no-untyped-def]
    """How many half widths are finite and above 0; they are the first numbers of `out`."""
    count = 0
    for i in range(lo.size):
        half = (hi[i] - lo[i]) / 2
        if 0.0 < half < np.inf:
            out[count] = half
            count += 1
    return count


@compiled
def of_half_width(lo, hi, half, n):  # type: ignore[no-untyped-def]
    """(the place of element number n among those of this half width, or -1; how many were met)."""
    met = 0
    for i in range(lo.size):
        if (hi[i] - lo[i]) / 2 == half:
            if met == n:
                return i, met
            met += 1
    return -1, met
