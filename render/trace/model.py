"""The computation of one output element as data: numbered values, and the operations that make them.

A slice is a list of nodes in an order in which operands come first. Each node stands for many values made by one
operation at one source line: values `start` .. `start + size - 1`, with one array of value numbers per operand. An
operand of shape (size, k) belongs to an operation with k terms (sums, dots); -1 says that there is no such term.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

ABSENT = -1

MISHAPS = (ArithmeticError, LookupError, ValueError, TypeError, AssertionError, MemoryError)
"""What a mistake of ours raises. An explanation that fails says so and leaves the verdict as it is."""

LEAF = "leaf"
"""Operation of a node whose values come from outside; `attrs["source"]` says from where.

input: memory that no kernel wrote; memory: elements that an earlier launch, the host or another program wrote, with the
bounds they had; argument: a float argument; constant: a literal; integer, truth: exact values that no float rounding
touched.
"""


class NotSliceable(Exception):
    """The computation of an element cannot be cut out; `op` and `line` say where it stopped."""

    def __init__(self, op: str, why: str, file: str = "", line: int = 0) -> None:
        where = f" (line {line})" if line else ""
        super().__init__(f"{op}: {why}{where}")
        self.op, self.why, self.file, self.line = op, why, file, line


class Contradiction(NotSliceable):
    """Evaluated in real arithmetic, a value of the cut leaves the bound of the run: one of the two is wrong."""


@dataclass(frozen=True, eq=False)
class Node:
    """`size` values of one operation. `v`, `lo`, `hi`: what the run computed for each (truths are 0 and 1)."""

    op: str
    attrs: dict[str, Any]
    file: str
    line: int
    start: int
    operands: tuple[np.ndarray, ...]
    v: np.ndarray
    lo: np.ndarray
    hi: np.ndarray

    @property
    def size(self) -> int:
        return len(self.v)

    @cached_property
    def stop(self) -> int:
        return self.start + len(self.v)


HOST = "host code"
"""In place of a kernel's name, of what no kernel stored last."""


@dataclass(frozen=True, eq=False)
class Slice:
    """The computation of `output[index]`: its nodes, the number of the stored value, and what is not followed.

    `lo`, `v`, `hi` are those of the output element in the run that was judged; they equal those of value `root`.
    `notes` states each thing that was taken from the run as it was.
    """

    output: str
    index: tuple[int, ...]
    kernel: str
    programs: tuple[int, ...]
    nodes: tuple[Node, ...]
    root: int
    v: float
    lo: float
    hi: float
    notes: tuple[str, ...] = ()
    profile: Any = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Number of values."""
        return self.nodes[-1].stop if self.nodes else 0

    @property
    def terms(self) -> int:
        """Number of operand references: what evaluating the slice once costs."""
        return sum(int(o.size) for n in self.nodes for o in n.operands)

    def node_of(self, number: int) -> Node:
        """The node that makes this value."""
        starts = [n.start for n in self.nodes]
        return self.nodes[int(np.searchsorted(starts, number, side="right")) - 1]
