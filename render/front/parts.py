"""Which tensor the elements of a view were taken from: the columns of a table are the tensors that were put into it.

Steps that only move elements are run again on the numbers of the elements. Where all that a view shows come from one
operand, it stands for these elements of that operand, and what else lies in the same storage is none of its history.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

from render.front.history import moves
from render.front.returning import CameBack
from render.front.scalars import Assembled, ReadElement
from render.front.steps import BETWEEN, Cell, HostOperation, Region
from render.interpreter.hosted.overloads import operation

_LARGEST = 1 << 22
"""Of larger storages elements are not followed."""
_DEEPEST = 32
_OPERAND = 40
"""An element's number: its operand's, one up, in the bits from here on."""
_serial = count()


@dataclass(frozen=True, eq=False)
class Picked:
    """Elements of a flat tensor, one type after the other."""

    index: torch.Tensor
    dtypes: tuple[torch.dtype, ...]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        found = x[self.index]
        for dtype in self.dtypes:
            found = found.to(dtype)
        return found


@dataclass(frozen=True, eq=False)
class _Elements:
    """Elements of a storage by their numbers, at a time; `dtypes` that they went through since."""

    cell: Cell
    index: torch.Tensor
    until: int
    dtypes: tuple[torch.dtype, ...] = ()


def own_part(place: Region, until: int) -> Region:
    """The place with the history of its own elements; itself where that is all of it."""
    if not place.cell.steps or place.cell.nbytes // place.dtype.itemsize > _LARGEST or place.dtype != place.cell.dtype:
        return place
    last = max((s.time for s in place.cell.steps if s.time <= until), default=0)
    key = (place.size, place.stride, place.offset, last)
    if key not in place.cell.parts:
        with torch.no_grad(), _disable_current_modes():
            place.cell.parts[key] = _own_part(place, until)
    return place.cell.parts[key] or place


def _own_part(place: Region, until: int) -> Region | None:
    at, parted = _Elements(place.cell, _index(place), until), False
    for _ in range(_DEEPEST):
        found = _before(at)
        if found is None:
            break
        at, others = found
        parted = parted or others
    return picked(at.cell, at.index, at.until, at.dtypes) if parted else None


def picked(cell: Cell, index: torch.Tensor, until: int, dtypes: tuple[torch.dtype, ...] = ()) -> Region:
    """A tensor of elements that a storage held at `until`, in memory of its own."""
    source = _strided(cell, index)
    dtype = dtypes[-1] if dtypes else cell.dtype
    made = Cell(0, index.numel() * dtype.itemsize, dtype, None, kernel=cell.kernel)
    place = Region(made, dtype, tuple(index.shape), _contiguous(index.shape), 0)
    func: Any = torch.ops.aten.clone.default
    if source is None or dtypes:
        source, func = Region(cell, cell.dtype, (cell.nbytes // cell.dtype.itemsize,), (1,), 0), Picked(index, dtypes)
    step = HostOperation(until - next(_serial) % (BETWEEN // 2), (cell,), (made,), cell.steps[-1].site, True,
                         func=func, args=(source,), made=(place,))  # fmt: skip
    made.steps.append(step)
    return place


def _before(at: _Elements) -> tuple[_Elements, bool] | None:
    """Where elements were before the last step that moved them, and whether that step moved others, too; None where
    they were computed, given, or come from several tensors."""
    others = False
    for step in reversed([s for s in at.cell.steps if s.time <= at.until]):
        if not isinstance(step, HostOperation):
            return None
        ids, operands = _numbered(step, at.cell)
        if ids is None:
            return None
        taken = ids[at.index]
        if not step.whole and bool((taken < 0).all()):
            others = True
            continue
        which = (taken >> _OPERAND).reshape(-1)
        if not len(which) or bool((which != which[0]).any()) or not 1 <= int(which[0]) <= len(operands):
            return None
        source = operands[int(which[0]) - 1]
        if source.dtype != source.cell.dtype or not source.cell.steps:
            return None
        changed = (at.cell.dtype,) if source.dtype != at.cell.dtype else ()
        index = taken & ((1 << _OPERAND) - 1)
        return _Elements(source.cell, index, step.time - 1, changed + at.dtypes), others or len(
            operands
        ) > 1 or not step.whole
    return None


def _numbered(step: HostOperation, cell: Cell) -> tuple[torch.Tensor | None, Sequence[Region]]:
    """For each element of the storage the number of the one that the step put there (-1: none), by operand."""
    operands = _operands(step)
    small = all(x.dtype.is_floating_point and x.cell.nbytes <= _LARGEST * 8 for x in operands)
    if not operands or not small:
        return None, operands
    numbers = {id(x): _index(x) + ((i + 1) << _OPERAND) for i, x in enumerate(operands)}
    found = torch.full((cell.nbytes // cell.dtype.itemsize,), -1)
    if _name(step) == "copy":
        place: Region = step.args[0]
        found[_index(place)] = numbers[id(operands[0])].expand(place.size)
        return found, operands
    try:
        results = tree_flatten(_moved(step, numbers))[0] if step.whole else []
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        results = []
    for made, x in zip(step.made, [x for x in results if isinstance(x, torch.Tensor)], strict=False):
        if made is not None and made.cell is cell and x.dtype == torch.int64 and tuple(x.shape) == made.size:
            found[_index(made)] = x
            return found, operands
    return None, operands


def _name(step: HostOperation) -> str:
    return operation(step.func).name if hasattr(step.func, "_schema") else ""


def _operands(step: HostOperation) -> list[Region]:
    """What its elements come from, each place once; none where it does not move elements alone."""
    if isinstance(step.func, Assembled):
        return list(dict.fromkeys(x.place for x in step.args if isinstance(x, ReadElement)))
    if not isinstance(step.func, CameBack | Picked) and not (_name(step) and moves(step)):
        return []
    found = [x for x in tree_flatten((step.args, step.kwargs))[0] if isinstance(x, Region)]
    return found[1:2] if _name(step) == "copy" else found


def _moved(step: HostOperation, numbers: Mapping[int, torch.Tensor]) -> Any:
    """What the step makes of the numbers of elements, by the identity of their operand."""
    func, args = step.func, step.args
    if isinstance(func, Assembled):
        at = {place: numbers[id(place)].reshape(-1) for place in _operands(step)}
        each = [at[x.place][x.index] if isinstance(x, ReadElement) else torch.tensor(-1) for x in args]
        return torch.stack(each).reshape(func.shape)
    if isinstance(func, CameBack):
        return torch.cat([numbers[id(x)].reshape(-1) if isinstance(x, Region) else torch.tensor([-1]) for x in args])
    if isinstance(func, Picked):
        return replace(func, dtypes=())(numbers[id(args[0])])
    if _name(step) in ("_to_copy", "clone"):
        return numbers[id(args[0])]
    args, named = tree_map(lambda x: numbers.get(id(x), x), (args, step.kwargs))
    return func(*args, **named)


def _index(place: Region) -> torch.Tensor:
    """For each element of a view its number in the storage."""
    whole = torch.arange(place.cell.nbytes // place.dtype.itemsize)
    return torch.as_strided(whole, place.size, place.stride, place.offset)


def _strided(cell: Cell, index: torch.Tensor) -> Region | None:
    """Elements as a view of their storage, if they are one."""
    first = int(index.reshape(-1)[0]) if index.numel() else 0
    stride = [int(index.select(d, 1).reshape(-1)[0]) - first if n > 1 else 0 for d, n in enumerate(index.shape)]
    found = Region(cell, cell.dtype, tuple(index.shape), tuple(stride), first)
    return found if min(stride, default=0) >= 0 and torch.equal(_index(found), index) else None


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
