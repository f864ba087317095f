"""Values in real arithmetic (float64) of operations that join many operands."""

from __future__ import annotations

import numpy as np

from render.trace.model import ABSENT, Node

Values = np.ndarray
_E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def scanned(args: list[Values], node: Node) -> Values:
    """h = a h + b along the rows, from h = b."""
    a, b = args
    inside = node.operands[1] != ABSENT
    total = np.zeros(len(b))
    for j in range(b.shape[1]):
        total = np.where(inside[:, j], a[:, j] * total + b[:, j], total)
    return total


def ranked(node: Node, args: list[Values]) -> Values:
    rank, terms = args
    return np.take_along_axis(np.sort(terms, axis=1), rank.astype(np.int64)[:, None], axis=1)[:, 0]


def welford(node: Node, args: list[Values]) -> Values:
    means, squares, weights = args
    total = weights.sum(axis=1)
    if node.attrs["part"] == "weight":
        found: Values = total
        return found
    mean = np.where(total > 0, (means * weights).sum(axis=1) / np.where(total > 0, total, 1.0), means[:, 0])
    if node.attrs["part"] == "mean":
        return mean
    moved: Values = squares.sum(axis=1) + (weights * (means - mean[:, None]) ** 2).sum(axis=1)
    return moved


def scaled(node: Node, args: list[Values]) -> Values:
    x = args[0]
    if node.attrs["code"]:
        code = x.astype(np.int64)
        x = np.where(code & 8, -1.0, 1.0) * _E2M1[code & 7]
    if len(args) == 1:
        return x
    scale = np.exp2((args[1].astype(np.int64) & 255) - 127.0) if node.attrs["scale"] == "e8m0" else args[1]
    found: Values = x * scale
    return found
