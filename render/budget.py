"""Where the width of a bound comes from, by leaving one cause out at a time and running again.

share(c) is proportional to how much the half width shrinks without cause c, averaged over the median and the worst
element of every output, and the shares sum to 1. Nothing is inferred from the interval itself: each figure is the
result of a run with the errors of that cause (at that line) switched off.

Where no single cause shrinks the bound (two causes of the same size hide each other in a hull), the opposite is
measured: the width that each cause produces alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from interval_ops.profile import CAUSES
from render.verdict import BudgetItem

CODES = {
    "operand": "RND101",
    "accumulation": "RND102",
    "lowacc": "RND103",
    "cast": "RND104",
    "function": "RND105",
    "arith": "RND106",
}
TITLES = {
    "operand": "inputs rounded to TF32 or split bf16",
    "accumulation": "accumulation in any order",
    "lowacc": "low-precision accumulator",
    "cast": "casts",
    "function": "approximate functions and division",
    "arith": "elementwise arithmetic, fma contraction",
}
LIKELY = ("operand", "lowacc", "cast", "accumulation", "function", "arith")
"""Order in which a cause is named when there was no time to measure."""

MAX_LINES = 8
NEGLIGIBLE = 1e-6
Cause = tuple[str, str | None, int]


@dataclass(frozen=True)
class Halves:
    """Half widths of all outputs: the median and the one at each output's worst element."""

    medians: tuple[float, ...]
    worsts: tuple[float, ...]

    @property
    def point(self) -> bool:
        return not any(self.medians) and not any(self.worsts)

    def kept(self, other: Halves) -> float:
        """Mean of other / self over the entries with width: 1 where `other` is as wide, 0 where it has none."""
        pairs = zip(self.medians + self.worsts, other.medians + other.worsts, strict=True)
        ratios = [min(b / a, 1.0) for a, b in pairs if a > 0 and np.isfinite(a)]
        return float(np.mean(ratios)) if ratios else 1.0

    def shrink(self, other: Halves) -> float:
        """How many times smaller the median half width of `other` is (of the output that shrinks least)."""
        ratios = [a / b if b > 0 else np.inf for a, b in zip(self.medians, other.medians, strict=True) if a > 0]
        return float(min(ratios)) if ratios else 1.0


def halves_of(bounds: Sequence[tuple[np.ndarray, np.ndarray]], places: Sequence[tuple[int, ...]]) -> Halves:
    medians, worsts = [], []
    for (lo, hi), place in zip(bounds, places, strict=True):
        with np.errstate(invalid="ignore"):
            half = (hi - lo) / 2
        known = half[np.isfinite(half)]
        medians.append(float(np.median(known)) if known.size else 0.0)
        worsts.append(float(half[place]) if half.size and np.isfinite(half[place]) else 0.0)
    return Halves(tuple(medians), tuple(worsts))


@dataclass
class Clock:
    """Spends at most `limit` seconds on runs. `each` is what one run takes: the last one measured.

    The first estimate is the original run, which may have compiled kernels for seconds; so it decides only whether one
    run may be tried, and that one's time decides about the rest.
    """

    limit: float
    each: float

    def __post_init__(self) -> None:
        self._end = time.perf_counter() + self.limit
        self._measured = False

    def allows(self, runs: int) -> bool:
        needed = self.each * (runs if self._measured else min(runs, 1))
        return time.perf_counter() + needed <= self._end

    def time(self, rerun: Rerun) -> Rerun:
        """`rerun` with its duration taken."""

        def timed(mute: Iterable[Any]) -> Halves:
            began = time.perf_counter()
            halves = rerun(mute)
            self.each, self._measured = time.perf_counter() - began, True
            return halves

        return timed


Rerun = Callable[[Iterable[Any]], Halves]


def attribute(causes: Iterable[Cause], full: Halves, rerun: Rerun, clock: Clock) -> tuple[list[BudgetItem], str | None]:
    """(items, largest share first; a note if the shares could not be measured)."""
    lines: dict[str, list[Cause]] = {}
    for cause in sorted(set(causes), key=lambda c: (c[0], c[1] or "", c[2])):
        lines.setdefault(cause[0], []).append(cause)
    if full.point or not lines:
        return [], None
    keys = sorted(lines, key=lambda k: LIKELY.index(k) if k in LIKELY else len(LIKELY))
    rerun = clock.time(rerun)
    without: dict[str, Halves] = {}
    for i, k in enumerate(keys if len(keys) > 1 else []):
        if not clock.allows(len(keys) - i):
            items = [_item(k, lines[k], 0.0, 1.0) for k in keys]
            return items, "the causes of the width are not measured (too slow), they stand in the usual order"
        without[k] = rerun([k])
    lost = {k: 1.0 - full.kept(halves) for k, halves in without.items()} or {keys[0]: 1.0}
    if sum(lost.values()) <= NEGLIGIBLE:
        lost = _alone(keys, full, rerun)
    total = sum(lost.values()) or 1.0
    shrinks = {k: full.shrink(h) for k, h in without.items()}
    items = [
        _item(k, _by_size(lines[k], full, rerun, clock), lost[k] / total, shrinks.get(k, 1.0))
        for k in sorted(keys, key=lambda k: -lost[k])
        if lost[k] / total > NEGLIGIBLE
    ]
    return items, None


def _alone(keys: list[str], full: Halves, rerun: Rerun) -> dict[str, float]:
    """The width that each cause gives when all the others are silent."""
    return {k: full.kept(rerun([other for other in keys if other != k])) for k in keys}


def _by_size(lines: list[Cause], full: Halves, rerun: Rerun, clock: Clock) -> list[Cause]:
    """The lines of one cause, largest part of the bound first, as far as time allows."""
    if len(lines) == 1 or len(lines) > MAX_LINES or not clock.allows(len(lines)):
        return lines
    return sorted(lines, key=lambda line: full.kept(rerun([line])))


def _item(key: str, lines: list[Cause], share: float, shrink: float) -> BudgetItem:
    _, file, line = lines[0]
    return BudgetItem(TITLES.get(key, CAUSES.get(key, key)), key, file, line, share, shrink)
