"""Is a kernel within its bound only because its own error is huge: sound, degraded (RND111) or unstable (RND206)?

    eta = max over elements of  |v - E| / D

v is what the kernel computed, E the exact reference, and D what a careful implementation of the reference's own formula
loses: a running error analysis of the reference (`Oracle.attainable`; Higham, ASNA, 3.3) with inputs off by one
rounding u of the coarsest precision that the interface declares, one rounding in every operation, sums in a tree, and
one rounding of the output. D so holds the conditioning, what the formula loses that the author of the reference wrote,
and the jumps of floor, sign or a quadrant whose operands lie within their own error of the edge. A kernel that takes
another route to the same function has eta of a few; measured forms: docs/stability.md.

Where the reference computes much more than it returns, a part of D is asked for first (`render.reference.partly`): what
is within LIMIT of that is within LIMIT of all.

An element above `LIMIT` is cut out of the run (`explain.lost_digits`), and what its slice shows is taken off: numbers
of the launch that are off by a rounding (1 - beta2 of a float argument), neighbours that share its inputs and are as
large as its error (rotations by three products), decisions whose operands are as good as those of the reference.

Grades. Let the element have log2(|E| / D) digits that its conditioning allows. Of those the kernel loses log2(eta). It
is unstable if that is half of them or more, which a jump always is, else degraded. Everything is counted or fixed:
nothing depends on a clock.

A cast or an accumulator inside the kernel that is coarser than its interface is the author's choice: if it explains
the error, the kernel is not unstable but downgraded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from interval_ops import scans
from interval_ops.allocator import little_kept
from interval_ops.formats.model import FORMATS
from render.entry.execution import Execution, on_cpu
from render.explain.study import Study
from render.interpreter.events import GIVEN, Listener, listened
from render.interpreter.handle import Handle
from render.interpreter.types import format_of
from render.reference.local_error import TORCH_FORMATS
from render.reference.oracle import LARGE, Oracle
from render.reference.shadow import Made
from render.result.blockwise import blocks, every, flat, some
from render.result.decision import Case, compare
from render.result.errors import RenderError, UnsupportedOp
from render.result.records import Instability

LIMIT = 8.0
"""Largest eta of a sound implementation."""
TF32 = 2.0**-10
ASKED_FROM = LIMIT
"""Roundings of itself that an element must be off by before the reference is run to say whether that is much."""
LOOKED_AT = 12
"""Elements above the limit that are cut out: so many of the worst, and as many among the others."""


@dataclass(frozen=True)
class Suspect:
    """One output: |v - E| and LIMIT D of every element."""

    i: int
    case: Case
    error: np.ndarray
    allowed: np.ndarray

    @property
    def eta(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.where(self.error > 0, LIMIT * self.error / self.allowed, 0.0)

    @property
    def above(self) -> bool:
        """Whether one is above the limit."""
        pairs = (scans.flats(flat(self.error, at), flat(self.allowed, at)) for at in blocks(self.error.size))
        return any(scans.further(error, allowed, LIMIT) for error, allowed in pairs)

    def chosen(self) -> list[tuple[int, ...]]:
        """The elements to look at, worst first."""
        eta = np.nan_to_num(self.eta.reshape(-1), nan=0.0)
        above = np.flatnonzero(eta > LIMIT)
        above = above[np.argsort(-eta[above], kind="stable")]
        rest = above[LOOKED_AT:]
        picked = [*above[:LOOKED_AT], *rest[:: max(1, len(rest) // LOOKED_AT)][:LOOKED_AT]]
        return [tuple(int(k) for k in np.unravel_index(j, self.error.shape)) for j in picked]


@dataclass(frozen=True)
class Careful:
    """What careful implementations of the reference lose, LIMIT times, in formats of unit roundoff `u` and `least`."""

    oracle: Oracle
    u: float
    least: float

    def reach(self, made: list[Made] | None = None) -> list[np.ndarray] | None:
        with on_cpu():
            return self.oracle.attainable(self.u, self.least, LIMIT, made)

    @cached_property
    def _part(self) -> list[np.ndarray] | None:
        """A part of the reach, where that takes much less work."""
        with on_cpu():
            return self.oracle.attainable(self.u, self.least, LIMIT, partly=True)

    @cached_property
    def _reach(self) -> list[np.ndarray] | None:
        return self.reach()

    def begin(self, cases: Sequence[Case]) -> None:
        """Looks at the part: what that takes is given back before the errors of all elements are there."""
        with little_kept(sum(case.exact.nbytes for case in cases) >= LARGE):
            _ = self._part

    def measured(self, cases: dict[int, tuple[Case, np.ndarray]], places: list[int]) -> list[Suspect]:
        """What each output loses and may lose; nothing where the reference cannot say."""
        return _measured(self._reach if cases else None, cases, places, np.inf)

    def suspects(self, cases: dict[int, tuple[Case, np.ndarray]], places: list[int]) -> list[Suspect]:
        if cases and (part := self._part) is not None and not _above_limit(_measured(part, cases, places, 0.0)):
            return []
        return _above_limit(self.measured(cases, places))


def _measured(
    reach: list[np.ndarray] | None, cases: dict[int, tuple[Case, np.ndarray]], places: list[int], unknown: float
) -> list[Suspect]:
    """`unknown`: what an output may lose where its reach is NaN."""
    found = []
    for i, (case, error) in cases.items() if reach is not None else ():
        allowed = np.nan_to_num(reach[places[i]], nan=unknown)  # type: ignore[index]
        last, floor = _last(case), _floor(case)
        allowed += LIMIT * (last * np.abs(case.exact) + floor) if last else LIMIT * floor
        found.append(Suspect(i, case, error, allowed))
    return found


def _above_limit(found: list[Suspect]) -> list[Suspect]:
    return [at for at in found if at.above]


def instability(study: Study, run: Execution, oracle: Oracle, places: list[int]) -> Instability | None:
    """The worst element of a kernel that is not stable, with its grade; None for a stable one.

    `places` are the outputs' places in what the reference returns. `downgrade` in the answer: a coarser format inside
    the kernel explains the error.
    """
    u = declared(study, run)
    careful = Careful(oracle, u, min(u, FORMATS["fp32"].u))
    errors: dict[int, tuple[Case, np.ndarray]] = {}
    asked = [i for i, c in enumerate(study.cases) if _far(c)]
    for less_own in (False, True):  # most kernels are stable even with E's own error on top
        asked = [i for i in asked if _asked(study.cases[i], less_own)]
        if not asked:
            return None
        careful.begin([study.cases[i] for i in asked])
        errors = {i: (study.cases[i], _errors(study.cases[i], less_own)) for i in asked}
        suspects = careful.suspects(errors, places)
        if not suspects:
            return None
    inner = coarsest(study)
    if inner > careful.least and not _above(careful, inner, errors, places):
        worst = max(suspects, key=lambda s: float(np.nanmax(s.eta)))
        place = worst.chosen()[0]
        if inner <= u:  # arithmetic in the format of the interface, as the interface says
            return None
        eta = float(worst.eta[place])
        return Instability(worst.case.name, place, eta, _other(worst, place), downgrade=True, grade="downgrade")
    return _graded(study, run, careful, suspects)


def _above(careful: Careful, inner: float, errors: dict[int, tuple[Case, np.ndarray]], places: list[int]) -> bool:
    """Whether even an implementation in the coarsest format inside would do better."""
    return bool(Careful(careful.oracle, max(careful.u, inner), inner).suspects(errors, places))


def _other(suspect: Suspect, place: tuple[int, ...]) -> float:
    """The reference's own eta there."""
    with np.errstate(all="ignore"):
        off = LIMIT * np.abs(suspect.case.ref[place] - suspect.case.exact[place]) / suspect.allowed[place]
    return float(np.nan_to_num(off, nan=0.0))


def _graded(study: Study, run: Execution, careful: Careful, suspects: Sequence[Suspect]) -> Instability | None:
    from render.explain.lost_digits import Examined, examined

    found: list[tuple[Instability, Examined]] = []
    for suspect in suspects:
        for at in examined(study, run, careful, suspect, suspects):
            size, d = max(abs(at.exact), at.beside), at.allowed / LIMIT
            eta = at.error / d if d else np.inf
            if not eta > LIMIT:
                continue
            lost, kept = np.log2(eta), max(np.log2(size / d), 0.0) if d and size else 0.0
            unstable = 2 * lost >= kept
            digits = float(min(lost, kept) * np.log10(2))
            other = _other(suspect, at.index)
            file, line, growth = at.spot or (None, 0, 0.0)
            weak = Instability(
                suspect.case.name, at.index, float(eta), other, False, file, line, growth, at.spot is not None,
                "unstable" if unstable else "degraded", digits, at.better, at.decision,
            )  # fmt: skip
            found.append((weak, at))
    return max((w for w, _ in found), key=lambda w: (w.grade == "unstable", w.eta), default=None)


def _finest(case: Case) -> float:
    assert case.fmt is not None and case.ref_fmt is not None
    return max(case.fmt.u, case.ref_fmt.u)


def _last(case: Case) -> float:
    """Unit roundoff of the output where the reference's own is finer, and so without that rounding."""
    assert case.fmt is not None and case.ref_fmt is not None
    return case.fmt.u if case.fmt.u > case.ref_fmt.u else 0.0


def _floor(case: Case) -> float:
    assert case.fmt is not None and case.ref_fmt is not None
    return max(case.fmt.half_subnormal, case.ref_fmt.half_subnormal)


def _far(case: Case) -> bool:
    """Whether any finite |v - E| is to be asked about: one look at each element, before masks and E's own error."""
    if case.mismatch or case.unruled or case.fmt is None or case.ref_fmt is None:
        return False  # eigenvectors have any sign, and random numbers any value
    pairs = (scans.flats(flat(case.value, at), flat(case.exact, at)) for at in blocks(case.value.size))
    return any(scans.off(v, e, ASKED_FROM, _finest(case), _floor(case)) for v, e in pairs)


def _errors(case: Case, less_own: bool = True) -> np.ndarray:
    """|v - E| where it counts, of every element."""
    found = np.empty(case.exact.shape)
    for at, error in _error_blocks(case, less_own):
        found.reshape(-1)[at] = error
    return found


def _error_blocks(case: Case, less_own: bool) -> Iterator[tuple[slice, np.ndarray]]:
    """`_errors`, a part after the other. E's error is taken off if `less_own`: it costs a run of the reference."""
    masks, ends = compare(case), case.exact_ends() if less_own else None
    aside = not every(masks.stored) or some(masks.settled)
    moved = None if case.moved is None else np.broadcast_to(case.moved, case.exact.shape)
    for at in blocks(case.exact.size):
        value, exact = scans.flats(flat(case.value, at), flat(case.exact, at))
        error = np.empty(exact.shape)
        scans.distances(value, exact, error)
        if ends is not None:
            lo, hi = (flat(x, at) for x in ends)
            with np.errstate(invalid="ignore"):
                error -= np.nan_to_num((hi - lo) / 2, nan=np.inf, posinf=np.inf)
            np.maximum(error, 0.0, out=error)
        if aside:
            error[~flat(masks.stored, at) | flat(masks.settled, at)] = 0.0
        if moved is not None:
            error[flat(moved, at)] = 0.0
        yield at, error


def _asked(case: Case, less_own: bool) -> bool:
    """Whether an element is off by so many roundings of itself that the reference is run."""
    u, floor = _finest(case), _floor(case)
    parts = (scans.flats(error, flat(case.exact, at)) for at, error in _error_blocks(case, less_own))
    return any(scans.exceeds(error, exact, ASKED_FROM, u, floor) for error, exact in parts)


def declared(study: Study, run: Execution) -> float:
    """Unit roundoff of the coarsest precision of the interface."""
    formats = [TORCH_FORMATS.get(x.dtype) for x in study.entry.inputs.values.values() if isinstance(x, torch.Tensor)]
    formats += [f for case in study.cases for f in (case.fmt, case.ref_fmt)]
    units = [f.u for f in formats if f is not None]
    if any(cause[0] == "operand" for cause in run.session.causes):
        units.append(TF32)
    return max(units, default=FORMATS["fp32"].u)


class _Formats(Listener):
    """The coarsest float format of any result."""

    def __init__(self) -> None:
        self.unit = 0.0

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        for out in () if op in ("load", "atomic") or op in GIVEN else outs:
            if (fmt := format_of(out.dtype)) is not None:
                self.unit = max(self.unit, fmt.u)


def coarsest(study: Study) -> float:
    """Unit roundoff of the coarsest format that the kernel, or the host before it, computes in (by a re-run)."""
    formats = _Formats()
    run = study.run({"interval": False, "builder": listened(formats)})
    found: float = max([formats.unit, *run.session.host_roundings.values()])
    return found


def cancelling_line(study: Study) -> tuple[str, int, float] | None:
    """(file, line, factor) where the relative width of the bound grows most over that of its operands."""
    from render.explain.lines import line_widths

    try:
        widths = line_widths(study)
    except (RenderError, UnsupportedOp):
        return None
    grown = [(w.relative / w.operands, w) for w in widths if w.operands > 0 and np.isfinite(w.relative)]
    if not grown:
        return None
    factor, width = max(grown, key=lambda g: g[0])
    return width.file, width.line, factor
