"""Slices of one shape taken together: elements of one output mostly go through the same operations.

What is asked of every value of a slice then takes as many steps as one slice has nodes, not as many as all of them.
Values of different members are never operands of each other, so each gets what it would get alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

import numpy as np

from render.trace.model import ABSENT, LEAF, MISHAPS, Node, NotSliceable, Slice

T = TypeVar("T")

VALUES = 1 << 19
"""Values of a batch from which on another one is begun: as many more take memory and no fewer steps."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Node by node, the values of all members behind each other: member m has those from `bounds[i][m]` to
    `bounds[i][m + 1]` of node i. `roots`: numbers of the members' stored values."""

    nodes: tuple[Node, ...]
    bounds: tuple[tuple[int, ...], ...]
    roots: tuple[int, ...]
    members: tuple[Slice, ...]

    @property
    def profile(self) -> Any:
        return self.members[0].profile


def sums(values: np.ndarray, bounds: tuple[int, ...]) -> list[float]:
    """Sums of one node's values, member by member; 0 for a sum that is not finite."""
    totals = np.add.reduceat(values, bounds[:-1]).tolist() if len(bounds) > 2 else [float(values.sum())]
    return [total if isfinite(total) else 0.0 for total in totals]


def batches(slices: Sequence[Slice]) -> Iterator[tuple[list[int], Batch]]:
    """(places in `slices`, batch) for each shape there is; of what has very many values, a few members at a time."""
    groups: list[list[int]] = []
    for i, one in enumerate(slices):
        for group in groups:
            if len(group) * one.size < VALUES and _alike(slices[group[0]], one):
                group.append(i)
                break
        else:
            groups.append([i])
    return ((group, together([slices[i] for i in group])) for group in groups)


def asked(slices: Sequence[Slice], ask: Callable[[Batch], Sequence[T]]) -> list[T | Exception]:
    """What is said of each slice, or what is raised: of batches, and of members apart only where one of them fails."""
    out: dict[int, T | Exception] = {}
    for places, batch in batches(slices):
        out.update(_answers(places, batch, ask))
    return [out[i] for i in range(len(slices))]


def _answers(
    places: Sequence[int], batch: Batch, ask: Callable[[Batch], Sequence[T]]
) -> Iterator[tuple[int, T | Exception]]:
    try:
        yield from zip(places, ask(batch), strict=True)
    except (NotSliceable, *MISHAPS) as error:
        if len(places) == 1:
            yield places[0], error
            return
        for i, one in zip(places, batch.members, strict=True):
            yield from _answers([i], together([one]), ask)


def _alike(one: Slice, other: Slice) -> bool:
    if len(one.nodes) != len(other.nodes) or one.profile is not other.profile:
        return False
    return all(_same(a, b) for a, b in zip(one.nodes, other.nodes, strict=True))


def _same(a: Node, b: Node) -> bool:
    if a.op != b.op or a.line != b.line or a.file != b.file:
        return False
    if a.op == LEAF:
        return bool(a.attrs["source"] == b.attrs["source"])
    shapes = [[o.shape[1:] for o in n.operands] for n in (a, b)]
    return shapes[0] == shapes[1] and (a.attrs is b.attrs or _equal(a.attrs, b.attrs))


def _equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays in them: not worth comparing
        return False


def together(slices: Sequence[Slice]) -> Batch:
    """Slices of one shape (see `batches`) as a batch."""
    if len(slices) == 1:
        (one,) = slices
        return Batch(one.nodes, tuple((0, n.size) for n in one.nodes), (one.root,), (one,))
    numbers = [np.empty(one.size + 1, np.int64) for one in slices]  # one more: what ABSENT picks
    for table in numbers:
        table[ABSENT] = ABSENT
    bounds, total = [], 0
    for row in zip(*(one.nodes for one in slices), strict=True):
        ends = [0]
        for table, node in zip(numbers, row, strict=True):
            first = total + ends[-1]
            table[node.start : node.stop] = np.arange(first, first + node.size)
            ends.append(ends[-1] + node.size)
        bounds.append(tuple(ends))
        total += ends[-1]
    nodes, total = [], 0
    for row in zip(*(one.nodes for one in slices), strict=True):
        made = _joined(row, numbers, total)
        nodes.append(made)
        total = made.stop
    roots = tuple(int(table[one.root]) for table, one in zip(numbers, slices, strict=True))
    return Batch(tuple(nodes), tuple(bounds), roots, tuple(slices))


def _joined(row: Sequence[Node], numbers: Sequence[np.ndarray], start: int) -> Node:
    first = row[0]
    operands = tuple(
        np.concatenate([table[n.operands[k]] for table, n in zip(numbers, row, strict=True)])
        for k in range(len(first.operands))
    )
    v, lo, hi = (np.concatenate([getattr(n, end) for n in row]) for end in ("v", "lo", "hi"))
    return Node(first.op, first.attrs, first.file, first.line, start, operands, v, lo, hi)
