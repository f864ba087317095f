"""|derivatives| of operations that join many operands, as large as the operands' bounds allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from render.trace.model import ABSENT, Node

if TYPE_CHECKING:
    from render.trace.adjoint import Sweep

Array = np.ndarray


def _ranked(s: Sweep, node: Node) -> list[Array]:
    """1 for the first term that is the result."""
    rank, terms = node.operands
    hit = s.v[terms] == s.v[node.start : node.stop][:, None]
    first = hit & (np.cumsum(hit, axis=1) == 1)
    return [np.zeros(rank.shape), first.astype(float)]


def _recurrence(s: Sweep, node: Node) -> list[Array]:
    """By b_i the product of later factors, by a_i that times the value before."""
    factors, addends = node.operands
    inside = addends != ABSENT
    a, b = (np.where(inside, s.large[o], 0.0) for o in (factors, addends))
    after, before = np.ones(inside.shape), np.zeros(inside.shape)
    total = np.zeros(len(a))
    for j in range(a.shape[1]):
        before[:, j] = total
        total = np.where(inside[:, j], a[:, j] * total + b[:, j], total)
    for j in range(a.shape[1] - 2, -1, -1):
        after[:, j] = after[:, j + 1] * np.where(inside[:, j + 1], a[:, j + 1], 1.0)
    return [np.where(inside, after * before, 0.0), np.where(inside, after, 0.0)]


def _welford(s: Sweep, node: Node) -> list[Array]:
    means, squares, weights = node.operands
    w = s.v[weights]
    share = w / np.maximum(w.sum(axis=1), 1.0)[:, None]
    nothing = np.zeros(means.shape)
    if node.attrs["part"] == "weight":
        return [nothing, nothing, np.ones(means.shape)]
    if node.attrs["part"] == "mean":
        return [share, nothing, nothing]
    centre = (share * s.v[means]).sum(axis=1)[:, None]
    return [2 * w * (np.abs(s.v[means] - centre) + s.half[means]), np.ones(squares.shape), nothing]


def _scaled(s: Sweep, node: Node) -> list[Array]:
    """By a number its scale; codes and scales are exact."""
    x, *rest = node.operands
    if not rest or node.attrs["code"]:
        return [np.full(x.shape, 0.0 if node.attrs["code"] else 1.0), *(np.zeros(o.shape) for o in rest)]
    scale = s.v[rest[0]]
    scale = np.exp2((scale.astype(np.int64) & 255) - 127.0) if node.attrs["scale"] == "e8m0" else np.abs(scale)
    return [scale, np.zeros(rest[0].shape)]


SLOPES: dict[str, Callable[[Sweep, Node], list[Array]]] = {
    "ranked": _ranked,
    "recurrence": _recurrence,
    "welford": _welford,
    "scaled": _scaled,
}
"""Rules of `adjoint`."""
CAUSES = {"ranked": "arith", "recurrence": "accumulation", "welford": "accumulation", "scaled": "operand"}
"""What the own error of these operations counts as."""
