r"""How much of an element's bound each operation contributes, to first order, by one sweep back over its slice.

Forwards, an operation's own error is what its bound has beyond its operands' widths, e_i = h_i - sum_j |d_ij| h_j, h
being half widths and d the derivatives, taken as large as the operands' bounds allow. Backwards, the weight of a value
is the sum over all paths to the result of the products of |d|: interval arithmetic adds absolute values along every
path, so |d| and not d decides. Contribution of operation i: |w_i| e_i. Their sum is the bound to first order; how far
it is from the bound itself is stated (`Contributions.covered`), because products of widths and hulls are left out.

A chain of dots has one bound, that of its last sum: what the cut operands explain of it is "operand", the rest is the
accumulation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from interval_ops.dot.readings import round_tf32, truncate_tf32
from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.rule import rounding_unit, sum_cause
from render.ops.rule import Shape
from render.trace.batch import Batch, sums, together
from render.trace.check import value_of
from render.trace.graph import is_earlier
from render.trace.model import LEAF, Node, Slice
from render.trace.nodes import NODES, ROUNDED
from render.trace.slopes import SLOPES, level
from render.trace.typical import EARLIER, typical

Array = np.ndarray
Key = tuple[str, str, int]
"""Cause, file, line."""

ATOMICS, INPUT = "atomics", "input"
NARROW, FUSED, JUMP = "narrow", "contraction", "jump"
"""Parts of what a profile calls arithmetic: that of formats below fp32, the rounding of a product that an fma leaves
out, and the step of a floor, a comparison or a conversion to integers."""
LARGEST = 2.0**900
"""More than that no slope is: a long chain of them may leave float64, and 0 times infinity is no number."""
_SUMS = frozenset(["fadd", "fsub"])
_CHOICES = (Shape.SELECTION, Shape.COMPARISON, Shape.SPECIAL)
"""Of an exact operation: it moves what it is given by a flush, or to the other side of a step."""


@dataclass(frozen=True)
class Contributions:
    """`amounts` in units of the element, `half`: its half width, `covered`: their sum over `half`.

    `squares`: the mean square error that each cause typically makes (`render.trace.typical`); `last`: that of the last
    operation `end_op` alone, whose cause and line are `end`; `band`: half width of the probabilistic band. `formats`:
    the coarsest format that a cause rounds to at a line, for casts and sums that the kernel's source asks for.
    """

    amounts: dict[Key, float]
    half: float
    squares: dict[Key, float]
    last: float = 0.0
    band: float = 0.0
    end_op: str = ""
    end: Key | None = None
    formats: dict[Key, str] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return float(sum(self.amounts.values()))

    @property
    def covered(self) -> float:
        return self.total / self.half if self.half else 1.0


def contributions(found: Slice) -> Contributions:
    """First-order shares of the bound of a slice's element; all amounts are 0 for a point."""
    return contributions_of(together([found]))[0]


def contributions_of(batch: Batch) -> list[Contributions]:
    """`contributions` of every member."""
    sweep = Sweep(batch)
    sweep.forward()
    amounts = sweep.backward(batch)
    errors = typical(sweep, batch, amounts)
    return [_found(*each) for each in zip(batch.members, amounts, errors, strict=True)]


def _found(found: Slice, amounts: dict[Key, float], errors: tuple[dict[Key, float], float, float]) -> Contributions:
    half = (found.hi - found.lo) / 2
    root = found.node_of(found.root)
    end = (_cause(root, found.profile), root.file, root.line) if root.op != LEAF else None
    kept = {k: v for k, v in sorted(amounts.items()) if v > 0}
    return Contributions(kept, float(half), *errors, root.op, end, _formats(found))


def _formats(found: Slice) -> dict[Key, str]:
    out: dict[Key, str] = {}
    for node in found.nodes:
        name, cause = _rounds_to(node, found.profile)
        if name:
            key = (cause, node.file, node.line)
            out[key] = min(out.get(key, name), name, key=lambda n: FORMATS[n].p)
    return out


def _rounds_to(node: Node, profile: Profile) -> tuple[str, str]:
    """(format that this operation rounds to because the source says so, cause)."""
    if node.op == "cast":
        return node.attrs["dst"], "cast"
    if node.op == "sum":
        return node.attrs["fmt"], _cause(node, profile)
    if node.op == "dot":
        model = profile.dot(node.attrs["kind"])
        return (model.acc if model.acc in FORMATS and model.acc != "fp32" else ""), model.cause
    return "", ""


class Sweep:
    def __init__(self, found: Slice | Batch) -> None:
        self.found = found
        self.profile: Profile = found.profile
        # One value more than there are: what ABSENT picks is an exact zero.
        v, lo, hi = (np.concatenate([*(getattr(n, end) for n in found.nodes), [0.0]]) for end in ("v", "lo", "hi"))
        self.known: Array = (known := np.isfinite(lo) & np.isfinite(hi))
        if not known.all():
            lo, hi = np.where(known, lo, v), np.where(known, hi, v)
        self.v: Array = v
        self.lo: Array = lo
        self.hi: Array = hi
        with np.errstate(invalid="ignore"):
            self.half: Array = np.subtract(hi, lo)
            self.half /= 2
        np.nan_to_num(self.half, copy=False)
        self.large: Array = np.abs(lo)
        np.maximum(self.large, np.abs(hi), out=self.large)
        chained = any(n.op in ("dot", "fold") for n in found.nodes)
        self.cut, self.loose = np.zeros((2, len(v) if chained else 0))
        self.own: dict[int, list[tuple[str, Array]]] = {}
        self.fused = _only_added(found) if self.profile.contraction != "off" else np.zeros(len(v), bool)
        self.slopes: dict[Node, list[Array]] = {}
        self.signed: dict[Node, list[Array]] = {}
        """Derivatives of functions, with their signs."""

    @cached_property
    def small(self) -> Array:
        """The least magnitude in the bound of every value; that of the value where the bound holds 0."""
        low = np.minimum(np.abs(self.lo), np.abs(self.hi))
        found: Array = np.where((self.lo <= 0) & (self.hi >= 0), np.abs(self.v), low)
        return found

    # forwards: what each operation adds
    def forward(self) -> None:
        with np.errstate(all="ignore"):
            for i, node in enumerate(self.found.nodes):
                if node.op == LEAF:
                    cause = EARLIER if is_earlier(node) else INPUT
                    self.own[i] = _some((cause, self.half[node.start : node.stop]))
                    continue
                slopes = self.slopes[node] = [_finite(s) for s in SLOPES[node.op](self, node)]
                carried = np.zeros(node.size)
                for o, s in zip(node.operands, slopes, strict=True):
                    part = s * self.half[o]
                    carried += part.sum(axis=1) if part.ndim == 2 else part
                self.own[i] = _some(*self._own(node, carried))

    def _own(self, node: Node, carried: Array) -> list[tuple[str, Array]]:
        at = slice(node.start, node.stop)
        if node.op in ("dot", "fold"):
            self._operands(node)
            open_ = np.isnan(node.lo)
            self.half[at] = np.where(open_, carried, self.half[at])
            rest = np.where(open_, 0.0, np.maximum(self.half[at] - carried, 0.0))
            operand = np.minimum(np.abs(self.cut[at]) / 2 + self.loose[at], rest)
            return [("operand", operand), (self.profile.dot(node.attrs["kind"]).cause, rest - operand)]
        own = np.maximum(self.half[at] - carried, 0.0)
        if node.op in ROUNDED and "fmt" in node.attrs:
            fmt = FORMATS[node.attrs["fmt"]]
            twice = node.op.endswith("fma") and fmt.p < 11  # no fused instruction everywhere
            own = own if twice else np.minimum(own, rounding_unit(fmt) * self.large[at] + fmt.half_subnormal)
        cause = _cause(node, self.profile)
        fused = self.fused[at] if cause == "arith" and node.op == "fmul" else np.zeros(node.size, bool)
        return (
            [(cause, np.where(fused, 0.0, own)), (FUSED, np.where(fused, own, 0.0))] if fused.any() else [(cause, own)]
        )

    def _operands(self, node: Node) -> None:
        """What operands of fewer bits move: signed sums of points, magnitudes where both have a bound."""
        at = slice(node.start, node.stop)
        if node.op == "fold":
            for o in node.operands:
                mine = self._pending(o)
                self.cut[at] += np.where(mine, self.cut[o], 0.0)
                self.loose[at] += np.where(mine, self.loose[o], 0.0)
            return
        acc, a, b = node.operands
        mine = self._pending(acc)
        self.cut[at], self.loose[at] = np.where(mine, self.cut[acc], 0.0), np.where(mine, self.loose[acc], 0.0)
        model = self.profile.dot(node.attrs["kind"])
        x, y = self.v[a], self.v[b]
        if model.truncate == "tf32":
            lost = truncate_tf32(x) * truncate_tf32(y) - x * y
            both = (self.half[a] > 0) & (self.half[b] > 0)
            self.cut[at] += np.where(both, 0.0, lost).sum(axis=1)
            self.loose[at] += np.where(both, np.abs(lost), 0.0).sum(axis=1) / 2
            if model.rounds:  # to nearest instead: about on the other side of the exact sum
                self.loose[at] += np.abs((round_tf32(x) * round_tf32(y) - x * y).sum(axis=1)) / 2
        if model.eps:
            self.loose[at] += model.eps * np.abs(x * y).sum(axis=1)

    def _pending(self, numbers: Array) -> Array:
        """Which of these values are sums that nobody closed, so that their error belongs to what extends them."""
        found: Array = self._open[numbers]
        return found

    @property
    def _open(self) -> Array:
        if not hasattr(self, "_unclosed"):
            flags = [np.isnan(n.lo) if n.op in ("dot", "fold") else np.zeros(n.size, bool) for n in self.found.nodes]
            self._unclosed = np.concatenate(flags)
        return self._unclosed

    def slope(self, node: Node, i: int) -> Array:
        """The derivative at the value."""
        o = node.operands[i]
        step = 1e-6 * np.maximum(np.abs(self.v[o]), 1e-6)
        found: Array = (self._with(node, i, self.v[o] + step) - self._with(node, i, self.v[o] - step)) / (2 * step)
        return found

    def secant(self, node: Node, i: int) -> Array:
        """|slope| over the bounds of an operand."""
        o = node.operands[i]
        outer = self._with(node, i, self.hi[o]) - self._with(node, i, self.lo[o])
        width = self.hi[o] - self.lo[o]
        return np.where(width > 0, np.abs(outer) / np.where(width > 0, width, 1.0), 0.0)

    def _with(self, node: Node, i: int, x: Array) -> Array:
        """The node's exact values with operand i replaced."""
        known = np.concatenate([*(self.v[o] if k != i else x for k, o in enumerate(node.operands))])
        places = np.split(np.arange(known.size), len(node.operands))
        moved = Node(node.op, node.attrs, "", 0, 0, tuple(places), node.v, node.lo, node.hi)
        return np.asarray(value_of(moved, known), float)

    # backwards: how far it reaches
    def backward(self, batch: Batch) -> list[dict[Key, float]]:
        """The amounts of every member."""
        weight = np.zeros(len(self.v))
        weight[list(batch.roots)] = 1.0
        amounts: list[dict[Key, float]] = [{} for _ in batch.members]
        for i in range(len(batch.nodes) - 1, -1, -1):
            node, bounds = batch.nodes[i], batch.bounds[i]
            mine = np.minimum(weight[node.start : node.stop], LARGEST)  # a chain of slopes may leave float64
            for cause, own in self.own[i]:
                key = (cause, node.file, node.line)
                for mine_only, amount in zip(amounts, sums(mine * own, bounds), strict=True):
                    mine_only[key] = mine_only.get(key, 0.0) + amount
            with np.errstate(over="ignore"):
                for o, slope in zip(node.operands, self.slopes.get(node, ()), strict=False):
                    np.add.at(weight, o, slope * (mine[:, None] if o.ndim == 2 else mine))
        return amounts


def _some(*parts: tuple[str, Array]) -> list[tuple[str, Array]]:
    """The parts that add anything: exact inputs are half of the nodes."""
    return [part for part in parts if part[1].any()]


def _finite(slope: Array) -> Array:
    """Derivatives with 0 for those that are not known."""
    return slope if np.isfinite(slope).all() else np.nan_to_num(slope, posinf=0.0)


def _cause(node: Node, profile: Profile) -> str:
    """What the operation's own error counts as."""
    rule = NODES[node.op]
    if rule.shape is Shape.REDUCTION and rule.cause != ATOMICS:
        return sum_cause(FORMATS[node.attrs["fmt"]])
    if rule.shape is Shape.DOT and "kind" in node.attrs:
        return profile.dot(node.attrs["kind"]).cause
    if node.op == "to_integer" or SLOPES.get(node.op) is level or (rule.cause is None and rule.shape in _CHOICES):
        return JUMP
    if rule.cause == "arith" and node.attrs.get("fmt") in FORMATS and FORMATS[node.attrs["fmt"]].p < 24:
        return NARROW
    # An exact operation moves what it is given by a flush at most, which is the library's.
    return rule.cause or ("function" if node.op.startswith("library ") else "arith")


def _only_added(found: Slice | Batch) -> Array:
    """Which values of a graph are used, and by sums alone."""
    size = sum(n.size for n in found.nodes) + 1
    added, other = np.zeros(size, bool), np.zeros(size, bool)
    for node in found.nodes:
        for o in node.operands:
            (added if node.op in _SUMS else other)[o] = True
    return added & ~other


__all__ = [
    "ATOMICS",
    "EARLIER",
    "FUSED",
    "INPUT",
    "JUMP",
    "NARROW",
    "Contributions",
    "Key",
    "contributions",
    "contributions_of",
]
