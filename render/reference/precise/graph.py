"""What a reference computed, as nodes over cells: recorded for all elements, evaluated for the wanted ones only.

A cell is one element of one result; its number is its place in the array of all. A node owns a range of consecutive
cells and knows the cells it reads. Nodes are made in the order of execution, so that one pass backwards finds what the
wanted cells need, and one pass forwards computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from render.exact.numbers import Num, Numbers
from render.ops.formulas import Refused

Ids = np.ndarray
"""int64 numbers of cells, in the shape of the tensor whose elements they are."""
CELLS = 1 << 23
"""Cells that a recording may have (about 0.3 GB with what they read)."""


class CellNode:
    """One operation: `count` cells from `start` on. `name` is for people."""

    name: str
    start: int
    count: int

    def demand(self, places: np.ndarray, wanted: np.ndarray) -> float:
        """Mark what the cells at `places` (counted from `start`) read; their cost in operations."""
        raise NotImplementedError

    def evaluate(self, n: Numbers, places: np.ndarray, numbers: np.ndarray) -> None:
        raise NotImplementedError


@dataclass
class Leaf(CellNode):
    """Numbers from outside: inputs, constants, integers. float64 holds them exactly."""

    values: np.ndarray
    name: str = "input"
    start: int = 0
    count: int = 0

    def demand(self, places: np.ndarray, wanted: np.ndarray) -> float:
        return 2.0 * places.size

    def evaluate(self, n: Numbers, places: np.ndarray, numbers: np.ndarray) -> None:
        numbers[self.start + places] = _column([n.number(x) for x in self.values[places].tolist()])


@dataclass
class Map(CellNode):
    """Elementwise: cell i is fn(n, cells i of the operands); operands are flat."""

    name: str
    fn: Callable[..., Num]
    operands: Sequence[Ids]
    weight: float = 1.0
    start: int = 0
    count: int = 0

    def demand(self, places: np.ndarray, wanted: np.ndarray) -> float:
        for ids in self.operands:
            wanted[ids[places]] = True
        return self.weight * places.size

    def evaluate(self, n: Numbers, places: np.ndarray, numbers: np.ndarray) -> None:
        columns = [numbers[ids[places]].tolist() for ids in self.operands]
        fn = self.fn
        numbers[self.start + places] = _column([fn(n, *xs) for xs in zip(*columns, strict=True)])


@dataclass
class RowNode(CellNode):
    """Row i of the result, `width` cells, is fn(n, row i of every operand), each a list."""

    name: str
    fn: Callable[..., Sequence[Num]]
    operands: Sequence[Ids]
    width: int = 1
    weight: float = 1.0
    start: int = 0
    count: int = 0

    def demand(self, places: np.ndarray, wanted: np.ndarray) -> float:
        rows = np.unique(places // self.width)
        for ids in self.operands:
            wanted[ids[rows].ravel()] = True
        found: float = self.weight * rows.size * sum(ids.shape[1] for ids in self.operands)
        return found

    def evaluate(self, n: Numbers, places: np.ndarray, numbers: np.ndarray) -> None:
        for row in np.unique(places // self.width).tolist():
            first = self.start + row * self.width
            found = self.fn(n, *(numbers[ids[row]].tolist() for ids in self.operands))
            numbers[first : first + self.width] = _column(found)


@dataclass
class SumNode(CellNode):
    """Cell i is the sum of the cells ids[ends[i]:ends[i + 1]]."""

    name: str
    ids: Ids
    ends: np.ndarray
    start: int = 0
    count: int = 0

    def demand(self, places: np.ndarray, wanted: np.ndarray) -> float:
        for i in places.tolist():
            wanted[self.ids[self.ends[i] : self.ends[i + 1]]] = True
        return float(np.sum(self.ends[places + 1] - self.ends[places])) + places.size

    def evaluate(self, n: Numbers, places: np.ndarray, numbers: np.ndarray) -> None:
        parts = [numbers[self.ids[self.ends[i] : self.ends[i + 1]]].tolist() for i in places.tolist()]
        numbers[self.start + places] = _column([n.sum(xs) for xs in parts])


@dataclass
class ProductNode(CellNode):
    """Batches of matrix products, a[b] @ b[b]; only the rows and columns of wanted elements are multiplied."""

    a: Ids
    b: Ids
    name: str = "mm"
    start: int = 0
    count: int = 0
    _shape: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._shape = (self.a.shape[0], self.a.shape[1], self.b.shape[2])

    def _blocks(self, places: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """(batch, rows, columns, wanted elements inside as flat places of that block) per batch with any."""
        batch, row, column = np.unravel_index(places, self._shape)
        found = []
        for at in np.unique(batch):
            here = batch == at
            rows, i = np.unique(row[here], return_inverse=True)
            columns, j = np.unique(column[here], return_inverse=True)
            found.append((int(at), rows, columns, np.stack([i, j])))
        return found

    def demand(self, places: np.ndarray, wanted: np.ndarray) -> float:
        cost, k = 0.0, self.a.shape[2]
        for at, rows, columns, inside in self._blocks(places):
            wanted[self.a[at][rows].ravel()] = True
            wanted[self.b[at][:, columns].ravel()] = True
            cost += min(k * rows.size * columns.size / 16 + k * (rows.size + columns.size), 3.0 * k * inside.shape[1])
        return cost

    def evaluate(self, n: Numbers, places: np.ndarray, numbers: np.ndarray) -> None:
        k = self.a.shape[2]
        for at, rows, columns, (i, j) in self._blocks(places):
            to = self.start + np.ravel_multi_index((np.full(i.shape, at), rows[i], columns[j]), self._shape)
            a, b = numbers[self.a[at][rows]], numbers[self.b[at][:, columns]]
            if k * rows.size * columns.size / 16 + k * (rows.size + columns.size) <= 3.0 * k * i.size:
                numbers[to] = n.matmul(a, b)[i, j]
            else:
                numbers[to] = _column(
                    [n.matmul(a[r : r + 1], b[:, c : c + 1])[0, 0] for r, c in zip(i.tolist(), j.tolist(), strict=True)]
                )


def _column(values: Sequence[Num]) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = values
    return found


Tick = Callable[[float], Any]


class CellGraph:
    """The nodes of one recording."""

    def __init__(self) -> None:
        self.nodes: list[CellNode] = []
        self.size = 0

    def add(self, node: CellNode, shape: Sequence[int]) -> Ids:
        """The cells of a new node, in `shape`."""
        node.start, node.count = self.size, int(np.prod(shape, dtype=np.int64))
        self.size += node.count
        if self.size > CELLS:
            raise Refused(f"it has more than {CELLS} intermediate values")
        self.nodes.append(node)
        return np.arange(node.start, self.size).reshape(tuple(shape))

    def demanded(self, ids: Ids) -> tuple[np.ndarray, float]:
        """(which cells `ids` need, what evaluating them costs in operations)."""
        wanted = np.zeros(self.size, bool)
        wanted[np.ravel(ids)] = True
        cost = 0.0
        for node in reversed(self.nodes):
            places = np.flatnonzero(wanted[node.start : node.start + node.count])
            if places.size:
                cost += node.demand(places, wanted)
        return wanted, cost

    def evaluate(self, n: Numbers, wanted: np.ndarray, tick: Tick = lambda share: None) -> np.ndarray:
        """The numbers of the wanted cells; `tick` is told the share of cells that is done."""
        numbers = np.empty(self.size, object)
        total, done = max(int(wanted.sum()), 1), 0
        for node in self.nodes:
            places = np.flatnonzero(wanted[node.start : node.start + node.count])
            if places.size:
                node.evaluate(n, places, numbers)
                done += places.size
                tick(done / total)
        return numbers

    def is_given(self, ids: Ids) -> bool:
        """Are all of these from outside, hence the same in float64?"""
        starts = np.array([node.start for node in self.nodes])
        owners = np.unique(np.searchsorted(starts, np.unique(ids), "right") - 1)
        return all(isinstance(self.nodes[int(i)], Leaf) for i in owners)
