"""Products of operands that are off by an equal part of each of their elements: how far off follows from magnitudes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from render.reference.local_error import PRODUCTS, Unit
from render.reference.partly import least_growth

if TYPE_CHECKING:
    from render.reference.running_error import Movable


def magnitudes(op: Movable, unit: Unit) -> tuple[list[Any], list[Any]]:
    """The results for magnitudes of operands, and of those grown by their errors: one list where there are none."""
    if unit.partly and (least := least_growth(op)) is not None:
        sizes = op.magnitudes()
        return sizes, [x * least for x in sizes]
    more = None if unit.native or unit.attainable else growth(op)
    sizes = op.magnitudes(above=more is not None)
    if more is None:
        return sizes, op.magnitudes(grown=True) if op.errors else sizes
    return sizes, [x * more for x in sizes]


def growth(op: Movable) -> float | None:
    """By how much a product of two operands grows: (1 + c) (1 + d) where they are off by c |x| and d |y|; else None."""
    floats = [i for i, x in enumerate(op.leaves) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    if op.name not in PRODUCTS or len(floats) != 2 or any(i not in op.errors for i in floats):
        return None
    known = [share for i in floats if (share := _share(op.leaves[i], op.errors[i])) is not None]
    return math.prod(1.0 + x for x in known) if len(known) == 2 else None


def _share(x: torch.Tensor, error: torch.Tensor) -> float | None:
    """Which part of every element the error is; None where it is another one of each."""
    if error.shape != x.shape or not x.numel():
        return None
    size = x.abs()
    most = float(size.max())
    share = float(error.max()) / most if 0.0 < most < math.inf else math.nan
    return share if torch.equal(error, size.mul_(share)) else None


__all__ = ["growth", "magnitudes"]
