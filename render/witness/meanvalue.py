r"""The mean value form: an element from its distance to one point of the computation, a second way through a document.

Every value is v = f(v_1, .., v_n) + d: the exact function of its operands and what a legal execution may add, |d| <= e.
At numbers c of float64 close by, c = f(c_1, .., c_n) + r with a small |r|. The mean value theorem on the way from
(c_1, ..) to (v_1, ..) gives v - c = sum g_i (v_i - c_i) + d - r with numbers g_i in the range of df/dv_i over all that
the plain evaluation allows. Followed back from the element that is

    v - c = sum over all values of a (d - r),    |a| <= the adjoint in intervals,

with the half width of what it may be for a leaf, and for a value without a formula here. Where one value is met again
and again (a softmax of its own scores, a normalisation, a sum of waves), its bounds count once and not every time
(Moore, Kearfott and Cloud, Introduction to Interval Analysis, 2009, 6.4; adjoints: Griewank and Walther, Evaluating
Derivatives, 2008, 3.2). It is narrower where the plain bounds are narrow enough for slopes to have a range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from render.exact.intervals import Interval
from render.exact.points import least, most, number
from render.witness.slopes import Link, linked

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

_U = 2.0**-52


class _Adjoints:
    """d element / d value as middle and radius; what float64 loses when they are added up is kept beside them."""

    def __init__(self, total: int) -> None:
        self.middle, self.radius = np.zeros(total), np.zeros(total)
        self._weight, self._count = np.zeros(total), np.zeros(total)

    def of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lost = (self._count[numbers] + 4) * _U * (self._weight[numbers] + self.radius[numbers])
        return self.middle[numbers], self.radius[numbers] + lost

    def add(self, numbers: np.ndarray, middle: np.ndarray, radius: np.ndarray) -> None:
        there = (middle != 0) | (radius != 0)  # 0 times what cannot be bounded is left out: nothing depends on it
        numbers, middle, radius = numbers[there], middle[there], radius[there]
        np.add.at(self.middle, numbers, middle)
        np.add.at(self.radius, numbers, radius)
        np.add.at(self._weight, numbers, np.abs(middle))
        np.add.at(self._count, numbers, 1.0)


def _followed(found: _Adjoints, numbers: np.ndarray, link: Link) -> None:
    """Adds what the adjoints of an operation's values give to those of its operands."""
    middle, radius = found.of(numbers)
    for operand, low, high in link.slopes:
        slope, wide = (low + high) / 2, (high - low) / 2
        shape = (-1,) + (1,) * (operand.ndim - 1)
        a, ra = middle.reshape(shape), radius.reshape(shape)
        product = a * slope
        around = np.abs(a) * wide + ra * (np.abs(slope) + wide)
        lost = 8 * _U * (np.abs(product) + around + np.abs(a) * np.abs(slope)) + 2.0**-1060
        nothing = (low == 0) & (high == 0) | ((a == 0) & (ra == 0))
        there = operand >= 0
        found.add(operand[there], np.where(nothing, 0.0, product)[there], np.where(nothing, 0.0, around + lost)[there])


def narrowed(e: Evaluator, found: Interval) -> Interval:
    """The part of `found`, the plain result of an evaluation, that the mean value form allows as well."""
    with np.errstate(all="ignore"):
        away = _centre_and_reach(e)
    if away is None:
        return found
    centre, reach = away
    return most((found[0], number(centre - reach))), least((found[1], number(centre + reach)))


def _centre_and_reach(e: Evaluator) -> tuple[float, float] | None:
    """A number and how far from it the element may be; None where some slope has no range."""
    centre = np.full(e.used.size, np.nan)
    links: list[tuple[np.ndarray, Link]] = []
    for op in e.ops:
        rows = np.flatnonzero(e.used[op.start : op.start + op.size])
        if rows.size:
            link = linked(e, op, rows, centre)
            centre[op.start + rows] = link.centre
            links.append((op.start + rows, link))
    adjoints = _Adjoints(e.used.size)
    adjoints.add(np.array([e.root]), np.ones(1), np.zeros(1))
    reach, terms = 0.0, 0
    for numbers, link in reversed(links):
        middle, radius = adjoints.of(numbers)
        size = np.abs(middle) + radius
        reach += float(np.sum(np.where(size > 0, size * link.away, 0.0)))
        terms += numbers.size
        _followed(adjoints, numbers, link)
    at = float(centre[e.root])
    reach = reach * (1 + (terms + 8) * _U) + 4 * _U * abs(at) + 2.0**-1060
    return (at, reach) if np.isfinite(at) and np.isfinite(reach) else None
