"""Slices as graphs: the part that the root needs, and one slice put in the place of leaves of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from render.trace.model import ABSENT, LEAF, Node, Slice


def reached(nodes: Sequence[Node], root: int) -> np.ndarray:
    """Which values the root depends on."""
    return _reached(nodes, root)[0]


def _reached(nodes: Sequence[Node], root: int) -> tuple[np.ndarray, bytearray]:
    """(which values the root depends on, which nodes have one of them). Only these nodes are looked at: most of what
    many elements share is behind other elements."""
    used = np.zeros(nodes[-1].stop + 1, bool)  # the last one stands for ABSENT
    owner = np.repeat(np.arange(len(nodes) + 1), [*(len(n.v) for n in nodes), 1])
    met = bytearray(len(nodes) + 1)
    marks = np.frombuffer(met, np.uint8)
    used[root], marks[owner[root]] = True, 1
    for i in range(len(nodes) - 1, -1, -1):
        if not met[i]:
            continue
        node = nodes[i]
        mine = used[node.start : node.stop]
        whole = bool(mine.all())
        for o in node.operands:
            behind = o if whole else o[mine]
            used[behind] = True
            marks[owner[behind]] = 1
    return used[:-1], met


def pruned(found: Slice) -> Slice:
    """The slice without values that its root does not depend on."""
    used, met = _reached(found.nodes, found.root)
    numbers = np.cumsum(used) - 1
    if used.all():
        kept = tuple(found.nodes)
    else:
        needed = compress(found.nodes, met)
        kept = tuple(_part(node, used[node.start : node.stop], numbers) for node in needed)
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
