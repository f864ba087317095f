"""Many intervals summed up: exact while they are taken, rounded outward when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from render.exact import intervals as iv
from render.exact.intervals import Interval, Maybe
from render.exact.points import FULL, ZERO, Point, lowest_bit, power, precision

PIECE = 1 << 16
"""Intervals that are held at once."""
_ANY_STEP = 1 << 30
"""Of no terms, or zeros."""
_DIGITS, _PROBED = 60, 64
"""No unit adds up this many bits exactly; points that are looked at before all others are."""


class Tally:
    """Of intervals: `count` of those that are not 0, their sum, that of their magnitudes, the largest magnitude.

    Terms with an infinite end are kept apart (`endless`); `open`: some term is anything. `step`: all terms are points
    and multiples of 2^step; None where they are not, or where that says nothing.
    """

    def __init__(self, terms: Iterable[Maybe] = (), grid: bool = True) -> None:
        self.count = 0
        self.low = self.high = self.weight = self.peak = ZERO
        self.endless: list[Interval] = []
        self.open = False
        self.step: int | None = _ANY_STEP if grid else None
        for piece in pieces(terms):
            self.take(piece)

    def take(self, terms: list[Maybe]) -> None:
        known = [x for x in terms if x is not None]
        self.open |= len(known) < len(terms)
        with precision(FULL):
            points = [x[0] for x in known if x[0] is x[1]]
            if len(points) < len(known):
                self._wide([x for x in known if x[0] is not x[1]])
            self._points([x for x in points if x != 0])

    def _points(self, points: list[Point]) -> None:
        sizes = list(map(abs, points))
        weight = sum(sizes, ZERO)
        if not weight.is_finite():
            self.endless += [(x, x) for x in points if not x.is_finite()]
            self._points([x for x in points if x.is_finite()])
            return
        exact = self.low is self.high
        total = sum(points, ZERO)
        self.low = self.low + total
        self.high = self.low if exact else self.high + total
        self.weight, self.peak, self.count = self.weight + weight, max([self.peak, *sizes]), self.count + len(points)
        for some in (points[:_PROBED], points[_PROBED:]):
            if self.step is not None:
                self.step = min([self.step, *map(lowest_bit, some)])
                self.step = self.step if power(self.step + _DIGITS) >= self.weight else None

    def _wide(self, terms: list[Interval]) -> None:
        self.endless += [x for x in terms if iv.infinite(x)]
        terms = [x for x in terms if not iv.infinite(x)]
        sizes = [iv.magnitude(x) for x in terms]
        self.low, self.high = sum([x[0] for x in terms], self.low), sum([x[1] for x in terms], self.high)
        self.weight, self.peak = sum(sizes, self.weight), max([self.peak, *sizes])
        self.count, self.step = self.count + len(terms), None

    @property
    def known(self) -> bool:
        """Whether all terms are finite."""
        return not self.open and not self.endless

    @property
    def total(self) -> Interval:
        return iv.cut(self.low) if self.low is self.high else (self.low.lower(), self.high.upper())

    @property
    def size(self) -> Point:
        """The sum of the magnitudes, rounded up."""
        return self.weight.upper()

    @property
    def largest(self) -> Point:
        return self.peak.upper()


def pieces(terms: Iterable[Maybe]) -> Iterator[list[Maybe]]:
    at = iter(terms)
    while piece := list(islice(at, PIECE)):
        yield piece
