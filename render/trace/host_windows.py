"""Slices through pools of extrema: the places under each window, by the arithmetic of their definition."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from render.ops.aten import base_name
from render.trace.host_nodes import Making, Numbers
from render.trace.model import ABSENT


def most(make: Making) -> Numbers:
    """max_pool1d to 3d and their adaptive forms: the largest element under the window; padding is none."""
    x = make.step.args[0]
    rank = 3 if "3d" in make.step.name else 2
    axes = _adaptive(make, rank) if "adaptive" in base_name(make.step.name) else _sliding(make, rank)
    at = np.unravel_index(make.wanted, make.shape)
    lead = np.ravel_multi_index(at[:-rank], make.shape[:-rank]) if len(make.shape) > rank else 0 * make.wanted
    rows = []
    for steps in product(*(range(a.shape[1]) for a in axes)):
        places = [a[i, s] for a, i, s in zip(axes, at[-rank:], steps, strict=True)]
        inside = np.logical_and.reduce([p != ABSENT for p in places])
        flat = lead
        for extent, p in zip(x.shape[-rank:], places, strict=True):
            flat = flat * extent + np.maximum(p, 0)
        rows.append(np.where(inside, flat, ABSENT))
    return make.join("max", {"fmt": make.fmt.name}, make.read(x, np.stack(rows, axis=1)))


def _each(given: Any, rank: int) -> list[int]:
    found = [int(v) for v in given] if isinstance(given, (list, tuple)) else [int(given)]
    return found * rank if len(found) == 1 else found


def _sliding(make: Making, rank: int) -> list[np.ndarray]:
    """Per axis, the places (out, size of the kernel) under each window: out stride - padding + step dilation."""
    size = _each(make.argument("kernel_size"), rank)
    stride = _each(make.argument("stride") or size, rank)
    padding, dilation = (_each(make.argument(n, d), rank) for n, d in (("padding", 0), ("dilation", 1)))
    found = []
    for k in range(rank):
        start = np.arange(make.shape[-rank + k]) * stride[k] - padding[k]
        places = start[:, None] + np.arange(size[k])[None, :] * dilation[k]
        extent = make.step.args[0].shape[-rank + k]
        found.append(np.where((places >= 0) & (places < extent), places, ABSENT))
    return found


def _adaptive(make: Making, rank: int) -> list[np.ndarray]:
    """Per axis, from floor(out L / n) to ceil((out + 1) L / n) of L places for n results."""
    found = []
    for k in range(rank):
        n, extent = make.shape[-rank + k], make.step.args[0].shape[-rank + k]
        start, end = np.arange(n) * extent // n, -(-(np.arange(n) + 1) * extent // n)
        places = start[:, None] + np.arange((end - start).max())[None, :]
        found.append(np.where(places < end[:, None], places, ABSENT))
    return found
