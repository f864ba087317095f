"""The first step of a wrong program, a launch or an operation of the host, whose result the reference never has.

The entry runs once more; what each launch stored and each host operation gave is compared, with its bounds, with every
tensor that the reference makes in float64 (`render.explain.divergence` has the comparison and says what it is worth).
A step is clean if its result, or a later one that is computed from it, is found there. The program departs at the
first step that is not clean, of operands that are: its line, for an operation of the host; for a launch the first
operation in it that departs, followed back from an element that the reference does not have.

As there, a program on another route has results without a counterpart and is right: this is asked of wrong ones only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from render.entry.execution import Execution
from render.explain.divergence import Known, departed, holds, mark_clean, reference_steps, telling
from render.explain.study import Study
from render.explain.trace import trace
from render.interpreter.host import ALLOCATIONS, HostTracker
from render.interpreter.hosted.call import values
from render.interpreter.hosted.overloads import host_site, operation
from render.interpreter.memory.registry import address
from render.reference.oracle import Oracle
from render.reference.shadow import in_parts
from render.result.decision import compare
from render.result.elements import Divergence
from render.result.errors import RenderError, UnsupportedOp

ALIGNED = 0.9
"""Part of the elements at their own places from which on two tensors are the same by places."""
Spot = tuple[str, int]
"""File and line: of a host operation, or of the `def` of a kernel."""


@dataclass(eq=False)
class ProgramStep:
    """`name`: the tensor of the reference that it equals; "": nothing can be said, None: there is none. `kernel`: where
    a launched kernel is defined, None for an operation of the host. `reads`: numbers of earlier steps."""

    title: str
    spot: Spot
    tensor: torch.Tensor
    ends: tuple[np.ndarray, np.ndarray]
    reads: list[int]
    kernel: Spot | None = None
    name: str | None = ""
    clean: bool = False


class StepTracker(HostTracker):
    """Follows the host as usual, and notes each step."""

    def __init__(self, session: Any, steps: list[ProgramStep]) -> None:
        super().__init__(session.memory, session.mute, session.causes)
        self.session, self.steps = session, steps
        self._makers: dict[int, int] = {}
        self._nested = False

    @in_parts
    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if self.is_paused or self._nested:
            return super().__torch_dispatch__(func, types, args, kwargs)
        self._nested = True
        try:
            out = super().__torch_dispatch__(func, types, args, kwargs)
            name, site = operation(func).name, host_site()
            given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            written = bool(func._schema.is_mutable)
            known = set() if written else {_start(t) for t in given}
            for t in tree_leaves(out) if name not in ALLOCATIONS else ():
                if isinstance(t, torch.Tensor) and _start(t) not in known:
                    self._step(name, (site.file, site.line), t, given)
        finally:
            self._nested = False
        return out

    def launched(self, arguments: Iterable[Any]) -> None:
        launch, given = self.session.launches[-1], [t for t in arguments if isinstance(t, torch.Tensor)]
        stored = {span.base for span in self.session.writers[-1].spans}
        spot = launch.file, launch.line
        for t in given:
            if _start(t) in stored:
                others = [x for x in given if _start(x) not in stored]
                self._step(launch.kernel, spot, t, others, spot)

    def _step(
        self, title: str, spot: Spot, t: torch.Tensor, given: Iterable[torch.Tensor], kernel: Spot | None = None
    ) -> None:
        if not t.is_floating_point() or t.layout != torch.strided or not t.numel():
            return
        with self.silent():
            found = self.ends_of(t)
            v = values(t).astype(np.float64)
            bounded = found is not None and found.lo.shape == v.shape
            ends = (found.lo.copy(), found.hi.copy()) if found is not None and bounded else (v, v)
        reads = sorted({self._makers[_start(x)] for x in given if _start(x) in self._makers})
        self.steps.append(ProgramStep(title, spot, t, ends, reads, kernel))
        self._makers[_start(t)] = len(self.steps) - 1


@dataclass
class FirstDeparture:
    """The step at which a program departs, and its number; `known`: the tensors of the reference.

    `sure`: another step has a counterpart, so that the reference goes the same way. `through`: where the kernels are
    defined without which nothing that is wrong would be there.
    """

    step: ProgramStep
    number: int
    known: list[Known] = field(repr=False)
    sure: bool = True
    through: frozenset[Spot] = frozenset()


def first_departure(study: Study, oracle: Oracle) -> FirstDeparture | None:
    """None where every step has a counterpart."""
    known = reference_steps(oracle)
    if known is None:
        return None
    steps, run = _run(study)
    for step in steps:
        step.name = _counterpart(step, known)
    mark_clean(steps)
    sure = len(steps) == 1 or any(s.name for s in steps)
    ways = _ways(steps, run, study)
    part = set().union(*ways) if all(ways) else set(range(len(steps)))
    for number, step in enumerate(steps):
        if number in part and step.name is None and not step.clean and all(steps[i].clean for i in step.reads):
            return FirstDeparture(step, number, known, sure, _through(steps, ways))
    return None


def _ways(steps: list[ProgramStep], run: Execution, study: Study) -> list[set[int]]:
    """The steps that have a part in each wrong output; none where that is not known. Others (a loss that is computed
    for its gradients alone) may be what they like."""
    wrong = [c.name for c in study.cases if not c.mismatch and (compare(c).outside_exact | compare(c).nonfinite).any()]
    starts = [_start(run.output(name).tensor) for name in wrong]
    return [
        _behind(steps, [i for i, step in enumerate(steps) if _start(step.tensor) == start][-1:]) for start in starts
    ]


def _through(steps: list[ProgramStep], ways: list[set[int]]) -> frozenset[Spot]:
    """The kernels that have a part in every wrong output."""
    found = [{spot for i in way if (spot := steps[i].kernel) is not None} for way in ways]
    return frozenset(set.intersection(*found)) if found else frozenset()


def _behind(steps: list[ProgramStep], todo: list[int]) -> set[int]:
    """These steps and all that they rest on; what is written again rests on what was there."""
    seen: set[int] = set()
    while todo:
        number = todo.pop()
        if number not in seen:
            seen.add(number)
            own = _start(steps[number].tensor)
            todo += steps[number].reads + [i for i in range(number) if _start(steps[i].tensor) == own]
    return seen


def inside(study: Study, found: FirstDeparture, output: str, index: tuple[int, ...]) -> Divergence:
    """Where the departure of a step is: a line of the host, or the operation of the kernel that departs."""
    step = found.step
    if step.kernel is None:
        return Divergence(output, index, op=step.title, file=step.spot[0], line=step.spot[1])
    where = f"{step.title} ({os.path.basename(step.spot[0])}:{step.spot[1]})"
    runs: list[list[ProgramStep]] = []
    at = _stranger(step, found.known)

    def place(run: Execution) -> int:
        tensor = runs[-1][found.number].tensor
        steps = np.unravel_index(at, tuple(tensor.shape)) if tensor.dim() else ()
        offset = sum(int(i) * s for i, s in zip(steps, tensor.stride(), strict=True))
        return int(address(tensor)) + offset * tensor.element_size()

    try:
        traced = trace(study, output, index, None, True, place, {"tracker": _noting(runs)})
    except (RenderError, UnsupportedOp) as error:
        return Divergence(output, index, why=f"in {where}: {str(error).splitlines()[0]}")
    left = departed(traced, found.known, output, index)
    if left.established:
        return left
    for reached in traced.hops[0].reached:  # no result inside says more than the stored one, which the reference lacks
        if not reached.moves:
            site = reached.entry.site
            return Divergence(output, index, op=reached.title, file=site.file, line=site.line)
    return left


def _noting(runs: list[list[ProgramStep]]) -> Any:
    def tracker(session: Any) -> StepTracker:
        runs.append([])
        return StepTracker(session, runs[-1])

    return tracker


def _run(study: Study) -> tuple[list[ProgramStep], Execution]:
    runs: list[list[ProgramStep]] = []
    run = study.run({"tracker": _noting(runs)})
    return runs[-1], run


def _counterpart(step: ProgramStep, known: list[Known]) -> str | None:
    ends = telling(*(end.reshape(-1) for end in step.ends))
    if ends is None or (ends[0].size > 1 and ends[0].max() <= ends[1].min()):
        return ""  # one number everywhere, as the means of a softmax are, whatever it is made of
    answer: str | None = None
    for tensor in known:
        # of the host also what is an input: a cotangent is multiplied by ones on its way back
        if (not tensor.given or step.kernel is None) and not _blotted(step, tensor):
            alone = holds(tensor.values, *ends)
            if alone:
                return tensor.name
            answer = "" if alone is None else answer
    return answer


def _blotted(step: ProgramStep, tensor: Known) -> bool:
    """Whether the result is that tensor, place by place, but for zeros: another choice of what is kept."""
    lo, hi = step.ends
    if tensor.placed is None or tensor.placed.shape != lo.shape or lo.size < 2:
        return False
    slack = 2.0**-50 * np.abs(tensor.placed)
    with np.errstate(invalid="ignore"):  # infinities, as of a mask, have no slack
        inside, zero = (lo - slack <= tensor.placed) & (tensor.placed <= hi + slack), (lo == 0) & (hi == 0)
    kept = inside[~zero]
    return bool(kept.size and kept.mean() > ALIGNED and not inside[zero].all())


def _stranger(step: ProgramStep, known: list[Known]) -> int:
    """The flat number of the largest element that no tensor of the reference has."""
    lo, hi = (end.reshape(-1) for end in step.ends)
    size = np.minimum(np.abs(lo), np.abs(hi))
    every = np.sort(np.concatenate([t.values for t in known if not t.given] or [np.empty(0)]))
    with np.errstate(invalid="ignore", over="ignore"):
        alone = np.searchsorted(every, hi, "right") == np.searchsorted(every, lo, "left")
        top = np.fmax.reduce(size)
        ranked = np.where(np.isfinite(lo + hi) & (lo * hi > 0), size, -1.0) + np.where(alone, top, 0.0)
    return int(np.argmax(ranked))


def _start(t: torch.Tensor) -> int:
    return int(t.untyped_storage().data_ptr()) if t.layout == torch.strided else 0
