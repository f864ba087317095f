"""Comparisons that are no call: `print((a - b).abs().max())`, `assert (a == b).all()`.

A number that host code reads, or a tensor that it prints, is followed back over the tape to the operation that put two
tensors of one shape against each other. That counts as a comparison where a kernel's result is on one side and
something computed on the other: a kernel's output less the data that it is trained towards is a loss.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from render.front.history import history, launches
from render.front.steps import Cell, DecidedByPython, Given, HostOperation, Launched, Region
from render.ops.aten import base_name

_AGAINST = frozenset(
    ["sub", "rsub", "eq", "ne", "mse_loss", "huber_loss", "smooth_l1_loss", "_cdist_forward", "isclose", "dist"]
)
_STEPS = 64


def compared(place: Region, now: int) -> tuple[Region, Region, int] | None:
    """(one side, the other side, time of that operation) behind a value; None where it is no comparison."""
    for left, right, time in _candidates(place, now):
        fitting = fitted(left, right) if left.cell.kernel or right.cell.kernel else None
        if fitting is not None and _computed(left, right, time):
            return *fitting, time
    return None


def fitted(left: Region, right: Region) -> tuple[Region, Region] | None:
    """Both in one shape, where they differ by sizes of 1 at most."""
    if left.size == right.size:
        return left, right
    one, two = _squeezed(left), _squeezed(right)
    return (one, two) if one.size == two.size else None


def _squeezed(x: Region) -> Region:
    kept = [i for i, n in enumerate(x.size) if n != 1]
    return replace(x, size=tuple(x.size[i] for i in kept), stride=tuple(x.stride[i] for i in kept))


def _candidates(place: Region, now: int) -> Iterator[tuple[Region, Region, int]]:
    """Breadth first, from the value back."""
    queue: deque[tuple[Cell, int]] = deque([(place.cell, now)])
    seen: set[int] = set()
    while queue and len(seen) < _STEPS:
        cell, until = queue.popleft()
        step = next((s for s in reversed(cell.steps) if s.time <= until), None)
        if not isinstance(step, HostOperation) or step.time in seen:
            continue
        seen.add(step.time)
        if cell.pair is not None:
            yield *cell.pair, step.time - 1
        operands = [x for x in step.args if isinstance(x, Region)]
        if len(operands) >= 2 and _name(step.func) in _AGAINST:
            yield operands[0], operands[1], step.time - 1
        queue.extend((x.cell, step.time - 1) for x in operands)


def opposed(left: Region, right: Region, time: int) -> bool:
    """Of numbers that were taken out: a launch on one side, none on the other, which was computed. Two results of
    kernels are more often two steps of one course (a loss and the best one so far) than two versions of one value."""
    if left.cell.kernel == right.cell.kernel:
        return False
    mine, its = (left, right) if left.cell.kernel else (right, left)
    one, two = history(mine.cell, time), history(its.cell, time)
    alone = [s for t, s in two.items() if t not in one]
    return launches(s for t, s in one.items() if t not in two) and any(
        not isinstance(s, Given | DecidedByPython) for s in alone
    )


def _name(func: Any) -> str:
    """Of an operation; nothing for a function of ours."""
    return base_name(func._schema.name) if hasattr(func, "_schema") else ""


def _computed(left: Region, right: Region, time: int) -> bool:
    """A launch on one side alone, and a computation on the other."""
    one, two = history(left.cell, time), history(right.cell, time)
    mine = [s for t, s in one.items() if t not in two]
    its = [s for t, s in two.items() if t not in one]
    if launches(mine) and launches(its):
        return True
    if not launches(mine):
        mine, its = its, mine
    return launches(mine) and any(not isinstance(s, Given | Launched | DecidedByPython) for s in its)
