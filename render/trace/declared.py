"""Are the errors of an output those of its declared precision, sums kept in float32 and one last rounding?

The roundings behind some elements, taken as independent (`trace.typical`), less those of sums in fewer bits than fp32
(`accumulation.terms.low_sums`: short accumulators, and partial sums that are stored in a short format), give a band of
6 standard deviations. Whose errors leave it keeps sums too short. An estimate: it grades what is within the bound.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from interval_ops import scans
from render.entry.execution import Execution
from render.result.decision import Case
from render.result.loose import rounding_of
from render.result.margins import probable
from render.trace.accumulation.swamping import spread
from render.trace.accumulation.terms import LowSum, RoundedAt, low_sums
from render.trace.adjoint import Contributions, contributions_of
from render.trace.batch import batches
from render.trace.element import slices_of
from render.trace.model import Slice

ELEMENTS = 16
"""Elements of an output that are cut out, beside its worst one."""
LOOKS = 2
"""Elements of a first look: where those of the whole sample make a wider band, what is within theirs is within that."""


class DeclaredBand(NamedTuple):
    """Of one output. `reach`: of every element, 6 standard deviations of the declared precision and one rounding.

    `declared`, `own`: errors over that, and over the kernel's own, at the worst element that was cut out (above 1:
    outside). `hollow`: the own band is as large as the output. `cause`: the line of low precision that makes most of
    what is not declared, if that is half of all, and its `share` of the mean square error before the last rounding.
    `slices`: what was cut.
    """

    output: str
    reach: np.ndarray
    declared: float
    own: float
    hollow: bool
    cause: LowSum | None
    share: float
    slices: tuple[Slice, ...]

    @property
    def place(self) -> str:
        """`fp16 accumulator, kernel.py:58`."""
        if self.cause is None:
            return "no sum is kept in low precision"
        return f"{self.cause.what}, {os.path.basename(self.cause.file)}:{self.cause.line}"

    @property
    def sentence(self) -> str:
        part = f", {100 * self.share:.3g} % of the mean square error" if self.cause is not None else ""
        return f"{self.place}{part}"


def band_of(entry: Any, run: Execution, case: Case) -> DeclaredBand | None:
    """The band of an output; None where no element can be cut out."""
    return bands_of(entry, run, [case])[0]


def bands_of(entry: Any, run: Execution, cases: Sequence[Case]) -> list[DeclaredBand | None]:
    """The band of each output; their elements share runs, but for those of which that gives none."""
    wanted = [[(case.name, at) for at in _places(case)] for case in cases]
    cut = iter(slices_of(entry, run, [one for group in wanted for one in group]))
    found = [[s for s in islice(cut, len(group)) if isinstance(s, Slice)] for group in wanted]
    if len(cases) > 1:  # all at once may be more than a recording keeps
        alone = (
            slices_of(entry, run, group) if group and not slices else slices
            for group, slices in zip(wanted, found, strict=True)
        )
        found = [[s for s in slices if isinstance(s, Slice)] for slices in alone]
    return [band_from(case, slices) if slices else None for case, slices in zip(cases, found, strict=True)]


def first_look(case: Case) -> list[tuple[str, tuple[int, ...]]]:
    """Some of the elements that `bands_of` cuts out."""
    places = _places(case)
    return [(case.name, at) for at in dict.fromkeys([places[0], places[len(places) // 2]])] if places else []


def _error(case: Case) -> np.ndarray:
    found: np.ndarray = np.abs(np.asarray(case.value, np.float64) - np.asarray(case.exact, np.float64))
    return found


def _places(case: Case) -> list[tuple[int, ...]]:
    """The elements that are cut out."""
    error = _error(case)
    if case.fmt is None or not error.size:
        return []
    worst = np.unravel_index(int(np.nan_to_num(error).argmax()), error.shape)
    return sorted({*spread(error.shape, ELEMENTS), tuple(int(i) for i in worst)})


def band_from(case: Case, slices: Sequence[Slice]) -> DeclaredBand:
    """The band that these of its elements make."""
    exact, error, rounding = np.asarray(case.exact, np.float64), _error(case), rounding_of(case)
    low: dict[LowSum, float] = {}
    declared, own, hollow, total, widest = 0.0, 0.0, 0, 0.0, 0.0
    middle = scans.median(np.abs(exact).reshape(-1))
    for members, batch in batches(slices):
        for found, parts in zip((slices[m] for m in members), contributions_of(batch), strict=True):
            last = min(parts.last, float(rounding[found.index]) ** 2 / 3)
            whole, inner = sum(parts.squares.values()), _undeclared(parts, low_sums(found), last)
            rest = max(whole - sum(inner.values()), 0.0)
            for key, square in inner.items():
                low[key] = low.get(key, 0.0) + square
            at = float(error[found.index]), float(rounding[found.index])
            declared, own = max(declared, _over(*at, rest)), max(own, _over(*at, whole))
            hollow += probable(whole) > max(abs(found.v), middle)
            total += whole - last
            widest = max(widest, rest - min(rest, last))
    cause = max(low, key=lambda k: low[k], default=None)
    if cause is not None and low[cause] < 0.5 * total:
        cause = None
    share = low[cause] / total if cause is not None and total else 0.0
    reach = rounding + probable(widest)
    return DeclaredBand(case.name, reach, declared, own, 2 * hollow > len(slices), cause, share, tuple(slices))


def _over(error: float, rounding: float, square: float) -> float:
    """Error over the band: 6 standard deviations and the last rounding."""
    reach = probable(square) + rounding
    return 0.0 if error == 0 else error / reach if reach else math.inf


def _undeclared(parts: Contributions, low: dict[RoundedAt, LowSum], last: float) -> dict[LowSum, float]:
    """Mean squares of low-precision sums inside; the element's one last rounding is declared."""
    found: dict[LowSum, float] = {}
    for (cause, file, line), square in parts.squares.items():
        one = low.get(RoundedAt(cause == "cast", file, line))
        if one is not None:
            own = last if (cause, file, line) == parts.end else 0.0
            found[one] = found.get(one, 0.0) + max(0.0, square - own)
    return {key: square for key, square in found.items() if square > 0}


__all__ = ["DeclaredBand", "band_from", "band_of", "bands_of", "first_look"]
