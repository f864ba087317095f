"""A few programs refute a change of a kernel for a part of what a whole run costs.

Where neither a kernel nor the host reads what a kernel stores, programs know nothing of each other: what one of them
stores is what it stores in a whole run. An element that it leaves wrong stays wrong, or another program stores another
value there, which is a finding and no repair either. What is not refuted so is run as a whole: the answer is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from interval_ops.profiles.profile import MissingRule
from render.entry.execution import FAILURES, HANDED, HANDLE, Execution
from render.explain.study import Study
from render.interpreter.device import unasked
from render.interpreter.steps import LANES as STEP_LANES
from render.result.decision import Case
from render.result.defects import caught

PROGRAMS = (4, 16)
"""Programs of each launch, from the first to the last: so many, or more where nothing that those store is wrong."""
CHEAPER = 4
"""By how much a part has to be cheaper than the whole."""
NEARLY = 2.0**-10
"""Of the largest number of an output: what a change may leave that is worth a run with bounds."""


def allowed(run: Execution) -> int:
    """Steps of one launch of a changed kernel: four times what the kernel takes; a loop that does not end has more."""
    taken: int = max(launch.steps + launch.work // STEP_LANES for launch in run.session.launches)
    return 64 + 4 * taken


def launches_allowed(run: Execution) -> int:
    """Launches of a changed program: four times as many; host code may launch until some value is reached."""
    return 8 + 4 * len(run.session.launches)


def near(value: np.ndarray, case: Case, room: np.ndarray) -> np.ndarray:
    """Which elements come within `room` of the exact reference."""
    with np.errstate(all="ignore"):
        close = (np.abs(value - case.exact) <= room) | (value == case.exact)
    found: np.ndarray = close | (np.isnan(value) & np.isnan(case.exact))
    return found


@dataclass(frozen=True)
class Portion:
    """So many programs of each launch, what a run of them costs (counted lanes), and the steps that a change may take
    in them: one that does not end shall not take those of the whole."""

    programs: int
    cost: int
    steps: int
    cases: Sequence[Case]
    rooms: Sequence[np.ndarray]

    def refutes(self, study: Study, more: Mapping[str, Any]) -> bool:
        """Whether these programs show that a change does not make the kernel right, nor nearly."""
        try:
            with unasked():
                run = study.run({**more, "programs": self.programs, "steps": self.steps})
        except Exception as error:  # whatever a broken kernel raises
            if HANDED in str(error):
                return False
            caught(error, "a part of a changed kernel")
            return True
        return bool(run.session.findings) or _far(run, self.cases, self.rooms)


def portion_of(study: Study, run: Execution, cases: Sequence[Case], rooms: Sequence[np.ndarray]) -> Portion | None:
    """None where a part says nothing of the whole, is not much cheaper, or holds no element that is wrong."""
    at_least = sum(HANDLE * launch.made // max(1, launch.chunks) for launch in run.session.launches)
    if not run.apart or run.cost < CHEAPER * at_least or "programs" in study.entry.options:
        return None
    for programs in PROGRAMS:
        try:
            with unasked():
                part = study.run({"interval": False, "programs": programs})
        except (*FAILURES, MissingRule):
            return None
        if CHEAPER * part.cost > run.cost:
            return None
        if _far(part, cases, rooms):
            return Portion(programs, part.cost, allowed(part), cases, rooms)
    return None


def _far(run: Execution, cases: Sequence[Case], rooms: Sequence[np.ndarray]) -> bool:
    """Whether an element that was stored is wrong by more than a run with bounds would be asked about."""
    by = {o.name: o for o in run.outputs}
    for case, room in zip(cases, rooms, strict=True):
        output = by.get(case.name)
        if output is None or output.value.shape != case.exact.shape:
            return True
        stored = np.ones(case.exact.shape, np.bool_) if output.left is None else ~output.left
        with np.errstate(all="ignore"):
            small = np.abs(output.value - case.exact) <= NEARLY * np.abs(case.exact).max(initial=0.0)
        if (stored & ~small & ~near(output.value, case, room)).any():
            return True
    return False
