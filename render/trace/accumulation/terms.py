"""The terms that a kernel's accumulators really sum, out of the slices of single output elements.

A reduction is a chain of additions in one accumulator: dots with what they are added to, `x = x + y` over a loop, the
row of a `tl.sum`, atomics on one address. What the chain adds up, products of a dot's operands included, is exact in
float64; what another accumulator computed is one term of this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interval_ops.formats.model import FORMATS
from render.trace.accumulation.simulate import Rounding
from render.trace.model import ABSENT, LEAF, Node, Slice

CHAINS = frozenset(["dot", "fold", "fadd", "fsub", "fma"])
ROWS = frozenset(["sum", "atomic_sum"])
SHORTEST = 4
"""Chains of fewer terms are additions, no reductions."""


@dataclass(frozen=True)
class AccumulatorModel:
    """Where a chain adds up: `bits` of fraction, how they are rounded, in which order. `fmt`: the format whose name it
    bears; `products`: mantissa bits of a term; `block`: products that a matrix unit adds before it rounds."""

    fmt: str
    bits: int
    rounding: Rounding
    tree: bool = False
    block: int = 1
    products: int = 0

    @property
    def simulated(self) -> int | str:
        """What the simulator takes: the format with its range, unless the unit keeps another number of bits."""
        return self.fmt if FORMATS[self.fmt].p - 1 == self.bits else self.bits

    @property
    def title(self) -> str:
        return f"{self.fmt} accumulator" if isinstance(self.simulated, str) else f"{self.bits}-bit accumulator"


@dataclass(frozen=True)
class SumChain:
    """One sum of `length` terms: `terms` in their order (blocks of products added up), the value that the run computed,
    and the half width of its bound."""

    file: str
    line: int
    op: str
    accumulator: AccumulatorModel
    terms: np.ndarray
    length: int
    value: float
    half: float


def chains(found: Slice) -> list[SumChain]:
    """Every reduction in the slice."""
    return list(_Walk(found).chains())


class LowSum(NamedTuple):
    """A line that keeps sums in `fmt`, of fewer bits than fp32: its accumulator, or (`stored`) sums that it rounds to
    `fmt` before they are added up further."""

    file: str
    line: int
    fmt: str
    stored: bool

    @property
    def what(self) -> str:
        return f"low-precision partials ({self.fmt})" if self.stored else f"{self.fmt} accumulator"


def low_sums(found: Slice) -> set[LowSum]:
    """Every such line of the slice: an accumulator of `SHORTEST` terms at least, or what is stored of one."""
    walk, low = _Walk(found), set[LowSum]()
    for i, node in enumerate(found.nodes):
        kind = walk.kinds[i]
        if kind is not None and FORMATS[kind.fmt].p < FORMATS["fp32"].p:
            low.add(LowSum(node.file, node.line, kind.fmt, False))
    lines = {(chain.file, chain.line) for chain in walk.chains()}
    return {one for one in low if (one.file, one.line) in lines} | set(walk.partials())


class _Walk:
    def __init__(self, found: Slice) -> None:
        self.found = found
        self.v = np.concatenate([n.v for n in found.nodes])
        self.owner = np.repeat(np.arange(len(found.nodes)), [n.size for n in found.nodes])
        self.kinds = [_accumulator(n, found) for n in found.nodes]

    def chains(self) -> Iterator[SumChain]:
        inside = self._inside()
        for i, node in enumerate(self.found.nodes):
            kind = self.kinds[i]
            if kind is None:
                continue
            for k in range(node.size):
                if inside[node.start + k]:
                    continue
                terms, length, widest = self._terms(node.start + k)
                if np.count_nonzero(terms) >= SHORTEST:
                    half = float(node.hi[k] - node.lo[k]) / 2
                    yield SumChain(node.file, node.line, node.op, widest, terms, length, float(node.v[k]), half)

    def _inside(self) -> np.ndarray:
        """Values that the chain goes on from: no sum of their own."""
        found = np.zeros(len(self.v) + 1, bool)
        for i, node in enumerate(self.found.nodes):
            for o in self._carried(i, node):
                same = [c for c in o.tolist() if self._continues(i, c)]
                found[same] = True
        return found[:-1]

    def _carried(self, i: int, node: Node) -> Sequence[np.ndarray]:
        if self.kinds[i] is None or node.op in ROWS:
            return ()
        return node.operands[:1] if node.op == "dot" else node.operands[2:] if node.op == "fma" else node.operands

    def _continues(self, i: int, operand: int) -> bool:
        """Whether this operand of node i is the same accumulator so far."""
        mine, j = self.kinds[i], self.owner[operand]
        theirs = self.kinds[j]
        if mine is None or theirs is None or self.found.nodes[j].op in ROWS:
            return False
        return (mine.bits, mine.fmt) == (theirs.bits, theirs.fmt)

    def _terms(self, root: int) -> tuple[np.ndarray, int, AccumulatorModel]:
        """(terms of the chain that ends here, first term first; how many before blocks; its accumulator)."""
        parts: list[np.ndarray] = []
        length = 0
        first = self.kinds[self.owner[root]]
        assert first is not None
        widest = first
        todo: list[tuple[int, float]] = [(root, 1.0)]
        while todo:
            number, sign = todo.pop()
            i = int(self.owner[number])
            node, kind = self.found.nodes[i], self.kinds[i]
            if number != root and (kind is None or node.op in ROWS or not self._same(first, kind)):
                if not (node.op == LEAF and self.v[number] == 0):
                    parts.append(np.array([sign * self.v[number]]))
                    length += 1
                continue
            assert kind is not None
            widest = max(widest, kind, key=lambda a: (a.block, a.products))
            k = number - node.start
            if node.op in ROWS:
                row = node.operands[0][k]
                parts.append(sign * self.v[row[row != ABSENT]][::-1])
                length += len(parts[-1])
            elif node.op in ("dot", "fma"):
                acc = int(node.operands[0 if node.op == "dot" else 2][k])
                a, b = node.operands[1:3] if node.op == "dot" else node.operands[:2]
                products = np.atleast_1d(sign * self.v[a[k]] * self.v[b[k]])
                parts.append(_blocks(products, kind.block)[::-1])
                length += len(products)
                todo.append((acc, sign))
            else:
                one, other = (int(o[k]) for o in node.operands)
                todo += [(one, sign), (other, -sign if node.op == "fsub" else sign)]
        return np.concatenate([part[::-1] for part in parts[::-1]] or [np.zeros(0)]), length, widest

    def partials(self) -> Iterator[LowSum]:
        """Casts below fp32 of what a reduction gave, each an addend of a further sum (through other casts)."""
        added = self._added()
        for node in reversed([n for n in self.found.nodes if n.op == "cast"]):
            (o,) = node.operands
            if added[node.start : node.stop].any():
                added[o] = True  # an operand of a cast that is added, widened before
            fmt = node.attrs["dst"]
            known = fmt in FORMATS and FORMATS[fmt].p < FORMATS["fp32"].p
            sums = [k for k in set(self.owner[o].tolist()) if self._reduces(k)] if known else []
            if sums and added[node.start : node.stop].any():
                yield LowSum(node.file, node.line, fmt, True)

    def _added(self) -> np.ndarray:
        """Which values a sum takes as addends."""
        found = np.zeros(len(self.v) + 1, bool)
        for i, node in enumerate(self.found.nodes):
            if self.kinds[i] is not None:
                for o in node.operands if node.op in ROWS else self._carried(i, node):
                    found[o] = True
        return found[:-1]

    def _reduces(self, i: int) -> bool:
        """Whether node i ends a sum of `SHORTEST` terms at least."""
        return self.kinds[i] is not None and self._terms(self.found.nodes[i].start)[1] >= SHORTEST

    @staticmethod
    def _same(one: AccumulatorModel, other: AccumulatorModel) -> bool:
        return (one.bits, one.fmt) == (other.bits, other.fmt)


def _blocks(products: np.ndarray, block: int) -> np.ndarray:
    """Sums of neighbours that a unit adds before it rounds."""
    return products if block == 1 else np.add.reduceat(products, np.arange(0, len(products), block))


def _accumulator(node: Node, found: Slice) -> AccumulatorModel | None:
    """The accumulator of a node that adds; None for any other."""
    if node.op not in CHAINS | ROWS or "fmt" not in node.attrs:
        return None
    fmt = node.attrs["fmt"]
    bits = FORMATS[fmt].p - 1
    if node.op not in ("dot", "fold"):
        return AccumulatorModel(fmt, bits, "nearest", node.op == "sum" and not node.attrs.get("scan"), products=bits)
    model = found.profile.dot(node.attrs["kind"])
    kept = min(bits, round(-math.log2(model.rho)) - (not model.chops)) if model.rho else bits
    return AccumulatorModel(fmt, kept, "truncate" if model.chops else "nearest", block=model.block,
                       products=_product_bits(node.attrs.get("operand")))  # fmt: skip


def _product_bits(operand: str | None) -> int:
    """Mantissa bits of a product of two operands of this format; 0 where a node has none of its own."""
    return 2 * FORMATS[operand].p - 1 if operand in FORMATS else 0
