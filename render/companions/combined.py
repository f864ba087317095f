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

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from render.companions.accumulation.swamping import Swamping, of_run, spread
from render.companions.dual_delta.experiment import DualDelta
from render.entry.execution import Execution
from render.result.decision import Case
from render.result.errors import RenderError
from render.result.margins import SIGMA, probable
from render.result.records import Evidence
from render.result.verdict import Verdict
from render.trace.adjoint import Contributions, Key, contributions
from render.trace.element import slices_of
from render.trace.model import Slice
from render.trace.observed import observed

WIDE = 10.0
"""W beyond which a bound is loose."""
POWERLESS, PROBABLE = "RND301", "RND120"
_BOUND = {"Type-I": "inside", "Type-II": "outside"}
_LOW = ("cast", "lowacc")
_ELEMENTS = 16
_TOLERANCES = {"fp16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5), "fp32": (1.3e-6, 1e-5), "fp64": (1e-7, 1e-7)}
"""rtol, atol of torch.testing.assert_close."""


class DeclaredBand(NamedTuple):
    """`declared`, `own`: errors in 6 standard deviations of the declared precision, and of the kernel's own, at the
    worst element (above 1: outside). `hollow`: the own band is as large as the output. `cause`: the low precision that
    makes most of what is not declared, its format, and its share of the kernel's mean square error."""

    declared: float
    own: float
    hollow: bool
    cause: Key | None
    fmt: str
    share: float

    @property
    def sentence(self) -> str:
        if self.cause is None:
            return "no low precision inside"
        cause, file, line = self.cause
        what = (
            f"{self.fmt or 'low-precision'} accumulator"
            if cause == "lowacc"
            else f"low-precision partials ({self.fmt})"
        )
        return f"{what}, {Path(file).name}:{line}, {100 * self.share:.3g} % of the mean square error"


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
        return self.width > WIDE

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

    Needs the verdict as `classify` returned it (a loaded one cannot be run again). Raises RenderError otherwise.
    """
    study = verdict.study
    if study is None:
        raise RenderError("RND902", "this verdict cannot be run again", "pass the verdict that classify() returned")
    run = observed(study.entry)
    swamping = of_run(study.entry, run)
    band = band_of(study.entry, run, study.cases)
    powerless = verdict.code in (POWERLESS, PROBABLE)
    fields = Fields(
        "unbounded" if powerless else _BOUND.get(verdict.label, "unbounded"), width_of(study.cases),
        band is not None and band.declared <= 1, dual.outcome if dual is not None else "undecided",
        _accumulator(swamping), powerless, band is not None and band.own <= 1 and not band.hollow,
        _reproduced(study.cases),
    )  # fmt: skip
    row = decided(fields)
    facts = (*verdict.evidence, *_evidence(fields, row, band, swamping, dual))
    named = f": {band.sentence}" if band is not None and band.cause is not None else ""
    found = replace(verdict, evidence=facts, notes=(*verdict.notes, f"companions: {row.advice}{named}"))
    if not row.label or (row.label, row.code) == (verdict.label, verdict.code) != ("Type-I", PROBABLE):
        return found
    return _relabelled(found, row, band, swamping)


def _relabelled(verdict: Verdict, row: Told, band: DeclaredBand | None, swamping: Sequence[Swamping]) -> Verdict:
    from render.result import codes

    entry = codes.find(row.code)
    short = next((s.sentence for s in swamping if s.short), "")
    detail = short if row.advice == SHORT else band.sentence if band is not None else ""
    message = f"{row.advice}{f': {detail}' if detail else ''}"
    where: dict[str, Any] = {}
    if band is not None and band.cause is not None:
        where = {"file": band.cause[1], "line": band.cause[2], "column": 0, "end_column": 0}
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
                             f"errors at {band.declared:.3g} of {SIGMA:g} sd of the declared precision, "
                             f"{band.own:.3g} of the kernel's own; {band.sentence}"))  # fmt: skip
    if dual is not None:
        from render.companions.dual_delta.report import sentence

        said.append(Evidence("measurement", "companions/dual_delta", dual.outcome, sentence(dual)))
    for s in swamping:
        place = f"{Path(s.file).name}:{s.line}"
        said.append(Evidence("measurement", "companions/accumulator", s.measured, f"{place}: {s.sentence}"))
        if s.index is not None:
            said.append(Evidence("index", "companions/vrr", s.index, f"{place}: VRR {s.index:.6g}"))
    return [*said, Evidence("estimate", "companions/advice", row.advice, row.advice)]


def _accumulator(swamping: Sequence[Swamping]) -> str:
    return "n/a" if not swamping else "short" if any(s.short for s in swamping) else "ok"


def width_of(cases: Sequence[Case]) -> float:
    """W: the median over all elements of (hi - lo) / (atol + rtol |ref|), of the output with the widest."""
    worst = 0.0
    for case in cases:
        if case.fmt is None or case.mismatch or not case.lo.size:
            continue
        rtol, atol = _TOLERANCES.get(case.fmt.name, (0.1, 0.1))
        with np.errstate(invalid="ignore"):
            ratio = (case.hi - case.lo) / (atol + rtol * np.abs(np.asarray(case.ref, np.float64)))
        worst = max(worst, float(np.median(np.where(np.isnan(ratio), np.inf, ratio))))
    return worst


def _reproduced(cases: Sequence[Case]) -> bool:
    """Whether the interpreter's run, a legal execution, has errors of half the size of the device's at least."""
    for case in cases:
        if case.device is not None and case.device.size and not case.mismatch:
            with np.errstate(invalid="ignore"):
                theirs, ours = (np.nanmax(np.abs(y - case.exact)) for y in (case.device, case.value))
            if not theirs <= 2 * ours:
                return False
    return True


def band_of(entry: Any, run: Execution, cases: Sequence[Case]) -> DeclaredBand | None:
    """Errors of some elements against what their roundings typically make; None where none can be cut out."""
    of = {case.name: case for case in cases if case.fmt is not None and not case.mismatch}
    wanted = []
    for out in run.outputs:
        if out.name in of:
            error = np.abs(np.asarray(of[out.name].value, np.float64) - of[out.name].exact)
            worst = np.unravel_index(int(np.nan_to_num(error).argmax()), error.shape) if error.size else ()
            places = {*spread(out.value.shape, _ELEMENTS), tuple(int(i) for i in worst)}
            wanted += [(out.name, at) for at in sorted(places)]
    declared = own = 0.0
    hollow: list[bool] = []
    low: dict[Key, float] = {}
    formats: dict[Key, str] = {}
    total = 0.0
    for found in slices_of(entry, run, wanted):
        if not isinstance(found, Slice):
            continue
        parts, case = contributions(found), of[found.output]
        error = abs(float(case.value[found.index]) - float(case.exact[found.index]))
        whole, inner = sum(parts.squares.values()), _undeclared(parts)
        total += whole
        for key, square in inner.items():
            low[key] = low.get(key, 0.0) + square
            formats[key] = parts.formats.get(key, formats.get(key, ""))
        assert case.fmt is not None
        rounding = case.fmt.u * abs(float(case.exact[found.index])) + case.fmt.half_subnormal
        declared = max(declared, _over(error, whole - sum(inner.values()), rounding))
        own = max(own, _over(error, whole, rounding))
        hollow.append(probable(whole) > max(abs(found.v), float(np.median(np.abs(case.exact)))))
    if not hollow:
        return None
    cause = max(low, key=lambda k: low[k], default=None)
    if cause is not None and low[cause] < 0.5 * total:
        cause = None
    share = low[cause] / total if cause is not None and total else 0.0
    return DeclaredBand(
        declared, own, sum(hollow) * 2 > len(hollow), cause, formats.get(cause, "") if cause else "", share
    )


def _over(error: float, square: float, rounding: float) -> float:
    """Error over the band: 6 standard deviations and the last rounding."""
    reach = probable(max(square, 0.0)) + rounding
    return 0.0 if error == 0 else error / reach if reach else math.inf


def _undeclared(parts: Contributions) -> dict[Key, float]:
    """Mean squares of low-precision casts and accumulators inside; the last rounding of the element is declared."""
    found = {key: square for key, square in parts.squares.items() if key[0] in _LOW}
    if parts.end in found:
        found[parts.end] = max(0.0, found[parts.end] - parts.last)  # type: ignore[index]
    return {key: square for key, square in found.items() if square > 0}
