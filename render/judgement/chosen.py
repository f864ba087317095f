"""Decisions that bounds leave open, where no bound holds every way to decide: each way by itself.

A sort with ties whose order unsorts the results, a mask whose places are compacted, keys packed into integers: what
follows has no bound that says anything (RND302, RND303). Then the program runs with these decisions as its values make
them, and again as bounds let them go otherwise (`render.interpreter.choices`). A bound of one such run is part of the
bound of all: a reference that lies in one of them, element by element, differs by round-off. One that lies in none is
told to be wrong only in elements that no decision moves, for not every way was tried: they come out the same in all
runs, and the second evaluation has to confirm them as anywhere. What else there is stays Inconclusive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from render.entry.execution import FAILURES, Entry, Execution, Tensor
from render.interpreter.choices import Choices
from render.judgement.composition import NEVER_WRITTEN, UNKNOWN, Judged, leaves_open, untracked
from render.result.decision import Case, Decision, compare
from render.result.defects import caught

ASKED = frozenset(["RND302", "RND303"])
TURNS = 4
"""As the values decide, two opposite ways, and one that is drawn."""
SHOWN = 3
"""Places in a sentence."""


@dataclass(frozen=True)
class Chosen:
    """The program with its open decisions as its values make them: entry, run, and outputs by the bounds of all runs.

    An element that has other bounds in another run is `Case.moved`.
    """

    entry: Entry
    run: Execution
    judged: list[Judged]
    sentence: str

    def holds(self, decision: Decision) -> bool:
        """Whether that is a verdict on the program: right, or wrong in an element that no decision moves."""
        if decision.label != "Type-II":
            return decision.label == "Type-I"
        cases = [j.case for j in self.judged if not j.case.mismatch]
        masks = [(compare(case), case.moved) for case in cases]
        return any(((m.outside_exact | m.nonfinite) & ~moved).any() for m, moved in masks if moved is not None)


def chosen(entry: Entry, judged: Sequence[Judged]) -> Chosen | None:
    """None where no decision is open, or the ways to decide give other shapes."""
    first, run = _turned(entry, 0)
    if run is None or not (met := _choices(run).met):
        return None
    tensors = [[run.output(j.case.name) for j in judged]]
    for turn in range(1, TURNS):
        other = _turned(entry, turn)[1]
        if other is None:
            return None
        tensors.append([other.output(j.case.name) for j in judged])
    found = []
    for k, j in enumerate(judged):
        turns = [row[k] for row in tensors]
        if any(t.lo.shape != j.case.lo.shape for t in turns):
            return None
        found.append(_joined(j, run, turns))
    places = [f"{file.rsplit('/', 1)[-1]}:{line}" for file, line in met]
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    sentence = (
        f"the bounds leave decisions open ({', '.join(places[:SHOWN])}{more}): it was run as its values "
        f"decide and {TURNS - 1} other ways, and each of them is judged; not every way was"
    )
    return Chosen(first, run, found, sentence)


def _turned(entry: Entry, turn: int) -> tuple[Entry, Execution | None]:
    changed = replace(entry, options={**entry.options, "choice": turn})
    try:
        return changed, changed.run()
    except FAILURES as error:  # a way that the values do not take may lead anywhere
        caught(error, "a decision taken otherwise")
        return changed, None


def _choices(run: Execution) -> Choices:
    found: Choices = run.session.memory.choices
    return found


def _joined(j: Judged, run: Execution, turns: Sequence[Tensor]) -> Judged:
    """The output by the run of the values and, where that misses the reference, the nearest other one beside it."""
    case, ours = j.case, turns[0]
    if case.mismatch:
        return j
    tracked = all(t.tracked for t in turns)
    if not tracked:
        ours = untracked(replace(ours, tracked=False), case.ref)
    noted = [run.session.taints[t] for t in ours.taints if t in run.session.taints]
    taints = {t.code for t in noted} - {NEVER_WRITTEN} | (set() if ours.tracked else {UNKNOWN})
    lo, hi = ours.lo, ours.hi
    if tracked:
        best = np.argmin([_miss(case, t) for t in turns], axis=0)
        lo, hi = (join(end, np.choose(best, ends)) for end, ends, join in
                  ((lo, [t.lo for t in turns], np.minimum), (hi, [t.hi for t in turns], np.maximum)))  # fmt: skip
    unruled = not ours.tracked or any(map(leaves_open, noted))
    moved = np.logical_or.reduce([(t.lo != ours.lo) | (t.hi != ours.hi) for t in turns[1:]])
    case = replace(case, lo=lo, hi=hi, value=ours.value, unstored=ours.unstored, taints=frozenset(taints),
                   unruled=unruled, moved=moved)  # fmt: skip
    return replace(j, case=case, ours=replace(ours, lo=lo, hi=hi))


def _miss(case: Case, t: Tensor) -> np.ndarray:
    """How far E and y_ref lie outside."""
    with np.errstate(invalid="ignore"):
        found = [np.maximum(np.maximum(t.lo - x, x - t.hi), 0.0) for x in (case.exact, case.ref)]
        return np.asarray(np.nan_to_num(found[0] + found[1], nan=0.0, posinf=np.inf))
