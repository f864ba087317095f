"""Integers that are made of computed values: the recording holds them as float64 gave them, so many bits must agree.

A comparison is decided again as it is. Other choices are put as comparisons: a cast to an integer as "the truncated
value equals it", an argmax as "the chosen one is at least every other", an order as "each is at least the next". Where
values are so close that many bits order them differently than float64 did, the evaluation is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from render.ops.formulas import Refused
from render.reference.precise.cells import RecordedCells
from render.reference.precise.elementwise import ELEMENTWISE
from render.reference.precise.graph import Ids

if TYPE_CHECKING:
    from render.reference.precise.recorder import CellStep

COMPARISONS = frozenset(["gt", "lt", "ge", "le", "eq", "ne"])
ORDERED = frozenset(["sort", "topk"])


def integers(cells: RecordedCells, step: CellStep) -> bool:
    """Could what this step made of computed values be put as comparisons?"""
    args = step.before[0]
    made = [x for x in step.changed if not x.is_floating_point()]
    if step.name in COMPARISONS:
        cells.check(step.name, args[0], args[1], made[0].numpy().copy())
        return True
    if step.name in ORDERED:
        return True  # checked where the values were followed
    if step.name == "_to_copy" and made[0].dtype == torch.bool:
        cells.check("ne", args[0], 0.0, made[0].numpy().copy())
        return True
    if step.name == "_to_copy":
        cells.check("eq", ELEMENTWISE["trunc"](cells, args[0]), made[0].clone(), True)
        return True
    if step.name in ("argmax", "argmin", "max", "min", "argsort"):
        return _chosen(cells, step, made[0])
    return False


def _chosen(cells: RecordedCells, step: CellStep, index: torch.Tensor) -> bool:
    """argmax and the like: the chosen value against every other of its row."""
    args, kwargs = step.before
    x = args[0]
    if step.name == "argsort":
        dim, down = _order(step)
        _check_order(cells, np.take_along_axis(x, index.numpy(), dim), dim, down)
        return True
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    if dim is None:
        best = x.reshape(-1)[int(index)]
    else:
        keep = bool(args[2] if len(args) > 2 else kwargs.get("keepdim", False))
        places = index.numpy() if keep else np.expand_dims(index.numpy(), dim)
        best = np.take_along_axis(x, places, dim)
    cells.check("ge" if "max" in step.name else "le", best, x, True)
    return True


def followed(cells: RecordedCells, step: CellStep) -> tuple[Ids, None]:
    """sort and topk: the cells in the order that float64 gives, each checked against the next."""
    args, kwargs = step.before
    x = args[0]
    dim, down = _order(step)
    index = next(o for o in step.outs if isinstance(o, torch.Tensor) and not o.is_floating_point()).numpy()
    if not x.ndim:
        return x, None
    chosen = np.take_along_axis(x, index, dim)
    if step.name == "sort":
        _check_order(cells, chosen, dim, down)
        return chosen, None
    if kwargs.get("sorted", args[4] if len(args) > 4 else True):
        _check_order(cells, chosen, dim, down)
    left = np.ones(x.shape, bool)
    np.put_along_axis(left, index, False, dim)
    if chosen.shape[dim] and left.any():
        if not kwargs.get("sorted", args[4] if len(args) > 4 else True):
            raise Refused("topk without order has no rule")
        last = np.broadcast_to(np.take(chosen, [-1], dim), x.shape)
        cells.check("ge" if down else "le", last[left], x[left], True)
    return chosen, None


def _order(step: CellStep) -> tuple[int, bool]:
    """(dimension, largest first) of sort, argsort and topk."""
    down = step.named.get("largest" if step.name == "topk" else "descending", False)
    return int(step.named.get("dim", -1)), bool(down)


def _check_order(cells: RecordedCells, values: Ids, dim: int, down: bool) -> None:
    count = values.shape[dim]
    if count > 1:
        first, second = (np.take(values, range(i, count - 1 + i), dim) for i in (0, 1))
        cells.check("ge" if down else "le", first, second, True)
