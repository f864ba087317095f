"""Boxes over what a combine function may meet: the error of one step, and by how much errors grow (`means`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from interval_ops.bounds import Pair
from render.interpreter.mean_forms import Mean, Motion
from render.interpreter.mean_steps import ExactNumbers, Slopes, StepErrors

CELLS, WIDE = (96, 512), 6.0
"""Of the range of an operand, in which errors are looked at: so many of each 1 where f shifts."""
LINE, SPLITS, MOST = 2048, 8, 1 << 16
"""Boxes along a line in which derivatives are looked at; how often those are halved that show nothing; how many."""
BESIDE = 2.0**-20
"""What derivatives of boxes may miss [0, 1] by: errors grow by (1 + 2 BESIDE)^n."""


class Reach(NamedTuple):
    """What exact values of a tree lie between; errors are relative or absolute and at most `room`."""

    low: float
    high: float
    relative: bool
    room: float = 0.0

    @property
    def ends(self) -> tuple[float, float]:
        if self.relative:
            return self.low * (1 - self.room), self.high * (1 + self.room)
        return self.low - self.room, self.high + self.room

    def wider(self, share: float) -> Reach:
        return self._replace(room=share if self.relative else share * max(self.high - self.low, 2.0**-8))

    def cells(self, count: int) -> Pair:
        """The whole in so many cells, that overlap by a rounding."""
        edges = (np.geomspace if self.relative else np.linspace)(*self.ends, count + 1)
        return np.nextafter(edges[:-1], -np.inf), np.nextafter(edges[1:], np.inf)


def folded(found: Mean, xs: np.ndarray, idle: np.ndarray, end: int) -> Iterator[np.ndarray]:
    """One end of f of the first elements in exact arithmetic, without those that are idle."""
    exact, value, some = ExactNumbers(), xs[0], ~idle[0]
    yield value
    for x, skip in zip(xs[1:], idle[1:], strict=True):
        made = np.where(some, found.formula(exact, exact.point(value), exact.point(x)).pair[end], x)
        value, some = np.where(skip, value, made), some | ~skip
        yield value


def step_error(found: Mean, reach: Reach, errors: StepErrors) -> float | None:
    """The largest error of one step; None where boxes would be too wide to say anything."""
    low, high = reach.ends
    if not reach.relative and high - low > CELLS[1]:
        return None
    cells = CELLS[0] if reach.relative else int(min(max(CELLS[0], WIDE * (high - low)), CELLS[1]))
    below, above = reach.cells(cells)
    a, b = (np.repeat(below, cells), np.repeat(above, cells)), (np.tile(below, cells), np.tile(above, cells))
    return largest(found, a, b, reach.relative, errors)


def largest(found: Mean, a: Pair, b: Pair, relative: bool, errors: StepErrors) -> float | None:
    one = found.formula(errors, errors.of(a), errors.of(b))
    worst = float(np.max(one.error / one.least if relative else one.error))
    return worst if math.isfinite(worst) else None


def gain_of(found: Mean, reach: Reach) -> float | None:
    """By how much the error of a node may grow on its way, once f is seen to grow in both operands everywhere."""
    most = [0.0, 0.0]
    for way, formula in enumerate(found.ordered):
        for share in _shares(found.kind, formula, way, reach):
            if share is None:
                return None
            most = [max(old, float(new)) for old, new in zip(most, share, strict=True)]
    return 1.0 if found.kind is not Motion.FREE else max(1.0, *most, most[0] * most[1])


def _shares(kind: Motion, formula: Callable[..., Any], way: int, reach: Reach) -> Iterator[tuple[float, float] | None]:
    """The largest derivatives by both operands (of logarithms where errors are relative) over boxes that cover all
    pairs of which the one is the larger; None once a box cannot be shown to have none below 0."""
    a, b = _halved_pairs(kind, way, reach)
    for _ in range(SPLITS):
        slopes = Slopes()
        operands = slopes.operands(a, b)
        made = formula(slopes, *operands)
        shares = [by * x.value / made.value if reach.relative else by for by, x in zip(made.by, operands, strict=True)]
        good = np.logical_and.reduce([s.pair[0] >= -BESIDE for s in shares])
        if good.any():
            yield tuple(np.max(s.pair[1], initial=0.0, where=good) for s in shares)  # type: ignore[misc]
        if good.all():
            return
        (a, b) = _split((a[0][~good], a[1][~good]), (b[0][~good], b[1][~good]), kind is Motion.FREE)
        if len(a[0]) > MOST:
            break
    yield None


def _halved_pairs(kind: Motion, way: int, reach: Reach) -> tuple[Pair, Pair]:
    """Boxes of both operands of which the one (by `way`) is the larger. What moves with both is known by its values
    where the larger is 0, or 1."""
    if kind is Motion.FREE:
        below, above = reach.cells(CELLS[0])
        a = np.repeat(below, CELLS[0]), np.repeat(above, CELLS[0])
        b = np.tile(below, CELLS[0]), np.tile(above, CELLS[0])
        mine = (a[1] >= b[0], b[1] >= a[0])[way]
        return (a[0][mine], a[1][mine]), (b[0][mine], b[1][mine])
    low, high = reach.ends
    line = Reach(low / high, 1.0, True) if kind is Motion.SCALES else Reach(low - high, 0.0, False)
    other = line.cells(LINE)
    fixed = (np.full(LINE, line.high),) * 2
    return (fixed, other) if way == 0 else (other, fixed)


def _split(a: Pair, b: Pair, both: bool) -> tuple[Pair, Pair]:
    """Each box in two along its wider sides."""

    def halves(x: Pair, other: Pair) -> tuple[Pair, Pair]:
        middle = (x[0] + x[1]) / 2
        ends = np.concatenate([x[0], middle]), np.concatenate([middle, x[1]])
        return ends, (np.tile(other[0], 2), np.tile(other[1], 2))

    if both:
        a, b = halves(a, b)
        b, a = halves(b, a)
        return a, b
    if (a[0] < a[1]).any():
        a, b = halves(a, b)
    else:
        b, a = halves(b, a)
    return a, b
