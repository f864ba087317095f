"""Where the width of a bound comes from: shares per cause and source line.

First choice are the slices of each output's worst and median element (`render.trace`): every operation's own error
times its reach, to first order, grouped (`render.trace.adjoint`). The same sweep gives each cause's share of the error
that an execution typically makes (`render.trace.typical`): the worst case says what owns the bound, the typical one
what makes two results differ, and the two need not be the same. Where elements that matter cannot be cut out, one cause
at a time is left out instead and the run repeated: share(c) is proportional to how much the half width shrinks without
cause c. The largest cause is then left out in one real run (`confirm`), so that what is printed as a fact was run.

Nothing here looks at a clock: the same run gives the same budget. What it may cost is limited by counted work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops import scans
from interval_ops.profiles.profile import CAUSES
from render.entry.execution import WORTH_WORK
from render.explain.shares import NEGLIGIBLE, Cause, Gathered
from render.result.median import median_element
from render.result.records import BudgetBasis, Differs
from render.result.verdict import BudgetItem

if TYPE_CHECKING:
    from render.entry.execution import Entry, Execution
    from render.result.verdict import OutputVerdict
    from render.trace.accumulation.swamping import Swamping
    from render.trace.adjoint import Contributions
    from render.trace.element import Wanted
    from render.trace.model import Slice

TITLES = {
    "operand": "inputs rounded to TF32 or split bf16",
    "accumulation": "accumulation in any order",
    "atomics": "atomics in any order",
    "lowacc": "low-precision accumulator",
    "cast": "casts",
    "function": "approximate functions and division",
    "arith": "elementwise arithmetic",
    "narrow": "elementwise arithmetic in fewer bits than fp32",
    "contraction": "products that may be fused into a sum (fma contraction)",
    "jump": "a step (floor, a comparison, an integer) that falls on the other side",
    "input": "literals and arguments rounded to their format",
    "earlier": "bounds that the host or another program gave",
}
LIKELY = ("operand", "lowacc", "cast", "accumulation", "function", "arith")
"""Order in which a cause is named when nothing could be measured."""

MAX_LINES = 8


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

    def gains(self, other: Halves) -> tuple[float, ...]:
        """How many times smaller the median half width of `other` is, per output; 1 where there was none."""
        pairs = zip(self.medians, other.medians, strict=True)
        return tuple(1.0 if a <= 0 else a / b if b > 0 else np.inf for a, b in pairs)

    def shrink(self, other: Halves) -> float:
        """The same of the output that shrinks least, of those with width."""
        ratios = [gain for gain, a in zip(self.gains(other), self.medians, strict=True) if a > 0]
        return float(min(ratios)) if ratios else 1.0


def halves_of(bounds: Sequence[tuple[np.ndarray, np.ndarray]], places: Sequence[tuple[int, ...]]) -> Halves:
    medians, worsts = [], []
    for (lo, hi), place in zip(bounds, places, strict=True):
        with np.errstate(invalid="ignore"):
            half = hi - lo
        half *= 0.5
        worsts.append(float(half[place]) if half.size and np.isfinite(half[place]) else 0.0)
        finite = np.isfinite(half)
        known = half.reshape(-1) if finite.all() else half[finite]
        medians.append(scans.median(known) if known.size else 0.0)
    return Halves(tuple(medians), tuple(worsts))


def of_outputs(outputs: Iterable[OutputVerdict]) -> Halves:
    """`halves_of` the bounds that were judged, from what was measured of them."""
    medians, worsts = [], []
    for o in outputs:
        low, high = (float(end[o.worst_index]) if end.size else 0.0 for end in (o.bound.lo, o.bound.hi))
        medians.append(o.bound.median_half_width if np.isfinite(o.bound.median_half_width) else 0.0)
        worsts.append((high - low) / 2 if np.isfinite(high - low) else 0.0)
    return Halves(tuple(medians), tuple(worsts))


Rerun = Callable[[Iterable[Any]], Halves]


@dataclass(frozen=True)
class Budget:
    """The causes, largest share first, what the shares were taken from, what to say of it, and why results differ.

    `gains`: per output, how many times narrower its median half width was without the largest cause, if that was run.
    `sums`: what the accumulators behind the elements that were cut out lose on their own terms. `beside`: the elements
    that others ask for and that were cut out of the same runs.
    """

    items: list[BudgetItem]
    basis: BudgetBasis
    note: str | None = None
    differs: Differs | None = None
    gathered: Gathered | None = None
    gains: tuple[float, ...] = ()
    sums: tuple[Swamping, ...] = ()
    beside: tuple[Slice, ...] = ()


NOTHING = Budget([], BudgetBasis())


def budget(
    entry: Entry,
    run: Execution,
    outputs: Sequence[OutputVerdict],
    full: Halves,
    rerun: Rerun,
    limit: int = WORTH_WORK,
    beside: Sequence[Wanted] = (),
) -> Budget:
    """The budget of a finished run. `full`: its half widths, `rerun(mute)`: those of a run with causes left out;
    `beside`: elements that others will ask for."""
    if full.point or not run.session.causes:
        return Budget([], BudgetBasis())
    found = first_order(entry, run, outputs, beside)
    if found is not None:
        return found
    return left_out(run.session.causes, full, rerun, run.work, limit)


# first order


def first_order(
    entry: Entry, run: Execution, outputs: Sequence[OutputVerdict], beside: Sequence[Wanted] = ()
) -> Budget | None:
    """Shares from slices; None where outputs with half of the elements or more cannot be cut."""
    from render.trace.element import slices_of
    from render.trace.model import NotSliceable, Slice

    wanted = [(o, role, place) for o in outputs for role, place in _elements(o)]
    if not wanted:
        return None
    cut = slices_of(entry, run, [*((o.name, place) for o, _, place in wanted), *beside])
    found, others = cut[: len(wanted)], tuple(one for one in cut[len(wanted) :] if isinstance(one, Slice))
    gathered = Gathered({o.name: o.elements for o, _, _ in wanted})
    covered, missing = [], {}
    shares = iter(_contributions([one for one in found if isinstance(one, Slice)]))
    for (o, role, place), one in zip(wanted, found, strict=True):
        if isinstance(one, NotSliceable):
            missing[o.name] = str(one)
            continue
        here = next(shares)
        if isinstance(here, Exception):
            missing[o.name] = f"{here!r}: please report this"
            continue
        if here.total > 0 and here.half > 0:
            covered.append((o.name, place, role, here.covered))
            gathered.add(o.name, role, here)
    if not gathered.enough:
        return None
    left = [f"{name}: {why}" for name, why in missing.items() if name not in gathered.elements]
    note = f"the budget leaves out {left[0]}" if left else None
    basis = BudgetBasis("first order", tuple(covered), tuple(left))
    sums = _sums([one for one in found if isinstance(one, Slice)])
    return Budget(gathered.items(TITLES), basis, note, gathered.differs(TITLES), gathered, (), sums, others)


def _sums(slices: Sequence[Slice]) -> tuple[Swamping, ...]:
    """The accumulators of slices; nothing where one cannot be summed again, which is no part of a verdict."""
    from render.trace.accumulation.swamping import of_slices
    from render.trace.accumulation.terms import FEW
    from render.trace.model import MISHAPS

    try:
        return tuple(of_slices(slices, most=FEW))
    except MISHAPS:
        return ()


def _contributions(slices: Sequence[Slice]) -> list[Contributions | Exception]:
    """Of each slice, or why there are none."""
    from render.trace.adjoint import contributions_of
    from render.trace.batch import asked

    return asked(slices, contributions_of)


def _elements(o: OutputVerdict) -> list[tuple[str, tuple[int, ...]]]:
    """The worst and the median element that have a bound with width."""
    lo, hi = o.bound.lo, o.bound.hi
    median = median_element(lo, hi)
    if not o.elements or median is None:
        return []
    places = {"median": tuple(int(i) for i in np.unravel_index(median, lo.shape))}
    width = float(hi[o.worst_index]) - float(lo[o.worst_index])
    if width / 2 > 0 and np.isfinite(width):
        places["worst"] = o.worst_index
    return sorted(places.items(), reverse=True)


# re-runs


def left_out(causes: Iterable[Cause], full: Halves, rerun: Rerun, work: int, limit: int = WORTH_WORK) -> Budget:
    """Each cause left out in turn; the causes in their usual order where that is more work than allowed."""
    lines: dict[str, list[Cause]] = {}
    for cause in sorted(set(causes), key=lambda c: (c[0], c[1] or "", c[2])):
        lines.setdefault(cause[0], []).append(cause)
    if full.point or not lines:
        return Budget([], BudgetBasis())
    keys = sorted(lines, key=lambda k: LIKELY.index(k) if k in LIKELY else len(LIKELY))
    if len(keys) > 1 and work * len(keys) > limit:
        items = [_item(k, lines[k], 0.0, 1.0) for k in keys]
        note = "the causes of the width are not measured (too much work), they stand in the usual order"
        return Budget(items, BudgetBasis(), note)
    without = {k: rerun([k]) for k in keys} if len(keys) > 1 else {}
    lost = {k: 1.0 - full.kept(halves) for k, halves in without.items()} or {keys[0]: 1.0}
    if sum(lost.values()) <= NEGLIGIBLE:
        lost = _alone(keys, full, rerun)
    total = sum(lost.values()) or 1.0
    shrinks = {k: full.shrink(h) for k, h in without.items()}
    items = [
        _item(k, _by_size(lines[k], full, rerun, work), lost[k] / total, shrinks.get(k, 1.0))
        for k in sorted(keys, key=lambda k: -lost[k])
        if lost[k] / total > NEGLIGIBLE
    ]
    return Budget(items, BudgetBasis("re-run"))


def _alone(keys: list[str], full: Halves, rerun: Rerun) -> dict[str, float]:
    """The width that each cause gives when all the others are silent (causes of one size hide each other in a hull)."""
    return {k: full.kept(rerun([other for other in keys if other != k])) for k in keys}


def _by_size(lines: list[Cause], full: Halves, rerun: Rerun, work: int) -> list[Cause]:
    """The lines of one cause, largest part of the bound first, as far as the work allowed goes."""
    if len(lines) == 1 or len(lines) > MAX_LINES or work * len(lines) > WORTH_WORK:
        return lines
    return sorted(lines, key=lambda line: full.kept(rerun([line])))


def _item(key: str, lines: list[Cause], share: float, shrink: float) -> BudgetItem:
    _, file, line = lines[0]
    return BudgetItem(TITLES.get(key, CAUSES.get(key, key)), key, file, line, share, shrink, confirmed=shrink > 1.0)


def confirm(found: Budget, full: Halves, without: Callable[[str], Halves | None], work: int) -> Budget:
    """Leaves the largest cause out in one real run, unless that is too much work: `without(key)` gives its widths."""
    if not found.items or found.basis.method != "first order" or work > WORTH_WORK:
        return found
    top = found.items[0]
    halves = without(top.key)
    if halves is None:
        return found
    confirmed = full.kept(halves) < 1.0 - 0.25 * top.share
    items = [replace(top, shrink=full.shrink(halves), confirmed=confirmed), *found.items[1:]]
    return replace(found, items=items, gains=full.gains(halves))
