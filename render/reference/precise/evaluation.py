"""The wanted elements of a reference in many bits, for a bounded amount of work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from render.entry.execution import default_dtype
from render.exact.numbers import Numbers
from render.ops.formulas import Refused
from render.reference.oracle import Oracle
from render.reference.precise.functions import Functions
from render.reference.precise.graph import CellGraph, Ids, Tick
from render.reference.precise.recorder import CellRecorder
from render.reference.twins import F64, is_float

BITS = (128, 256, 512, 1024)
"""Tried in this order until the error is as small as is asked for."""
OPERATIONS = 2.0**24
"""The most that one evaluation may cost, in additions of 128 bits: about six seconds."""
SECONDS = 4e-7
"""Of one such operation, for estimates of time."""


@dataclass(frozen=True)
class ReferenceRecording:
    """A reference's graph: the cells of each of its outputs (None: an integer one), the comparisons to decide again."""

    graph: CellGraph
    outputs: list[Ids | None]
    checks: list[tuple[str, Ids, Ids, np.ndarray]]


def refusal(error: Exception) -> str:
    """Why the reference cannot be evaluated in more bits; nothing where the error is another one."""
    return str(error) if isinstance(error, Refused) else ""


def record(oracle: Oracle, widened: bool) -> ReferenceRecording:
    """Runs the reference once more, on float64 inputs if `widened`. Raises Refused."""
    if oracle.launches:
        raise Refused("it launches a kernel")
    mode = CellRecorder()
    inputs = oracle.inputs.upcast() if widened else oracle.inputs.clone()
    with default_dtype(F64 if widened else torch.get_default_dtype()):
        with Functions(mode.cells), mode:
            found = oracle._call(inputs)
        if widened and any(is_float(x) and x.dtype != F64 for _, x in found):
            raise Refused("it does not stay in float64")
        outputs = [mode.cells.outcome(x) if is_float(x) else None for _, x in found]
    return ReferenceRecording(mode.cells.graph, outputs, mode.cells.checks)


@dataclass
class OutputBounds:
    """Of one output: flat places, and value, lower and upper end of each."""

    places: np.ndarray
    value: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


@dataclass
class Outcome:
    """What was evaluated, by output; `bits` used (0: nothing), `cost` in operations; `rigorous`: ends are proved."""

    found: dict[int, OutputBounds] = field(default_factory=dict)
    bits: int = 0
    cost: float = 0.0
    rigorous: bool = True
    left: int = 0
    """Wanted elements that the budget left out."""


Enough = Callable[[int, OutputBounds], bool]


def evaluate(
    recording: ReferenceRecording,
    wanted: dict[int, np.ndarray],
    enough: Enough,
    tick: Callable[[float, float], Any] = lambda share, seconds: None,
    budget: float | None = None,
) -> Outcome:
    """`wanted`: flat places by output, the most important first. More bits until `enough` says so of every output.

    `tick` is told the share that is done and the estimated time of the whole. Where not all places can be had within
    `budget`, the first half of them is tried, and so on. Raises Refused where a comparison goes another way than in
    float64, or not one element can be had.
    """
    budget = OPERATIONS if budget is None else budget
    outcome = Outcome(rigorous=Numbers.rigorous)
    total = sum(p.size for p in wanted.values())
    need, cost, wanted = _within(recording, wanted, budget / Numbers.cost)
    outcome.left = total - sum(p.size for p in wanted.values())
    close: Undecided | None = None
    for bits in BITS:
        if outcome.cost and outcome.cost + cost * Numbers.cost * bits / BITS[0] > budget:
            break
        outcome.cost += cost * Numbers.cost * bits / BITS[0]
        seconds = SECONDS * cost * Numbers.cost * bits / BITS[0]
        try:
            outcome.found = _at(recording, wanted, need, bits, _timed(tick, seconds))
        except Undecided as undecided:
            close = undecided
            continue
        outcome.bits, close = bits, None
        if all(enough(i, e) for i, e in outcome.found.items()):
            break
    if close is not None:
        raise close
    return outcome


def _timed(tick: Callable[[float, float], Any], seconds: float) -> Tick:
    return lambda share: tick(share, seconds)


def _within(
    recording: ReferenceRecording, wanted: dict[int, np.ndarray], budget: float
) -> tuple[np.ndarray, float, dict[int, np.ndarray]]:
    """(cells, cost, places) of as many of the first places as the budget allows."""
    checked = [side for _, left, right, _ in recording.checks for side in (left, right)]
    while True:
        parts = [*checked]
        for i, places in wanted.items():
            ids = recording.outputs[i]
            assert ids is not None
            parts.append(ids.ravel()[places])
        need, cost = recording.graph.demanded(np.concatenate(parts) if parts else np.zeros(0, np.int64))
        cost += 5.0 * sum(p.size for p in wanted.values())  # their ends in float64
        if cost <= budget:
            return need, cost, wanted
        if sum(p.size for p in wanted.values()) <= 1:
            raise Refused(f"one element takes {cost:.2g} operations, more than the limit of {budget:.2g}")
        ahead = {i: p[: max(p.size // 2, 1)] for i, p in wanted.items() if p.size}
        if all(p.size == 1 for p in wanted.values()):
            ahead = dict(list(wanted.items())[:1])
        wanted = ahead


def _at(
    recording: ReferenceRecording, wanted: dict[int, np.ndarray], need: np.ndarray, bits: int, tick: Tick
) -> dict[int, OutputBounds]:
    n = Numbers(bits)
    with n.active():
        numbers = recording.graph.evaluate(n, need, tick)
        _decide(recording, n, numbers)
        return {i: _enclosed(n, _of(recording, numbers, i, p), p) for i, p in wanted.items()}


def _of(recording: ReferenceRecording, numbers: np.ndarray, i: int, places: np.ndarray) -> list[Any]:
    ids = recording.outputs[i]
    assert ids is not None
    found: list[Any] = numbers[ids.ravel()[places]].tolist()
    return found


def _enclosed(n: Numbers, values: Sequence[Any], places: np.ndarray) -> OutputBounds:
    rows = np.array([n.enclose(x) for x in values], np.float64).reshape(-1, 3)
    return OutputBounds(places, rows[:, 0], rows[:, 1], rows[:, 2])


_HOLDS = {"gt": {1}, "lt": {-1}, "ge": {0, 1}, "le": {-1, 0}, "eq": {0}, "ne": {-1, 1}}


class Undecided(Refused):
    """More bits may tell."""


def _decide(recording: ReferenceRecording, n: Numbers, numbers: np.ndarray) -> None:
    """Every comparison of computed values goes as it went in float64."""
    for name, left, right, outcome in recording.checks:
        for i, j, was in zip(left.tolist(), right.tolist(), outcome.tolist(), strict=True):
            sign = 0 if i == j else _compared(numbers[i], numbers[j])
            if sign is None:
                raise Undecided(f"a comparison ({name}) of computed values is too close to be decided")
            if (sign in _HOLDS[name]) != was:
                raise Refused(f"a comparison ({name}) of computed values goes another way than in float64")


def _compared(a: Any, b: Any) -> int | None:
    """Directly, for infinities. Equal balls need not hold equal numbers, and NaN is certain of nothing: None."""
    return 1 if a > b else -1 if a < b else 0 if a == b else None
