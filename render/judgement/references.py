"""The reference's side of a classification: y_ref, E and its error, R."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from render.entry import execution
from render.entry.execution import Execution
from render.entry.held_state import seeded
from render.entry.inputs import Inputs
from render.entry.kernels import ReferenceKernels
from render.entry.memo import Memo
from render.entry.outputs import Named, of_reference, outline
from render.entry.resolve import Reference, ReferencePlan, plans
from render.entry.resolve import run as run_reference
from render.reference.oracle import Ends, Oracle, OracleResult
from render.reference.tf32 import reference_precision
from render.reference.trail import Footprint, Trail
from render.result.options import Options

Timing = dict[str, float | None]
Collect = Callable[[Any, Mapping[str, Any]], Named]


def _collected(outlines: Named, result: Any, values: Mapping[str, Any]) -> Named:
    return of_reference(result, values, outlines)


class References:
    """Runs the reference as it is and in float64; what is costly only when it is first asked for.

    `native`: y_ref of every output by name, until `forget`. `exact`: E. Times go into `timing`.
    """

    def __init__(
        self, reference: Reference, inputs: Inputs, options: Options, timing: Timing, run: Execution, memo: Memo
    ) -> None:
        self.inputs, self.options = inputs, options
        began = time.perf_counter()
        outputs = tuple(name for name, _ in run.named)
        key = outputs, options.seed, options.ref_precision
        ran = memo(("native", key), lambda: self._run(reference, run))
        self.native, self._plan, self._trail, self._collect, launches = ran
        timing["reference_s"] = time.perf_counter() - began
        tf32 = options.ref_precision != "ieee"
        self.oracle = Oracle(
            reference, self._plan, inputs, self._collect, self.native, options.seed, tf32, self._trail,
            launches=options.device if launches else None, memo=lambda what, compute: memo((what, key), compute),
        )  # fmt: skip
        self._timing = timing
        self._radius: list[np.ndarray | None] | None = None

    def _run(self, reference: Reference, run: Execution) -> tuple[Named, ReferencePlan, Footprint, Collect, bool]:
        values = self.inputs.values
        named = run.named
        written = {name for name, _ in named if name in values}
        options = plans(reference.fn, list(values), values, written)

        trail = Trail()

        def fresh() -> Mapping[str, Any]:
            seeded(self.options.seed)
            trail.restart(self.inputs.values.values())  # else the copies would be read as numbers from elsewhere
            values = self.inputs.clone().values
            trail.restart(values.values())
            return values

        kernels = ReferenceKernels(self.options.device)
        with execution.on_cpu(), reference_precision(self.options.ref_precision), kernels, trail:
            result, plan, used = run_reference(reference, options, fresh)
            collect: Collect = partial(_collected, [(name, outline(x)) for name, x in named])
            found = collect(result, used)
        found = [(name, self.inputs.apart(x)) for name, x in found]
        return found, plan, trail.footprint, collect, kernels.launched

    def recompute(self) -> OracleResult:
        """E, once."""
        began = time.perf_counter()
        with execution.on_cpu():
            self.exact = self.oracle.exact()
        self._timing["exact_s"] = time.perf_counter() - began
        return self.exact

    def ends_of(self, i: int) -> Ends:
        """The interval around E of one reference output, computed when first asked for."""
        with execution.on_cpu():
            return self.exact.ends(i)

    def proved(self, i: int) -> np.ndarray:
        """Where that interval is proved."""
        with execution.on_cpu():
            return self.exact.proved(i)

    def confirmed(self, i: int) -> np.ndarray:
        """Where other code, in more bits, gave it."""
        with execution.on_cpu():
            return self.exact.confirmed(i)

    def radius_of(self, i: int) -> np.ndarray | None:
        """R of one reference output, computed when first asked for."""
        if self._radius is None:
            with execution.on_cpu():
                self._radius = self.oracle.radius(self.exact)
        return self._radius[i]

    def forget(self) -> None:
        """Keeps shapes and dtypes of y_ref only."""
        self.native = self.oracle.native = [(name, outline(x)) for name, x in self.native]
