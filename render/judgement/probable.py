"""Where the bound is hollow: do independent roundings explain the outputs? The labelled probabilistic band.

A bound holds every legal execution, and that of a float16 sum of 4096 terms holds zeros as well. What its roundings
make if they fall independently of each other is hundreds of times less: six standard deviations of the slice's
roundings, with the signed first-order weight of each, through earlier launches too (`trace.typical`,
`margins.probable`). A verdict that is Inconclusive because its bound is hollow (RND301) becomes a Type-I,
*probabilistic* (RND120), if

- kernel and reference agree without any rounding (`judgement.unrounded`): only the sizes of errors are left to explain;
- what kernel (or device) and reference returned lies around E within the band, at the elements looked at, and at the
  others within the band that the narrowest share of their bound gives, or within their own where that is too narrow;
- the band is not hollow itself, by the rules that the bound is asked by.

Elements looked at are those that use most of their bound, and some spread evenly. It is an estimate: nothing that is
outside a bound comes here, and where a slice cannot be cut the verdict stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from render.entry.execution import Entry, Execution
from render.judgement import hollow
from render.judgement.unrounded import comparable
from render.result.decision import Case, Decision
from render.result.margins import SIGMA
from render.result.records import Evidence, Unrounded
from render.trace.adjoint import contributions_of
from render.trace.batch import batches
from render.trace.element import slices_of
from render.trace.model import Slice

CODE = "RND120"
POWERLESS = "RND301"
MOST, SPREAD = 16, 8
"""Elements of each output that are cut out: those that use most of their bound, and some spread evenly."""

LIMIT = 256
"""Elements that are cut out at most."""

Again = Callable[[Sequence[Case], Decision], Decision]
"""Is a bound (here: the band) hollow at the elements that differ?"""


@dataclass(frozen=True)
class Band:
    """Of one output: the largest error over its band (`usage`), the median of band over bound (`share`), and how many
    of its elements were cut out. `reach`: the band of every element, where not cut out by the narrowest share."""

    output: str
    usage: float
    share: float
    looked: int
    elements: int
    reach: np.ndarray

    @property
    def sentence(self) -> str:
        return (
            f"the rigorous bound of {self.output} is too wide to say anything; its errors reach "
            f"{self.usage * SIGMA:.2g} standard deviations of independent roundings, of {SIGMA:g} that are allowed"
        )

    @property
    def evidence(self) -> Evidence:
        return Evidence("estimate", f"outputs/{self.output}/band", self.usage, self.sentence)


def decided(
    entry: Entry,
    run: Execution,
    cases: Sequence[Case],
    decisions: Sequence[Decision],
    answers: Sequence[Unrounded],
    decision: Decision,
    again: Again,
) -> tuple[tuple[Band, ...], Decision]:
    """(bands, the decision in their light). `decisions`: those of the single outputs."""
    others = {d.code for d in decisions if d.label != "Type-I"}
    if decision.label != "Inconclusive" or decision.code != POWERLESS or others > {POWERLESS}:
        return (), decision
    asked = [c for c, d in zip(cases, decisions, strict=True) if d.code == POWERLESS or hollow.differing(c).any()]
    agree = {a.output for a in answers if a.compared and not a.differing}
    if not asked or any(not comparable(case) or case.name not in agree for case in asked):
        return (), decision
    found: dict[str, Band] = {}
    for case in asked:
        band = band_of(entry, run, case)
        if band is None or not band.usage <= 1 or _holds_zeros(case, band):
            return (), decision
        found[case.name] = band
    plain = Decision("Type-I", CODE, max(found.values(), key=lambda b: b.usage).sentence)
    narrower = [_within(c, found[c.name]) if c.name in found else c for c in cases]
    return (tuple(found.values()), plain) if again(narrower, plain).label == "Type-I" else ((), decision)


def _within(case: Case, band: Band) -> Case:
    return replace(case, lo=case.exact - band.reach, hi=case.exact + band.reach)


def _holds_zeros(case: Case, band: Band) -> bool:
    """Whether zeros would lie in the band of most elements that are not zero."""
    size = np.abs(np.asarray(case.exact, np.float64))
    hollow_at = np.count_nonzero((band.reach >= size) & (size > 0))
    return bool(size.any()) and 2 * int(hollow_at) > int(np.count_nonzero(size))


def band_of(entry: Entry, run: Execution, case: Case) -> Band | None:
    """The band of an output and how much of it is used; None where an element cannot be cut out."""
    exact = np.asarray(case.exact, np.float64)
    with np.errstate(all="ignore"):
        half = (np.asarray(case.hi, np.float64) - case.lo) / 2
        error = np.abs(np.asarray(case.value if case.device is None else case.device, np.float64) - exact)
        theirs = np.abs(np.asarray(case.ref, np.float64) - exact)
        own = case.radius()
        theirs = np.where(theirs <= (-1.0 if own is None else np.nan_to_num(own)), 0.0, theirs)
        off = np.fmax(error, theirs)
        used = np.where(off > 0, off / half, 0.0)
    if not np.isfinite(half).all() or not np.isfinite(off).all():
        return None
    bands: dict[int, float] = {}
    halves, last, wide = half.reshape(-1), _last(case).reshape(-1), off.reshape(-1)
    places = _places(used)
    while places.size:
        cut = _reaches(entry, run, case.name, places, off.shape)
        if cut is None:
            return None
        bands |= dict(zip(places.tolist(), cut, strict=True))
        at, of_these = np.array(list(bands)), np.array(list(bands.values()))
        shares = of_these[halves[at] > 0] / halves[at][halves[at] > 0]
        narrowest = float(shares.min(initial=np.inf))
        whole = halves * (narrowest if np.isfinite(narrowest) else 0.0)
        whole[at] = of_these
        whole += last
        with np.errstate(all="ignore"):
            usage = np.where(wide > 0, wide / whole, 0.0)
        open_ = np.flatnonzero(usage > 1)
        if usage[at].max(initial=0.0) > 1 or not open_.size or open_.size + at.size > LIMIT:
            break
        places = open_  # the narrowest share is too little there: the element's own band says
    share = float(np.median(shares)) if shares.size else 0.0
    return Band(case.name, float(usage.max(initial=0.0)), share, len(bands), off.size, whole.reshape(off.shape))


def _reaches(entry: Entry, run: Execution, name: str, places: np.ndarray, shape: tuple[int, ...]) -> list[float] | None:
    """The bands of these elements; None where one cannot be cut out."""
    wanted = [(name, tuple(int(k) for k in np.unravel_index(i, shape))) for i in places]
    slices = [one for one in slices_of(entry, run, wanted) if isinstance(one, Slice)]
    if len(slices) < len(wanted):
        return None
    reach = [0.0] * len(wanted)
    for members, batch in batches(slices):
        for m, parts in zip(members, contributions_of(batch), strict=True):
            reach[m] = parts.band
    return reach


def _places(used: np.ndarray) -> np.ndarray:
    flat = used.reshape(-1)
    top = np.argsort(-flat, kind="stable")[:MOST]
    spread = ((np.arange(SPREAD) + 0.5) * flat.size / SPREAD).astype(np.int64)
    return np.unique(np.concatenate([top, spread]))


def _last(case: Case) -> np.ndarray:
    """One rounding of the coarser output at E."""
    assert case.fmt is not None and case.ref_fmt is not None
    fmt = max(case.fmt, case.ref_fmt, key=lambda f: f.u)
    found: np.ndarray = fmt.u * np.abs(np.asarray(case.exact, np.float64)) + fmt.half_subnormal
    return found
