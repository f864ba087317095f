"""Sums over places that integers name, on numbers of many bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.reference.precise.elementwise import Rule
from render.reference.precise.graph import Ids

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells


def _added(r: RecordedCells, name: str, x: Ids, src: Ids, targets: np.ndarray) -> Ids:
    """x with every element of `src` added at its flat target."""
    flat = np.concatenate([x.ravel(), src.ravel()])
    return r.sums(name, flat, np.concatenate([np.arange(x.size), targets.ravel()]), x.shape)


def _scatter_add(r: RecordedCells, x: Ids, dim: int, index: torch.Tensor, src: Any) -> Ids:
    at = list(np.indices(index.shape))
    part = src[tuple(slice(0, n) for n in index.shape)]
    at[dim] = index.numpy()
    return _added(r, "scatter_add", x, part, np.ravel_multi_index(at, x.shape))


def _index_add(r: RecordedCells, x: Ids, dim: int, index: torch.Tensor, source: Any, alpha: Any = 1) -> Ids:
    if alpha != 1:
        source = r.map("mul", lambda n, a, b: a * b, source, alpha)
    at = list(np.indices(source.shape))
    at[dim] = index.numpy()[at[dim]]
    return _added(r, "index_add", x, source, np.ravel_multi_index(at, x.shape))


SCATTER: dict[str, Rule] = {"scatter_add": _scatter_add, "index_add": _index_add}
