"""Masked-off lanes of a load without `other`: zero here and as NVIDIA and AMD lower them, undefined by the language.

Whether one reaches an output is found by running again, values only, with NaN and then with a number in those lanes:
an output that changes is computed from them. (A NaN is passed over by maximum and minimum, a number is not.)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from render.entry.execution import FAILURES, WORTH_WORK, Entry, Execution
from render.result.decision import Decision
from render.result.verdict import Finding

CODE = "RND311"
FILLERS = (float("nan"), 1234.5)
FILLED = ("sm_", "gfx")
"""Targets whose compiler is known to put zeros there (Triton's lowering of masked loads for NVIDIA and AMD)."""
NOT_TRIED = "whether masked-off lanes of loads without `other` reach an output could not be tried"


@dataclass(frozen=True)
class Undefined:
    """The outputs that such lanes reach, and the lines of the loads; `filled`: the target is known to zero them."""

    outputs: tuple[str, ...] = ()
    sites: tuple[Any, ...] = ()
    filled: bool = False
    tried: bool = True

    @property
    def sentence(self) -> str:
        places = ", ".join(f"{os.path.basename(s.file)}:{s.line}" for s in self.sites)
        return (
            f"{', '.join(self.outputs)} depends on masked-off lanes of a load without `other` ({places}): "
            "they read 0 here, the language leaves them undefined"
        )

    @property
    def findings(self) -> list[Finding]:
        """One for each load."""
        text = f"masked-off lanes of a load without `other` reach {', '.join(self.outputs)}"
        return [Finding(CODE, text, file=s.file, line=s.line, kind="load") for s in self.sites if self.outputs]

    def decided(self, decision: Decision) -> Decision:
        """Nothing better than Inconclusive, unless the target is known to fill them."""
        if decision.label != "Type-I" or not self.outputs or self.filled:
            return decision
        return Decision("Inconclusive", CODE, self.sentence)


def undefined(entry: Entry, run: Execution) -> Undefined:
    sites = tuple(sorted(run.session.undefined_sites, key=lambda s: (s.file, s.line)))
    if not sites:
        return Undefined()
    if run.work > WORTH_WORK:
        return Undefined(tried=False)
    filled = run.session.profile.name.startswith(FILLED)
    for filler in FILLERS:
        options = {**entry.options, "undefined": filler, "interval": False}
        try:
            again = Entry(entry.fn, entry.inputs, entry.device, entry.seed, options).run()
        except FAILURES:  # a branch that such a number takes
            return Undefined(tried=False)
        if changed := _changed(run, again):
            return Undefined(tuple(changed), sites, filled)
    return Undefined()


def _changed(run: Execution, again: Execution) -> Sequence[str]:
    pairs = zip(run.outputs, again.outputs, strict=True)
    return [x.name for x, y in pairs if not np.array_equal(x.value, y.value, equal_nan=True)]
