"""One input, two functions, one oracle: what Algorithm 1 does N times.

Inputs are made once, in their own low precision, and every function gets fresh copies; the oracle gets them widened to
float64, which is exact. A function that launches a Triton kernel runs in the interpreter's value lane, without bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from interval_ops.formats.model import Format
from render.companions.dual_delta.gates import checked
from render.companions.dual_delta.metrics import METRICS, format_of, measured
from render.entry.execution import NOTHING_LAUNCHED, Entry
from render.entry.held_state import seeded
from render.entry.inputs import Inputs
from render.entry.outputs import Named, flatten, of_reference
from render.entry.resolve import Reference, ReferencePlan, plans, run
from render.reference.oracle import Oracle, OracleResult
from render.result.errors import RenderError

Generate = Callable[[int], Inputs]
"""Inputs of a seed."""


class Sample(NamedTuple):
    """Errors of one input (NaN: a failure), and (passed, size) of each gate."""

    d1: float
    d2: float
    gates: tuple[tuple[bool, float], ...] = ()


@dataclass
class ErrorSide:
    """One function: a launcher of kernels, or plain torch."""

    fn: Callable[..., Any]
    device: str = "any"
    launches: bool | None = field(default=None, init=False)
    _plan: ReferencePlan | None = field(default=None, init=False)

    def __call__(self, inputs: Inputs, seed: int) -> Named:
        if self.launches is not False:
            try:
                found = Entry(self.fn, inputs, self.device, seed, {"interval": False}).given()
                self.launches = True
                return found
            except RenderError as error:
                if error.code != NOTHING_LAUNCHED or self.launches:
                    raise
                self.launches = False
        return self.plain(inputs, seed)

    def plain(self, inputs: Inputs, seed: int) -> Named:
        reference = Reference(self.fn, getattr(self.fn, "__name__", "the function"))
        values = inputs.values
        options = [self._plan] if self._plan else plans(self.fn, list(values), values, set())

        def fresh() -> Any:
            values = inputs.clone().values
            seeded(seed)
            return values

        result, self._plan, used = run(reference, options, fresh)
        return [(name, inputs.apart(x)) for name, x in of_reference(result, used, [])]

    @property
    def plan(self) -> ReferencePlan | None:
        return self._plan


@dataclass
class Trial:
    """Everything that one input needs; to be called where "cuda" means the CPU (`on_cpu`).

    `oracle`: a function of widened inputs, "fp64" (f2 in float64, as `classify` evaluates references) or "bits" (f2 in
    more bits).
    """

    one: ErrorSide
    two: ErrorSide
    oracle: Callable[..., Any] | str
    generate: Generate
    metric: str
    seed: int
    gates: tuple[str, ...] = ()
    own_error: float = field(default=math.nan, init=False)

    def seed_of(self, i: int) -> int:
        """The seed of input i, the same in whatever process it is drawn."""
        return int(np.random.SeedSequence((self.seed, i)).generate_state(1)[0])

    def __call__(self, i: int, separate: bool = False) -> Sample:
        """`separate`: also measures what the oracle's own error is at most (`own_error`)."""
        seed = self.seed_of(i)
        inputs = self.generate(seed)
        first, second = self.one(inputs, seed), self.two(inputs, seed)
        exact, error = self._exact(inputs, second, seed, separate)
        ys, rs = _arrays(first), _arrays(second)
        if not len(ys) == len(rs) == len(exact):
            raise RenderError("RND903", f"f1 gives {len(ys)} tensors, f2 {len(rs)}, the oracle {len(exact)}",
                              "return the same tensors in the same order")  # fmt: skip
        formats = [format_of(x.dtype) for _, x in first]
        if error is not None:
            self.own_error = self._measured(error, exact, formats)
        d1, d2 = self._measured(ys, exact, formats), self._measured(rs, exact, formats)
        return Sample(d1, d2, tuple(checked(name, ys, rs, exact, formats) for name in self.gates))

    def _measured(self, ys: Sequence[np.ndarray], es: Sequence[np.ndarray], formats: Sequence[Format]) -> float:
        return measured(METRICS[self.metric], ys, es, formats)

    def _exact(
        self, inputs: Inputs, native: Named, seed: int, separate: bool
    ) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """(the oracle's outputs, and ones as far from them as its error allows)."""
        if callable(self.oracle):
            widened = inputs.upcast()
            seeded(seed)
            return _arrays(flatten(self.oracle(*widened.args, **widened.kwargs))), None
        made = self._reference(inputs, native, seed)
        result = made.exact()
        if self.oracle == "bits":
            _in_more_bits(made, result)
        error = None
        if separate:
            error = [e + made.of_float64(result, i) for i, e in enumerate(result.values)]
        return result.values, error

    def _reference(self, inputs: Inputs, native: Named, seed: int) -> Oracle:
        if self.two.launches:
            raise RenderError("RND902", "f2 launches a kernel: there is no float64 oracle of it", "give an oracle")
        assert self.two.plan is not None
        reference = Reference(self.two.fn, "f2")
        return Oracle(reference, self.two.plan, inputs, lambda r, v: of_reference(r, v, []), native, seed)


def _arrays(named: Named) -> list[np.ndarray]:
    return [x.detach().to(torch.float64).numpy() for _, x in named]


def _in_more_bits(oracle: Oracle, result: OracleResult) -> None:
    """Puts ends that more bits give into `result`, for as many elements as the work allows."""
    from render.reference.precise.evaluation import evaluate, record

    recording = record(oracle, result.widened)
    wanted = {i: np.arange(x.size) for i, x in enumerate(result.values)}

    def enough(i: int, found: Any) -> bool:
        with np.errstate(invalid="ignore"):
            return bool(((found.hi - found.lo) / 2 <= 2.0**-51 * np.abs(found.value)).all())

    outcome = evaluate(recording, wanted, enough)
    for i, at in outcome.found.items():
        good = np.isfinite(at.value)
        result.refine(i, at.places[good], at.value[good], at.lo[good], at.hi[good])
