"""One verdict from all evidence: the bound, the probabilistic band, Dual-Delta and the accumulators of one kernel.

Five fields, each of its own kind, and a table whose first row that holds decides:
  R  inside, outside or unbounded: what the verdict says of the bound (proof)
  W  median width of the bound over the default tolerance of the dtype (proof)
  P  whether the errors lie in 6 standard deviations of what the declared precision typically makes: every rounding of
     the run but low-precision casts and accumulators inside, and the last rounding (estimate)
  D  Dual-Delta: equivalent, worse, better or undecided (measurement)
  A  ok or short: accumulators simulated on their own terms (measurement); their VRR stands beside (index)
Statistics never turn outside into Type-I, and the index changes no label. A bound without power may be replaced by the
estimate of what the kernel's own roundings make: then the verdict is a Type-I that names the low precision. Factor 6
and the other thresholds are choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from render.companions.dual_delta.experiment import DualDelta
from render.result.errors import RenderError, expect
from render.result.loose import LOOSE, reproduced, width_of
from render.result.margins import SIGMA
from render.result.records import Evidence
from render.result.verdict import Verdict
from render.trace.accumulation.swamping import Swamping, evidence_of, of_run
from render.trace.declared import DeclaredBand, band_of
from render.trace.observed import observed

POWERLESS, PROBABLE = "RND301", "RND120"
_BOUND = {"Type-I": "inside", "Type-II": "outside"}


@dataclass(frozen=True)
class Fields:
    """R, W, P, D, A; `reproduced`: a legal execution has errors of the observed size (without a device output the
    interpreter's own run is one)."""

    bound: str
    width: float
    probable: bool
    accuracy: str
    accumulator: str
    powerless: bool = False
    own: bool = False
    reproduced: bool = True

    @property
    def loose(self) -> bool:
        return self.width > LOOSE

    @property
    def equal(self) -> bool:
        return self.accuracy == "equivalent"

    @property
    def worse(self) -> bool:
        return self.accuracy == "worse"

    @property
    def ok(self) -> bool:
        return self.accumulator != "short"


SHORT = "the accumulator is too short"


class Told(NamedTuple):
    """What a row of the table says; label "" keeps the verdict's own."""

    label: str
    code: str
    subtype: str
    advice: str


_KEEP = ("", "", "")
TABLE: Sequence[tuple[Callable[[Fields], bool], Told]] = (
    (lambda f: f.bound == "outside" and f.equal,
     Told(*_KEEP, "as accurate as the reference: suspect the reference, or a precision that was not declared")),
    (lambda f: f.bound == "outside", Told(*_KEEP, "a bug, or a dtype that was not declared: judge with the accumulator "
                                                 "and casts that are really used first")),
    (lambda f: f.bound == "unbounded" and f.powerless and f.own,
     Told("Type-I", PROBABLE, "probabilistic", "the bound has no power; what the low precision typically loses "
                                              "explains all differences (an estimate)")),
    (lambda f: f.bound == "unbounded", Told(*_KEEP, "no bound: the accuracy is told and decides nothing")),
    (lambda f: f.equal and f.ok and not f.loose, Told(*_KEEP, "strong: a narrow bound and equivalent errors")),
    (lambda f: f.equal and f.ok, Told(*_KEEP, "the bound is loose: the equivalence of the errors carries it")),
    (lambda f: f.probable and f.accuracy == "undecided" and f.ok,
     Told(*_KEEP, "within what roundings typically make; more inputs would decide about the accuracy")),
    (lambda f: f.loose and f.worse and not f.ok, Told("Type-I", "RND111", "degraded", SHORT)),
    (lambda f: f.worse and not f.probable and (f.reproduced or not f.loose),
     Told("Type-I", "RND111", "degraded", "legal, and systematically less accurate than the declared precision")),
    (lambda f: f.worse and f.loose and f.ok,
     Told("Inconclusive", POWERLESS, "", "less accurate than the reference under a loose bound and with an adequate "
                                        "accumulator: a bug may hide there; bisect, or run in higher precision")),
    (lambda f: True, Told(*_KEEP, "nothing contradicts the bound")),
)  # fmt: skip
"""The first row that holds decides."""


def decided(fields: Fields) -> Told:
    """The first row that holds."""
    return next(row for holds, row in TABLE if holds(fields))


def combined(verdict: Verdict, dual: DualDelta | None = None) -> Verdict:
    """The verdict with the companions' evidence, and with the label that the table gives to all of it.

    `dual`: what `dual_delta` found of the same two functions; without it, it is not asked. Needs the verdict as
    `classify` returned it (a loaded one cannot be run again). Raises RenderError otherwise.

        render.combined(render.classify(softmax, x, ref=lambda x: torch.softmax(x, 1))).code
    """
    expect("the verdict", verdict, Verdict)
    study = verdict.study
    if study is None:
        raise RenderError("RND902", "this verdict cannot be run again", "pass the verdict that classify() returned")
    run = observed(study.entry)
    swamping = of_run(study.entry, run)
    bands = [b for case in study.cases if not case.mismatch and (b := band_of(study.entry, run, case)) is not None]
    band = max(bands, key=lambda b: b.declared, default=None)
    powerless = verdict.code in (POWERLESS, PROBABLE)
    fields = Fields(
        "unbounded" if powerless else _BOUND.get(verdict.label, "unbounded"), width_of(study.cases),
        band is not None and band.declared <= 1, dual.outcome if dual is not None else "undecided",
        _accumulator(swamping), powerless, bool(bands) and all(b.own <= 1 and not b.hollow for b in bands),
        all(reproduced(case) for case in study.cases),
    )  # fmt: skip
    row = decided(fields)
    facts = _together(verdict.evidence, _evidence(fields, row, band, swamping, dual))
    named = f": {band.sentence}" if band is not None and band.cause is not None else ""
    found = replace(verdict, evidence=facts, notes=(*verdict.notes, f"companions: {row.advice}{named}"))
    if not row.label or (row.label, row.code) == (verdict.label, verdict.code) != ("Type-I", PROBABLE):
        return found
    return _relabelled(found, row, band, swamping)


def _together(known: Sequence[Evidence], more: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Both, one of each name."""
    names = {one.name for one in known}
    return (*known, *(one for one in more if one.name not in names))


def _relabelled(verdict: Verdict, row: Told, band: DeclaredBand | None, swamping: Sequence[Swamping]) -> Verdict:
    from render.result import codes

    entry = codes.find(row.code)
    short = next((s.sentence for s in swamping if s.short), "")
    detail = short if row.advice == SHORT else band.sentence if band is not None else ""
    message = f"{row.advice}{f': {detail}' if detail else ''}"
    where: dict[str, Any] = {}
    if band is not None and band.cause is not None:
        where = {"file": band.cause.file, "line": band.cause.line, "column": 0, "end_column": 0}
    label: Any = row.label
    exit_code = codes.EXIT_CODES[label]
    return replace(verdict, label=label, code=row.code, subtype=row.subtype, message=message, exit_code=exit_code,
                   help=tuple(entry.steps), **where)  # fmt: skip


def _evidence(
    fields: Fields, row: Told, band: DeclaredBand | None, swamping: Sequence[Swamping], dual: DualDelta | None
) -> list[Evidence]:
    said = [Evidence("proof", "companions/bound", fields.bound, f"the bound: {fields.bound}"),
            Evidence("proof", "companions/width", fields.width,
                     f"median width {fields.width:.3g} times the default tolerance")]  # fmt: skip
    if band is not None:
        said.append(Evidence("estimate", "companions/band", band.declared,
                             f"errors of {band.declared:.3g} times {SIGMA:g} sd of the declared precision, "
                             f"{band.own:.3g} times those of the kernel's own; {band.sentence}"))  # fmt: skip
    if dual is not None:
        from render.companions.dual_delta.report import sentence

        said.append(Evidence("measurement", "companions/dual_delta", dual.outcome, sentence(dual)))
    said += evidence_of(swamping)
    return [*said, Evidence("estimate", "companions/advice", row.advice, row.advice)]


def _accumulator(swamping: Sequence[Swamping]) -> str:
    return "n/a" if not swamping else "short" if any(s.short for s in swamping) else "ok"
