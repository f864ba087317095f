"""Slices as graphs: the part that the root needs, and one slice put in the place of leaves of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from render.trace.model import ABSENT, LEAF, Node, Slice


def reached(nodes: Sequence[Node], root: int) -> np.ndarray:
    """Which values the root depends on."""
    used = np.zeros(nodes[-1].stop + 1, bool)  # the last one stands for ABSENT
    used[root] = True
    for node in reversed(nodes):
        mine = used[node.start : node.stop]
        for o in node.operands:
            used[o[mine]] = True
    return used[:-1]


def pruned(found: Slice) -> Slice:
    """The slice without values that its root does not depend on."""
    used = reached(found.nodes, found.root)
    whole = bool(used.all())
    numbers = np.cumsum(used) - 1
    nodes = []
    for node in found.nodes:
        mine = used[node.start : node.stop]
        if whole:
            nodes.append(node)
        elif mine.any():
            nodes.append(_part(node, mine, numbers))
    kept = tuple(nodes)
    notes = [n for n in found.notes if not n.startswith(EARLIER)]
    names = dict.fromkeys(n.attrs["name"] for n in kept if is_earlier(n))
    return replace(
        found, nodes=kept, root=int(numbers[found.root]), notes=(*notes, *(f"{EARLIER} {name}" for name in names))
    )


EARLIER = "taken with the bounds that an earlier launch, another program or the host gave them: elements of"


def is_earlier(node: Node) -> bool:
    """Whether the node holds elements with a bound that something outside the recorded programs made."""
    return node.op == LEAF and node.attrs.get("source") == "memory"


def _part(node: Node, mine: np.ndarray, numbers: np.ndarray) -> Node:
    """The chosen values of a node under new numbers."""
    start = int(numbers[node.start + int(mine.argmax())])
    if mine.all():
        operands = tuple(_renumbered(o, numbers) for o in node.operands)
        return Node(node.op, node.attrs, node.file, node.line, start, operands, node.v, node.lo, node.hi)
    operands = tuple(_renumbered(o[mine], numbers) for o in node.operands)
    attrs = node.attrs
    if "addresses" in attrs:
        attrs = {**attrs, "addresses": attrs["addresses"][mine]}
    v, lo, hi = node.v[mine], node.lo[mine], node.hi[mine]
    return Node(node.op, attrs, node.file, node.line, start, operands, v, lo, hi)


def _renumbered(o: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    found, absent = numbers[o], o == ABSENT
    if absent.any():
        found[absent] = ABSENT
    result: np.ndarray = found
    return result


def joined(found: Slice, others: Sequence[Node], instead: Mapping[int, int]) -> Slice:
    """`found` behind the nodes `others`, with the value numbers of `instead` replaced by numbers in those."""
    shift = others[-1].stop
    numbers = np.arange(found.size) + shift
    for old, new in instead.items():
        numbers[old] = new
    nodes = [
        replace(n, start=n.start + shift, operands=tuple(np.where(o == ABSENT, ABSENT, numbers[o]) for o in n.operands))
        for n in found.nodes
    ]
    return pruned(replace(found, nodes=(*others, *nodes), root=int(numbers[found.root])))
