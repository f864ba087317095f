"""|derivatives| of the operations of a slice by their operands, as large as the operands' bounds allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from render.ops.rule import Lane, Shape
from render.trace.model import ABSENT, Node
from render.trace.nodes import NODES

if TYPE_CHECKING:
    from render.trace.adjoint import Sweep

Array = np.ndarray


def _ones(s: Sweep, node: Node) -> list[Array]:
    return [np.ones(o.shape) for o in node.operands]


def level(s: Sweep, node: Node) -> list[Array]:
    return [np.zeros(o.shape) for o in node.operands]


def _product(s: Sweep, node: Node) -> list[Array]:
    x, y = node.operands[:2]
    return [s.large[y], s.large[x], *(np.ones(o.shape) for o in node.operands[2:])]


def _quotient(s: Sweep, node: Node) -> list[Array]:
    x, y = node.operands
    return [1 / s.small[y], s.large[x] / s.small[y] ** 2]


def _dot(s: Sweep, node: Node) -> list[Array]:
    acc, a, b = node.operands
    return [np.ones(acc.shape), s.large[b], s.large[a]]


def _select(s: Sweep, node: Node) -> list[Array]:
    cond = node.operands[0]
    chosen = s.v[cond] != 0
    return [np.zeros(cond.shape), chosen.astype(float), (~chosen).astype(float)]


def _prod(s: Sweep, node: Node) -> list[Array]:
    (o,) = node.operands
    whole = np.abs(s.v[node.start : node.stop])[:, None]
    return [np.where(o == ABSENT, 0.0, whole / np.where(s.small[o] > 0, s.small[o], 1.0))]


def _winner(s: Sweep, node: Node) -> list[Array]:
    """1 for the operand that is the result, the first if both are."""
    x, _ = node.operands
    left = s.v[x] == s.v[node.start : node.stop]
    return [left.astype(float), (~left).astype(float)]


def _first(s: Sweep, node: Node) -> list[Array]:
    """1 for the first of many that is the result."""
    (o,) = node.operands
    hit = (o != ABSENT) & (s.v[o] == s.v[node.start : node.stop][:, None])
    return [(hit & (np.cumsum(hit, axis=1) == 1)).astype(float)]


def _function(s: Sweep, node: Node) -> list[Array]:
    """The difference quotient at the values, kept with its sign, or that over the bounds."""
    signed = s.signed[node] = [s.slope(node, k) for k in range(len(node.operands))]
    return [np.fmax(np.abs(d), s.secant(node, k)) for k, d in enumerate(signed)]


def _steps(s: Sweep, node: Node) -> list[Array]:
    """How far the result moves where the operand does."""
    return [s.secant(node, k) for k in range(len(node.operands))]


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


SLOPES: Lane[Callable[[Sweep, Node], list[Array]]] = Lane("slopes", NODES, {
    "fneg": _ones, "fabs": _ones, "sum": _ones, "atomic_sum": _ones, "fold": _ones, "floor": level, "ceil": level,
    "fdiv": _quotient, "precise_divf": _quotient, "prod": _prod, "select": _select, "clampf": _function,
    "max": _first, "min": _first, "ranked": _ranked, "recurrence": _recurrence, "welford": _welford, "scaled": _scaled,
}, {
    Shape.LINEAR: _ones, Shape.CAST: _ones, Shape.COMPARISON: level, Shape.BILINEAR: _product, Shape.DOT: _dot,
    Shape.SELECTION: _winner, Shape.MONOTONE: _function, Shape.UNIMODAL: _function, Shape.SPECIAL: _function,
    Shape.INTEGER: _steps,
})  # fmt: skip
"""Rules of `adjoint`."""
