"""The terms that a kernel's accumulators really sum, out of the slices of single output elements.

A reduction is a chain of additions in one accumulator: dots with what they are added to, `x = x + y` over a loop, the
row of a `tl.sum`, atomics on one address. It goes on where a loop multiplies or casts the accumulator between two
additions (`x = x * scale + y`, an online softmax; `x = (x.to(fp32) + y).to(fp16)`): its terms are then those that were
added times all later factors, its format the shortest on the way. What the chain adds up, products of a dot's operands
included, is exact in float64; what another accumulator computed is one term of this one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from interval_ops.formats.model import FORMATS
from render.trace.accumulation.simulate import Rounding
from render.trace.model import ABSENT, LEAF, Node, Slice

CHAINS = frozenset(["dot", "fold", "fadd", "fsub", "fma"])
ROWS = frozenset(["sum", "atomic_sum"])
SHORTEST = 4
"""Chains of fewer terms are additions, no reductions."""
MOST = 256
"""Sums of one operation that are looked at."""
FEW = 8
"""The same where one would do."""


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
    and the half width of its bound. `file`, `line`: where most of them are added; `steps`: all places that round it."""

    file: str
    line: int
    op: str
    accumulator: AccumulatorModel
    terms: np.ndarray
    length: int
    value: float
    half: float
    steps: frozenset[RoundedAt]


class RoundedAt(NamedTuple):
    """A place that rounds a sum, by a cast or by arithmetic."""

    cast: bool
    file: str
    line: int


def chains(found: Slice, most: int = MOST) -> list[SumChain]:
    """Every reduction in the slice, about `most` of one operation."""
    return list(_Walk(found).chains(most))


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


def low_sums(found: Slice) -> dict[RoundedAt, LowSum]:
    """What rounds every such sum of the slice: accumulators of `SHORTEST` terms at least, and what is stored of one."""
    if not any(_short(node) for node in found.nodes):
        return {}
    walk = _Walk(found)
    low = {RoundedAt(True, one.file, one.line): one for one in walk.partials()}
    for chain in walk.chains(FEW):
        if FORMATS[chain.accumulator.fmt].p < FORMATS["fp32"].p:
            low |= dict.fromkeys(chain.steps, LowSum(chain.file, chain.line, chain.accumulator.fmt, False))
    return low


def _short(node: Node) -> bool:
    """Whether it rounds to fewer bits than fp32."""
    fmt = node.attrs.get("dst" if node.op == "cast" else "fmt", "")
    return fmt in FORMATS and FORMATS[fmt].p < FORMATS["fp32"].p


class _Link(NamedTuple):
    """Between additions of one accumulator: the values `carried` on, times `factor`, cast to `fmt` at least."""

    carried: np.ndarray
    factor: np.ndarray
    fmt: str
    steps: tuple[RoundedAt, ...]


class _Walk:
    def __init__(self, found: Slice) -> None:
        self.found = found
        self.v = np.concatenate([n.v for n in found.nodes])
        self.owner = np.repeat(np.arange(len(found.nodes)), [n.size for n in found.nodes])
        self.kinds = [_accumulator(n, found) for n in found.nodes]
        known: dict[tuple[int, str] | None, int] = {None: -1}
        self.mine = [known.setdefault((k.bits, k.fmt) if k else None, len(known)) for k in self.kinds]
        same = [-2 if n.op in ROWS or m < 0 else m for n, m in zip(found.nodes, self.mine, strict=True)]
        self.same = np.array(same)[self.owner]
        self.turns: list[int] = []
        self.links = self._linked()
        carried = ((i, p, o) for i, n in enumerate(found.nodes) for p, o in enumerate(self._carried(i, n)))
        self.on = {(i, p): self._goes_on(i, o) for i, p, o in carried}
        self.count = self._counts()

    def chains(self, most: int) -> Iterator[SumChain]:
        """Sums of `SHORTEST` terms at least that no further sum goes on from, about `most` of one operation."""
        wanted = ~self._inside() & (self.count >= SHORTEST)
        for node in self.found.nodes:
            at = node.start + np.flatnonzero(wanted[node.start : node.stop])
            for root in at[:: max(1, -(-len(at) // most))].tolist():
                found = self._chain(root)
                if np.count_nonzero(found.terms) >= SHORTEST:
                    yield found

    def _counts(self) -> np.ndarray:
        """How many terms each value sums, at most (float64: a sum that is added to itself doubles them)."""
        found = np.zeros(len(self.v))
        for i, node in enumerate(self.found.nodes):
            if self.kinds[i] is None:
                continue
            mine = np.zeros(node.size)
            if node.op in ROWS or node.op in ("dot", "fma"):
                mine += 1 if node.op == "fma" else node.operands[int(node.op == "dot")].reshape(node.size, -1).shape[1]
            for p, o in enumerate(self._carried(i, node)):
                link = self.links.get((i, p))
                mine += np.where(self.on[i, p], found[o], 1.0) if link is None else found[link.carried]
            found[node.start : node.stop] = mine
        return found

    def _inside(self) -> np.ndarray:
        """Values that the chain goes on from: no sum of their own."""
        found = np.zeros(len(self.v) + 1, bool)
        for i, node in enumerate(self.found.nodes):
            for p, o in enumerate(self._carried(i, node)):
                link = self.links.get((i, p))
                found[o[self.on[i, p]] if link is None else link.carried] = True
        return found[:-1]

    def _goes_on(self, i: int, operand: np.ndarray) -> np.ndarray:
        """Which of an operand's values are the accumulator of node i so far. What a loop summed is a term of what is
        added elsewhere, and of what is kept in fewer bits."""
        same: np.ndarray = self.same[operand] == self.mine[i]
        if not same.any():
            return same
        kind, links = self.kinds[i], [link for p in (0, 1) if (link := self.links.get((i, p))) is not None]
        if kind is not None and any(FORMATS[link.fmt].p < FORMATS[kind.fmt].p for link in links):
            return np.zeros_like(same)
        j = int(self.owner[operand[np.argmax(same)]])
        one, other = self.found.nodes[i], self.found.nodes[j]
        ended = self.turns[j] >= SHORTEST and (one.file, one.line) != (other.file, other.line)
        return np.zeros_like(same) if ended else same

    def _carried(self, i: int, node: Node) -> Sequence[np.ndarray]:
        if self.kinds[i] is None or node.op in ROWS:
            return ()
        return node.operands[:1] if node.op == "dot" else node.operands[2:] if node.op == "fma" else node.operands

    def _linked(self) -> dict[tuple[int, int], _Link]:
        """(node, its operand) -> the accumulator behind it, where that is scaled or cast and added to at the same place
        `SHORTEST` times at least."""
        links: dict[tuple[int, int], _Link] = {}
        before: dict[int, set[int]] = {}
        depth: dict[int, int] = {}
        for i, node in enumerate(self.found.nodes):
            self.turns.append(1)
            carried = [o for o in self._carried(i, node) if o.size]
            on = {int(self.owner[o[0]]) for o in carried if self.same[o[0]] == self.mine[i]}
            before[i] = on
            depth[i] = max((depth[j] for j in on), default=1)
            self.turns[i] = max((1 + self.turns[j] for j in on if self._again(i, j)), default=1)
            if self.turns[i] > 1 or any(self._fixed(int(self.owner[o[0]])) for o in carried):
                continue
            found = ((p, link) for p, o in enumerate(carried) if (link := self._link(i, o)) is not None)
            for p, link in list(found)[:1]:
                j = int(self.owner[link.carried[0]])
                links[i, p] = link
                before[i] = {*on, j}
                depth[i], self.turns[i] = max(depth[i], depth[j] + 1), self.turns[j] + 1
        return _kept(links, before, depth)

    def _again(self, i: int, j: int) -> bool:
        """Whether node j is the addition of node i at another time."""
        one, other = self.found.nodes[i], self.found.nodes[j]
        return (one.op, one.file, one.line) == (other.op, other.file, other.line) and self.mine[i] == self.mine[j]

    def _fixed(self, j: int) -> bool:
        """Whether it stands in the source: coefficients of a polynomial are added to no accumulator."""
        return self.found.nodes[j].op == LEAF and self.found.nodes[j].attrs.get("source") == "constant"

    def _empty(self, number: int) -> bool:
        """Whether it is the zero that a loop starts with, scaled or not."""
        node = self.found.nodes[self.owner[number]]
        scaled = node.op == "fmul" and any(self._fixed(int(self.owner[o[number - node.start]])) for o in node.operands)
        return bool(self.v[number] == 0) and (scaled or self._fixed(int(self.owner[number])))

    def _link(self, i: int, operand: np.ndarray) -> _Link | None:
        """Casts and at most one product between `operand` of node i and the same addition before."""
        start = self._uncast(operand, "fp64")
        if start is None:
            return None
        numbers, fmt, steps = start
        node, factors = self.found.nodes[self.owner[numbers[0]]], [(numbers, np.ones(len(numbers)))]
        if node.op == "fmul":
            a, b = (o[numbers - node.start] for o in node.operands)
            factors = [(a, self.v[b]), (b, self.v[a])]
            steps += (RoundedAt(False, node.file, node.line),)
        for factor, by in factors:
            end = self._uncast(factor, fmt)
            if end is not None and self._again(i, int(self.owner[end[0][0]])):
                return _Link(end[0], by, end[1], steps + end[2])
        return None

    def _uncast(self, numbers: np.ndarray, fmt: str) -> tuple[np.ndarray, str, tuple[RoundedAt, ...]] | None:
        """(what was cast, the shortest format on the way, where); None where it is of several operations."""
        steps: tuple[RoundedAt, ...] = ()
        while True:
            node = self.found.nodes[self.owner[numbers[0]]]
            if numbers.min() < node.start or numbers.max() >= node.stop:
                return None
            if node.op != "cast":
                return numbers, fmt, steps
            to = node.attrs["dst"]
            fmt = min(fmt, to if to in FORMATS else fmt, key=lambda f: FORMATS[f].p)
            numbers, steps = node.operands[0][numbers - node.start], (*steps, RoundedAt(True, node.file, node.line))

    def _chain(self, root: int) -> SumChain:
        """The chain that ends here, first term first."""
        i = int(self.owner[root])
        node, first = self.found.nodes[i], self.kinds[i]
        assert first is not None
        made = _Gathered(first)
        seen: set[int] = set()
        todo: list[tuple[int, float]] = [(root, 1.0)]
        while todo:
            number, scale = todo.pop()
            i = int(self.owner[number])
            if number in seen:
                made.add(np.array([scale * self.v[number]]), 1)
                continue
            seen.add(number)
            todo += self._step(made, i, number - self.found.nodes[i].start, scale)
        with np.errstate(invalid="ignore"):
            half = float(node.hi[root - node.start] - node.lo[root - node.start]) / 2
        return made.chain(float(self.v[root]), half)

    def _step(self, made: _Gathered, i: int, k: int, scale: float) -> list[tuple[int, float]]:
        """Adds the terms that come in at value k of node i; what is left to follow, with its factor."""
        node, kind = self.found.nodes[i], self.kinds[i]
        assert kind is not None
        made.at(node, kind)
        if node.op in ROWS:
            row = node.operands[0][k]
            row = row[row != ABSENT]
            made.add(scale * self.v[row][::-1], len(row))
        elif node.op in ("dot", "fma"):
            a, b = node.operands[1:3] if node.op == "dot" else node.operands[:2]
            products = np.atleast_1d(scale * self.v[a[k]] * self.v[b[k]])
            made.add(_blocks(products, kind.block)[::-1], len(products))
        onward: list[tuple[int, float]] = []
        for p, o in reversed(list(enumerate(self._carried(i, node)))):
            signed = -scale if node.op == "fsub" and p else scale
            link, number = self.links.get((i, p)), int(o[k])
            if link is not None:
                made.through(link)
                onward.insert(0, (int(link.carried[k]), signed * float(link.factor[k])))
            elif self.on[i, p][k]:
                onward.insert(0, (number, signed))
            elif not self._empty(number):
                made.add(np.array([signed * self.v[number]]), 1)
        return onward

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
        return self.kinds[i] is not None and bool(self.count[self.found.nodes[i].start] >= SHORTEST)


def _kept(
    links: dict[tuple[int, int], _Link], before: dict[int, set[int]], depth: dict[int, int]
) -> dict[tuple[int, int], _Link]:
    """The links of chains that are long enough."""
    long: set[int] = set()
    linked = dict(links.keys())
    for i in sorted(before, reverse=True):
        if i in long or (i in linked and depth[i] >= SHORTEST):
            long |= {i} | before[i]
        elif i in linked:
            del links[i, linked[i]]
    return links


class _Gathered:
    """What was found of a chain so far, last term first."""

    def __init__(self, first: AccumulatorModel) -> None:
        self.widest, self.fmt = first, first.fmt
        self.parts: list[np.ndarray] = []
        self.added: Counter[tuple[str, int]] = Counter()
        self.ops: dict[tuple[str, int], str] = {}
        self.steps: set[RoundedAt] = set()
        self.place = ("", 0)

    def at(self, node: Node, kind: AccumulatorModel) -> None:
        """Goes on to a node that adds."""
        self.place = (node.file, node.line)
        self.widest = max(self.widest, kind, key=lambda a: (a.block, a.products))
        self.ops.setdefault(self.place, node.op)
        self.steps.add(RoundedAt(False, *self.place))

    def add(self, terms: np.ndarray, count: int) -> None:
        self.parts.append(terms)
        self.added[self.place] += count

    def through(self, link: _Link) -> None:
        self.fmt = min(self.fmt, link.fmt, key=lambda f: FORMATS[f].p)
        self.steps |= set(link.steps)

    def chain(self, value: float, half: float) -> SumChain:
        terms = np.concatenate([part[::-1] for part in self.parts[::-1]] or [np.zeros(0)])
        kind, place = self.widest, max(self.added or self.ops, key=lambda p: self.added[p])
        if self.fmt != kind.fmt:
            kind = replace(kind, fmt=self.fmt, bits=FORMATS[self.fmt].p - 1, rounding="nearest")
        steps = frozenset(self.steps)
        return SumChain(*place, self.ops[place], kind, terms, self.added.total(), value, half, steps)


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
