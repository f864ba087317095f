"""Cutting and joining slices as graphs keeps what the root computes, by the numbers of its values."""

from __future__ import annotations

import numpy as np

from render.trace.check import evaluate
from render.trace.graph import joined, pruned, reached
from render.trace.model import ABSENT, LEAF, Node, Slice
from tests.support import rng, trials


def node(op: str, start: int, operands: tuple[np.ndarray, ...], values: np.ndarray) -> Node:
    return Node(op, {"fmt": "fp64", "source": "constant"}, "k.py", 1, start, operands, values, values, values)


def drawn(g: np.random.Generator) -> Slice:
    """A random program of sums and products over a few leaves, some with many terms and some lanes absent."""
    nodes = [node(LEAF, 0, (), g.integers(1, 5, 6).astype(float))]
    for _ in range(int(g.integers(2, 7))):
        start, size = nodes[-1].stop, int(g.integers(1, 4))
        if g.random() < 0.5:
            operands: tuple[np.ndarray, ...] = tuple(g.integers(0, start, size) for _ in range(2))
            op = str(g.choice(["fadd", "fmul", "maximumf"]))
        else:
            rows = g.integers(0, start, (size, 3))
            operands, op = (np.where(g.random(rows.shape) < 0.3, ABSENT, rows),), "sum"
        nodes.append(node(op, start, operands, np.zeros(size)))
    root = int(g.integers(nodes[-1].start, nodes[-1].stop))
    return Slice("out", (0,), "kernel", (0,), tuple(nodes), root, 0.0, 0.0, 0.0)


def test_pruning_keeps_the_root_and_drops_the_rest() -> None:
    g = rng(12)
    for _ in range(trials(200)):
        found = drawn(g)
        part = pruned(found)
        assert evaluate(part)[part.root] == evaluate(found)[found.root]
        used = reached(found.nodes, found.root)
        assert part.size == used.sum() and reached(part.nodes, part.root).all()


def test_joining_puts_another_slice_in_the_place_of_leaves() -> None:
    g = rng(13)
    for _ in range(trials(200)):
        found, other = drawn(g), drawn(g)
        leaf = int(g.integers(0, 6))
        value = evaluate(other)[other.root]
        nodes = [*found.nodes]
        put = nodes[0].v.copy()
        put[leaf] = value
        wanted = evaluate(Slice("out", (0,), "k", (0,), (node(LEAF, 0, (), put), *nodes[1:]), found.root, 0, 0, 0))
        whole = joined(found, other.nodes, {leaf: other.root})
        assert evaluate(whole)[whole.root] == wanted[found.root]
