"""Errors of counted bins: an element that its own error, or float64's rounding, puts on either side of an edge.

Place p = (x - low) / (high - low) bins, computed in any order of these steps, is off by 4 roundings of
bins max(|x|, |low|, |high|) / (high - low) and of itself, and by bins / (high - low) times the errors of x and, where
the data's own are taken, of the edges. What lies further from every whole number is counted as torch counts it.
Source: aten/src/ATen/native/cpu/HistogramKernel.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

from render.reference.local_error import Unit
from render.reference.running_error import Movable

F64 = torch.float64


def counted(op: Movable, unit: Unit) -> tuple[list[Any], list[torch.Tensor | None]] | None:
    """(values, error bounds) of a histogram in float64; None for other operations and units, and what is not finite."""
    if op.name != "histc" or unit.native or unit.attainable or unit.least or unit.scale != 1.0:
        return None
    given: tuple[Any, ...] = (*op.args, *(100, 0, 0)[len(op.args) - 1 :])
    (first, bins, low, high), values = given, op.run()
    x = first.reshape(-1).to(F64)
    if not x.numel() or not bool(x.isfinite().all()):
        return None
    off = op.errors.get(op.tensors[0])
    off = torch.zeros_like(x) if off is None else off.reshape(-1)
    own = float(low) == float(high)  # edges of the data; where they are the same, one further to each side
    low, high = (float(x.min()), float(x.max())) if own else (float(low), float(high))
    low, high = (low - 1, high + 1) if low == high else (low, high)
    edges = float(off.max()) if own else 0.0
    place = (x - low) / (high - low) * bins
    largest = x.abs().clamp(min=max(abs(low), abs(high)))
    room = bins / (high - low) * (off + 2 * edges + 4 * 2.0**-53 * largest) + 8 * 2.0**-53 * place.abs()
    near = place.round()
    ends = ((x == low) | (x == high)) & (own | (off == 0))  # the first bin and the last hold them
    open_ = ~ends & ((place - near).abs() <= room * (1 + 2.0**-20)) & (near >= 0) & (near <= bins)
    if bool((room >= 0.5).any()):
        return None
    at = near[open_].long()
    error = torch.zeros(bins, dtype=F64)
    for side in (at, at - 1):
        side = side[(side >= 0) & (side < bins)]
        error.index_add_(0, side, torch.ones(side.numel(), dtype=F64))
    return values, [error.reshape(values[0].shape)]


__all__ = ["counted"]
