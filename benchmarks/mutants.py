"""One mutant of a kernel, judged five ways; the rules of `power_table.py`.

A mutant counts if it changes the result beyond rounding. That is decided without any bound: the mutant runs again with
every format one step wider (fp16 -> fp32, fp32 -> float64), so that no rounding of the kernel is left and the planted
change stands alone, and some element must differ from the float64 reference E by more than one unit in the last place
of the output's format, 2u |E|, and twice what the unchanged kernel differs by in such a run (its literals, and what is
left of rounding). An element that is not stored any more, or NaN on one side only, counts as well.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from interval_ops.profiles.profile import CAUSES
from render.classify import classify_file
from render.entry.execution import Execution
from render.explain.power import inventory, memory_notices, plant, smallest_fault
from render.explain.study import Study
from render.interpreter.lift import LiftedBuilder, wide_values
from render.interpreter.types import lifted_formats
from render.lab.replay.baselines import largest, mismatched
from render.report.words import printed_lines
from render.result.decision import Case, decide, worst
from render.result.errors import RenderError
from render.result.verdict import Verdict

PRECISION = ("narrow", "downgrade")
"""Kinds of fault that lose precision and nothing else: round-off by definition, if the verdict says where."""

Change = Callable[[Any, ast.Module], ast.Module] | None


@dataclass(frozen=True)
class Row:
    """One mutant on one profile; labels are "Type-I", "Type-II", "Inconclusive" or "crash".

    `bound`: the unchanged kernel, with the mutant's result as the device output. `source`: the mutant itself,
    classified as a user would. `assert_close`, `twice`: would that rule notice? Both are told of elements that were not
    stored. `named`: how the verdict on a Type-I mutant names the planted rounding: "downgrade" (its format is coarser
    than the interface), "cause" (its line is printed for the largest cause), "somewhere" (a downgrade, but not its
    line) or ""; `price`: the factor that is stated, 0 if none.
    """

    kernel: str
    device: str
    kind: str
    what: str
    line: int
    beyond: bool
    bound: str
    bound_code: str
    source: str
    source_code: str
    source_subtype: str
    assert_close: bool
    twice: bool
    named: str = ""
    price: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Subject:
    """A kernel under one profile; `wide` keeps runs in wider formats, which do not depend on it."""

    path: Path
    device: str
    wide: dict[Any, list[np.ndarray] | None] = field(default_factory=dict)
    faults: bool = True

    def __post_init__(self) -> None:
        self.verdict: Verdict = classify_file(self.path, device=self.device, budget=False)
        study = self.verdict.study
        if study is None:
            raise RenderError("RND902", f"{self.path} cannot be judged: {self.verdict.message}")
        self.study: Study = study
        if self.faults:
            self.base, self.todo = inventory(study, zeros=True)

    def rows(self) -> Iterator[Row]:
        for function, fault in self.todo:
            yield self._row((function, fault), plant(function, fault))

    def _row(self, key: Any, change: Change) -> Row:
        fault = key[1]
        row = Row(self.path.stem, self.device, fault.kind, fault.what, fault.line, False, "crash", "", "crash", "", "",
                  True, True)  # fmt: skip
        run = self._run({"interval": False, "change": change})
        lifted = self._lifted(key, change)
        if run is None or lifted is None:
            return row
        values = [np.where(np.zeros(o.value.shape, bool) if o.unstored is None or not o.tracked else o.unstored,
                           np.nan, o.value) for o in self._outputs(run)]  # fmt: skip
        decisions = [
            decide(replace(c, device=v, device_fmt=c.fmt)) for c, v in zip(self.study.cases, values, strict=True)
        ]
        decision = worst(decisions)
        noticed = memory_notices(self.base, run)
        label, code, subtype, named, price = self._source(fault, change)
        return replace(
            row, beyond=self._beyond(lifted, values),
            bound="Type-II" if noticed else decision.label, bound_code="memory" if noticed else decision.code,
            source=label, source_code=code, source_subtype=subtype,
            assert_close=self._tolerance(values), twice=self._twice(values), named=named, price=price,
        )  # fmt: skip

    def _run(self, options: dict[str, Any]) -> Execution | None:
        """None: the mutant does not run to its end."""
        try:
            return self.study.run(options)
        except Exception:  # whatever a broken kernel raises
            return None

    def _outputs(self, run: Execution) -> list[Any]:
        by = {o.name: o for o in run.outputs}
        return [by[case.name] for case in self.study.cases]

    def _source(self, fault: Any, change: Change) -> tuple[str, str, str, str, float]:
        """(label, code, subtype, `named`, `price`) of the mutant itself; one that stops with an error is no Type-I."""
        try:
            found = classify_file(self.path, device=self.device, budget=fault.kind in PRECISION,
                                  session={"change": change})  # fmt: skip
        except Exception as error:
            return "crash", type(error).__name__, "", "", 0.0
        return found.label, found.code, found.subtype, *_named(found, fault.line)

    # beyond rounding?
    def _lifted(self, key: Any, change: Change) -> list[np.ndarray] | None:
        if key not in self.wide:
            with lifted_formats():
                run = self._run({"builder": LiftedBuilder, "mute": CAUSES, "change": change})
            self.wide[key] = run and [wide_values(run.session, o.tensor) for o in self._outputs(run)]
        return self.wide[key]

    def _beyond(self, lifted: list[np.ndarray], values: list[np.ndarray]) -> bool:
        plain = self._lifted(None, None)
        assert plain is not None
        seen = zip(self.study.cases, plain, lifted, values, strict=True)
        return any(_differs(case, base, now, np.isnan(v) & ~np.isnan(case.value)) for case, base, now, v in seen)

    # the other rules
    def _tolerance(self, values: list[np.ndarray]) -> bool:
        pairs = zip(self.study.cases, self.verdict.outputs, values, strict=True)
        return any(mismatched(v, c.ref, o.allclose_rtol, o.allclose_atol) > 0 for c, o, v in pairs)

    def _twice(self, values: list[np.ndarray]) -> bool:
        pairs = zip(self.study.cases, values, strict=True)
        return any(largest(v, c.exact) > 2 * largest(c.ref, c.exact) for c, v in pairs)

    def smallest(self) -> dict[str, float | None]:
        """Per output, the smallest relative fault 2^-k that its bound notices."""
        return {c.name: smallest_fault(c) for c in self.study.cases if c.fmt is not None}

    def false_alarms(self) -> dict[str, bool]:
        """What the rules say to the unchanged kernel: True where one calls it wrong."""
        values = [c.value for c in self.study.cases]
        return {"render": self.verdict.label == "Type-II", "assert_close": self._tolerance(values),
                "twice": self._twice(values)}  # fmt: skip


def _named(verdict: Verdict, line: int) -> tuple[str, float]:
    """How a Type-I verdict names the rounding at this line, and the factor that it states."""
    if verdict.label != "Type-I":
        return "", 0.0
    eta = verdict.instability.eta if verdict.instability is not None else 0.0
    if verdict.downgrade is not None and verdict.downgrade.line == line:
        return "downgrade", max(verdict.downgrade.shrink if verdict.downgrade.shrink > 1 else 0.0, eta)
    top = verdict.budget[0] if verdict.budget else None
    if top is not None and top.key in ("cast", "lowacc") and line in [x.line for x in printed_lines(top)]:
        return "cause", max(top.shrink if top.confirmed else 0.0, eta)
    return ("somewhere", eta) if verdict.subtype == "downgrade" else ("", 0.0)


def _differs(case: Case, base: np.ndarray, now: np.ndarray, gone: np.ndarray) -> bool:
    """The rule at the head of this file, for one output."""
    if now.shape != case.exact.shape or gone.any():
        return True
    same = (now == case.exact) | (np.isnan(now) & np.isnan(case.exact)) | (now == base)
    with np.errstate(invalid="ignore", over="ignore"):
        left = np.abs(base - case.exact)
        left = 2 * left[np.isfinite(left)].max(initial=0.0)
        step = 0.0 if case.fmt is None else 2 * case.fmt.u * np.abs(case.exact) + 2 * case.fmt.half_subnormal
        close = np.abs(now - case.exact) <= step + left
    return bool((~same & ~close).any())
