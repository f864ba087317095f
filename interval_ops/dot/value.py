"""The value lane of a dot: what a CPU computes, where the target can compute it too.

A CPU rounds every addition to nearest. A matrix unit that cuts what does not fit returns less, and blocks of many
products lose less than that many roundings: over many products the CPU's sum may lie beyond every result of the unit.
There the value is the number of the accumulator's format inside the enclosure that is nearest to it. (One that is
inside stays as it is, bit by bit what Triton's own interpreter computes.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.compiled import compiled
from interval_ops.formats.model import Format

Array = np.ndarray[Any, Any]

_NUMPY = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


@compiled
def _leaves(v, lo, hi):  # type: ignore[no-untyped-def]
    """Whether any lane of flat arrays lies outside; one pass, vectorised."""
    found = False
    for i in range(v.size):
        x = np.float64(v[i])
        found |= (x < lo[i]) | (x > hi[i])
    return found


def within(v: Array, lo: Array, hi: Array, fmt: Format) -> Array:
    """`v` with every lane outside [lo, hi] moved to the nearest number of `fmt` inside; broadcasts, keeps the dtype.

    Lanes stay as they are where an end or the value is NaN, or where no number of `fmt` lies between the ends.
    """
    plain = v.shape == lo.shape == hi.shape and all(x.flags.c_contiguous for x in (v, lo, hi))
    if plain and not _leaves(v.reshape(-1), lo.reshape(-1), hi.reshape(-1)):
        return v
    outside = (v < lo) | (v > hi)
    if not outside.any():
        return v
    out = np.array(np.broadcast_to(v, outside.shape))
    value, low, high = (np.broadcast_to(x, outside.shape)[outside] for x in (v, lo, hi))
    with np.errstate(over="ignore"):
        end = np.where(value < low, low, high).astype(_NUMPY[fmt.name])
        end = np.where(end < low, np.nextafter(end, end.dtype.type(np.inf)), end)
        end = np.where(end > high, np.nextafter(end, end.dtype.type(-np.inf)), end)
    out[outside] = np.where((low <= end) & (end <= high), end, value)
    return out
