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

from torch.utils._pytree import tree_leaves

from render.front.history import history, launches
from render.front.parts import own_part
from render.front.steps import Cell, Given, HostOperation, Region, TapeStep
from render.ops.aten import base_name

_AGAINST = frozenset(
    ["sub", "rsub", "eq", "ne", "mse_loss", "huber_loss", "smooth_l1_loss", "_cdist_forward", "isclose", "dist"]
)
_PRODUCTS = frozenset(["mul", "dot", "vdot"])
_SCALING = frozenset(["div", "_to_copy", "clone"])
_SIZES = frozenset(["linalg_vector_norm", "norm", "pow", "square"])
_KEEPING = frozenset(["clone", "_to_copy", "copy_", "empty", "empty_like", "empty_strided", "contiguous"])
_STEPS = 64


def compared(place: Region, now: int) -> tuple[Region, Region, int] | None:
    """(one side, the other side, time of that operation) behind a value; None where it is no comparison."""
    for one, two, time in _candidates(place, now):
        left, right = own_part(one, time), own_part(two, time)
        fitting = fitted(left, right) if left.cell.kernel or right.cell.kernel else None
        if fitting is not None and _computed(left, right, time):
            return *fitting, time
    return None


def from_data(place: Region, now: int) -> bool:
    """Whether a kernel's result is put against data from outside behind this value: a loss, or a reference that
    somebody computed where nobody watched."""
    for one, two, time in _candidates(place, now):
        left, right = own_part(one, time), own_part(two, time)
        if left.cell.kernel != right.cell.kernel and fitted(left, right) is not None:
            other = right if left.cell.kernel else left
            return any(isinstance(s, Given) and s.foreign and not s.made for s in history(other.cell, time).values())
    return False


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
    """Breadth first, from the value back: what is put against each other, and at last what is multiplied with each
    other beside the size of each by itself (cosines and other likenesses)."""
    queue: deque[tuple[Cell, int]] = deque([(place.cell, now)])
    seen: set[int] = set()
    products: list[tuple[Region, Region, int]] = []
    alone: set[Cell] = set()
    while queue and len(seen) < _STEPS:
        cell, until = queue.popleft()
        step = _last(cell, until)
        if step is None or step.time in seen:
            continue
        seen.add(step.time)
        operands = [x for x in tree_leaves(step.args) if isinstance(x, Region)]
        name, pair = _name(step.func), operands[:2]
        if len(pair) == 2 and name in _AGAINST:
            yield pair[0], pair[1], step.time - 1
        if name in _PRODUCTS and len(pair) == 2 and pair[0] != pair[1]:
            products.append((_unscaled(pair[0], step.time), _unscaled(pair[1], step.time), step.time - 1))
        elif name in _SIZES or name in _PRODUCTS:
            alone.update(_unscaled(x, step.time).cell for x in operands)
        queue.extend((x.cell, step.time - 1) for x in operands)
    for left, right, time in products:
        if {left.cell, right.cell} <= alone:
            yield left, right, time


def _last(cell: Cell, until: int) -> HostOperation | None:
    """The host operation that made what a storage held."""
    step = next((s for s in reversed(cell.steps) if s.time <= until), None)
    return step if isinstance(step, HostOperation) else None


def _unscaled(x: Region, until: int) -> Region:
    """What was copied, or divided by its size."""
    while (step := _last(x.cell, until - 1)) is not None and _name(step.func) in _SCALING:
        first = step.args[0]
        if not isinstance(first, Region) or first.size != x.size:
            break
        x, until = first, step.time
    return x


def opposed(left: Region, right: Region, time: int) -> bool:
    """Of numbers that were taken out: a launch on one side, none on the other, which was computed. Two results of
    kernels are more often two steps of one course (a loss and the best one so far) than two versions of one value."""
    if left.cell.kernel == right.cell.kernel:
        return False
    mine, its = (left, right) if left.cell.kernel else (right, left)
    one, two = history(mine.cell, time), history(its.cell, time)
    alone = [s for t, s in two.items() if t not in one]
    return launches(s for t, s in one.items() if t not in two) and any(map(_computes, alone))


def _computes(step: TapeStep) -> bool:
    """Not what only keeps what was there, as a copy from before a step of an optimiser."""
    if not isinstance(step, HostOperation):
        return False
    kept = _name(step.func) in _KEEPING
    return not kept or any(_permuted(x) for x in step.args if isinstance(x, Region))


def _permuted(x: Region) -> bool:
    """Whether it has its elements in another order than its storage."""
    strides = [step for step, n in zip(x.stride, x.size, strict=True) if n > 1 and step]
    return strides != sorted(strides, reverse=True)


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
        mine, its, right = its, mine, left
    return launches(mine) and (any(map(_computes, its)) or _permuted(right))
