"""One element that is less exact than it should be, looked at in its slice: what excuses it, and where the digits go.

Every value of the slice is known as the run computed it and as real arithmetic gives it from the same leaves. What one
rounding of every leaf does to each value is found without derivatives: with leaves l (1 + s c), c independent Cauchy
variables and s tiny, a value moves by a Cauchy variable of scale s sum_i |df/dl_i| |l_i| (Cauchy variables are stable
under addition with weights that add in absolute value), and the median of its magnitudes is that scale; 24 draws give
it within a factor of two. A leaf that is loaded twice moves alike.

Excused is what a rounding of the launch's own numbers does (float arguments and literals that are no short binary
fractions), an error no larger than what a neighbour of the same inputs may have, and a decision that goes the other way
on operands that are as good as their own conditioning or the reference's same quantity. A comparison decides by the
difference of its operands, so that this has to be as good, too: x + 1e6 and t + 1e6 are, x - t from them is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from render.entry.execution import Execution
from render.explain.better_forms import better_form
from render.explain.study import Study
from render.reference.shadow import Made
from render.trace.model import ABSENT, LEAF, MISHAPS, Node, NotSliceable, Slice
from render.trace.nodes import COMPARISONS, NODES

if TYPE_CHECKING:
    from render.explain.stability import Careful, Suspect

DRAWS = 24
STEP = 2.0**-28
FARTHEST = 2.0**8
"""Size of a perturbation, and the farthest Cauchy variable in such steps: above float64's noise, below what bends."""
SHORT = 2.0**12
"""Numbers that are integers after this factor are exact in every format that programs compute in."""
NEIGHBOURS = 12
"""Elements whose neighbours are looked at."""
Spot = tuple[str, int, float]
_STEPS = frozenset({"to_integer", *(op for op, rule in NODES.items() if rule.steps)})


@dataclass(frozen=True)
class Examined:
    """`error` beyond what is excused counts against `allowed`, LIMIT times what a careful implementation loses.

    `beside`: size of the neighbours that it is measured by; `spot`: file, line and factor of the first operation that
    loses digits; `better`: the form that does not; `decision`: what rests on them.
    """

    index: tuple[int, ...]
    error: float
    exact: float
    allowed: float
    beside: float = 0.0
    spot: Spot | None = None
    better: str = ""
    decision: str = ""


def examined(
    study: Study, run: Execution, careful: Careful, suspect: Suspect, suspects: Sequence[Suspect]
) -> list[Examined]:
    """The chosen elements of one output that nothing excuses; those that cannot be cut out as they are."""
    from render.trace.element import slices_of

    name, chosen = suspect.case.name, suspect.chosen()
    slices = slices_of(study.entry, run, [(name, at) for at in chosen])
    decided = _Decided(careful)
    left: list[tuple[Examined, Slice | None]] = []
    for at, found in zip(chosen, slices, strict=True):
        if _chosen_place(run, suspect, at, found):
            continue
        plain = Examined(at, float(suspect.error[at]), float(suspect.case.exact[at]), float(suspect.allowed[at]))
        try:
            if isinstance(found, NotSliceable):
                left.append((plain, None))
            elif (one := _own(plain, LostDigits(found, careful), decided)) is not None:
                left.append((one, found))
        except (NotSliceable, *MISHAPS):
            left.append((plain, None))
    return _beside(study, run, careful, suspect, suspects, left)


def _chosen_place(run: Execution, suspect: Suspect, at: tuple[int, ...], found: Slice | NotSliceable) -> bool:
    """Whether rounding leaves open which element of memory this one is, or comes from: a tie, whose sides differ by
    more than any rounding. The bound holds them all."""
    session, tensor = run.session, run.outputs[suspect.i].tensor
    strides = zip(at, tensor.stride(), strict=True)
    if tensor.data_ptr() + tensor.element_size() * sum(k * step for k, step in strides) in session.memory.placed:
        return True
    lines = {(site.file, site.line) for site in session.open_sites}
    return isinstance(found, Slice) and any((node.file, node.line) in lines for node in found.nodes)


def _own(plain: Examined, lost: LostDigits, decided: _Decided) -> Examined | None:
    """What the slice alone says; None where it excuses the element."""
    from render.explain.stability import LIMIT

    allowed = plain.allowed + LIMIT * lost.launch_numbers()
    if plain.error <= allowed:
        return None
    flips = lost.flips()
    if flips and all(decided.fairly(lost, node, k) for node, k in flips):
        return None
    decision = next((f"{_said(n)} ({_place(n)})" for n, k in flips if not decided.fairly(lost, n, k)), "")
    spot, better = lost.spot()
    return replace(plain, allowed=allowed, spot=spot, better=better, decision=decision)


def _said(node: Node) -> str:
    comparison = node.op in COMPARISONS
    return "a comparison" if comparison else f"the {node.op.removeprefix('library ')} of a number"


def _place(node: Node) -> str:
    return f"line {node.line}" if node.line else "on the host"


class LostDigits:
    """A slice with its exact values `e` and, per value, what one rounding u of its leaves does (`scale`, in u)."""

    def __init__(self, found: Slice, careful: Careful) -> None:
        from render.trace.check import evaluate

        self.found, self.careful = found, careful
        self.v = np.concatenate([n.v for n in found.nodes])
        self.e = evaluate(found)
        with np.errstate(all="ignore"):
            self.error = np.nan_to_num(np.abs(self.v - self.e), nan=0.0)
        self._moves = self._moved()
        self.scale = np.asarray(np.nan_to_num(np.median(np.abs(self._moves), axis=0), nan=np.inf))

    def _leaves(self) -> Iterator[Node]:
        return (n for n in self.found.nodes if n.op == LEAF and n.attrs["source"] not in ("integer", "truth"))

    def _with(self, moved: dict[int, np.ndarray]) -> np.ndarray:
        """Every value for other leaves, by their nodes' starts."""
        from render.trace.check import value_of

        out = np.empty(self.found.size)
        for node in self.found.nodes:
            out[node.start : node.stop] = moved[node.start] if node.start in moved else value_of(node, out)
        return out

    def _moved(self) -> np.ndarray:
        """Per draw, by how much every value moves, in the size of a step."""
        generator = np.random.default_rng(0)
        leaves = list(self._leaves())
        names = [str(n.attrs.get("name", n.attrs["source"])) for n in leaves]
        pools = {name: np.unique(np.concatenate([n.v for n, k in zip(leaves, names, strict=True) if k == name]))
                 for name in dict.fromkeys(names)}  # fmt: skip
        changes = []
        with np.errstate(all="ignore"):
            for _ in range(DRAWS):
                factors = {name: np.clip(generator.standard_cauchy(pool.size), -FARTHEST, FARTHEST)
                           for name, pool in pools.items()}  # fmt: skip
                moved = {}
                for node, name in zip(leaves, names, strict=True):
                    inexact = np.ones(node.size, bool) if node.attrs["source"] != "constant" else _long(node.v)
                    step = factors[name][np.searchsorted(pools[name], node.v)]
                    moved[node.start] = node.v * (1 + np.where(inexact, STEP * step, 0.0))
                changes.append((self._with(moved) - self.e) / STEP)
        return np.array(changes)

    def apart(self, a: int, b: int) -> float:
        """`eta` of the difference of two values."""
        with np.errstate(all="ignore"):
            e, error = self.e[a] - self.e[b], (self.v[a] - self.v[b]) - (self.e[a] - self.e[b])
            scale = np.nan_to_num(np.median(np.abs(self._moves[:, a] - self._moves[:, b])), nan=np.inf)
            allowed = self.careful.u * scale + self.careful.least * abs(e) + 1e-300
            return float(np.nan_to_num(abs(error) / allowed, nan=0.0))

    def launch_numbers(self) -> float:
        """What one rounding of every float argument and long literal does to the element."""
        total = 0.0
        with np.errstate(all="ignore"):
            for node in self._leaves():
                if node.attrs["source"] in ("argument", "constant") and _long(node.v).any():
                    gap = self._with({node.start: node.v * (1 + STEP)})[self.found.root] - self.e[self.found.root]
                    total += float(np.nan_to_num(abs(gap) / STEP, nan=0.0, posinf=0.0))
        return self.careful.least * total

    def eta(self) -> np.ndarray:
        """Per value: its error in units of what its leaves' roundings and its own explain."""
        u, least = self.careful.u, self.careful.least
        with np.errstate(all="ignore"):
            found: np.ndarray = np.nan_to_num(self.error / (u * self.scale + least * np.abs(self.e) + 1e-300), nan=0.0)
        return found

    def flips(self) -> list[tuple[Node, int]]:
        """The first decisions that the run takes otherwise than real arithmetic does."""
        changed = np.zeros(self.found.size, bool)
        found = []
        for node in self.found.nodes:
            if node.op == LEAF:
                continue
            at = slice(node.start, node.stop)
            step = node.op in COMPARISONS or node.op in _STEPS
            if step:
                mine = self.error[at] >= 0.5
                behind = np.zeros(node.size, bool)
                for o in node.operands:
                    hit = np.where(o == ABSENT, False, changed[o])
                    behind |= hit.any(axis=1) if hit.ndim == 2 else hit
                found += [(node, int(k)) for k in np.flatnonzero(mine & ~behind)]
                changed[at] = mine | behind
            else:
                for o in node.operands:
                    hit = np.where(o == ABSENT, False, changed[o])
                    changed[at] |= hit.any(axis=1) if hit.ndim == 2 else hit
        return found

    def spot(self) -> tuple[Spot | None, str]:
        """The first operation whose result is worse than its leaves explain, how much, and a better form of it."""
        from render.explain.stability import LIMIT

        eta = self.eta()
        for node in self.found.nodes:
            mine = eta[node.start : node.stop]
            if node.op != LEAF and node.file and (mine > LIMIT).any():
                k = int(np.argmax(mine))
                return (node.file, node.line, float(mine[k])), better_form(self.found, node, k)
        return None, ""


def _long(v: np.ndarray) -> np.ndarray:
    """Numbers that a program most likely rounded when it wrote them down: 0.1, not 0.5."""
    with np.errstate(all="ignore"):
        scaled = np.abs(v) * SHORT
        return np.asarray((v != 0) & (np.abs(v) < 1e18) & (scaled != np.round(scaled)))


class _Decided:
    """Whether a decision rests on operands as good as their conditioning, or the reference's, allows."""

    def __init__(self, careful: Careful) -> None:
        self.careful = careful
        self._known: tuple[np.ndarray, np.ndarray] | None = None

    def fairly(self, lost: LostDigits, node: Node, k: int) -> bool:
        from render.explain.stability import LIMIT

        eta = lost.eta()
        numbers = [int(n) for o in node.operands for n in np.atleast_1d(o[k]) if n != ABSENT]
        if any(eta[n] > LIMIT and not self._as_reference(lost, n) for n in numbers):
            return False
        if node.op not in COMPARISONS or len(numbers) != 2 or lost.apart(numbers[0], numbers[1]) <= LIMIT:
            return True
        return all(lost.error[n] == 0 or self._as_reference(lost, n) for n in numbers)

    def _as_reference(self, lost: LostDigits, number: int) -> bool:
        values, reach = self._reference()
        exact = lost.e[number]
        room = 2.0**-36 * abs(exact)
        first, last = np.searchsorted(values, exact - room), np.searchsorted(values, exact + room, "right")
        return bool((reach[first:last] >= lost.error[number]).any())

    def _reference(self) -> tuple[np.ndarray, np.ndarray]:
        """Every float value of the reference, sorted, with what careful implementations lose there."""
        if self._known is None:
            made: list[Made] = []
            self.careful.reach(made)
            pairs = [(v.expand_as(r).reshape(-1).numpy(), r.reshape(-1).numpy()) for _, v, r in made]
            values = np.concatenate([np.empty(0), *(v for v, _ in pairs)])
            reach = np.concatenate([np.empty(0), *(r for _, r in pairs)])
            order = np.argsort(values, kind="stable")
            self._known = values[order], reach[order]
        return self._known


# neighbours: what norm-wise stable means where an element's own scale vanishes


def _beside(
    study: Study, run: Execution, careful: Careful, suspect: Suspect, suspects: Sequence[Suspect],
    left: Sequence[tuple[Examined, Slice | None]],
) -> list[Examined]:  # fmt: skip
    """Those that no neighbour of the same inputs excuses."""
    from render.trace.element import slices_of

    kept: list[Examined] = []
    for one, found in left:
        mine = _inputs(found) if found is not None else set()
        if found is None or len(mine) < 2 or len(kept) >= NEIGHBOURS:
            kept.append(one)
            continue
        near = list(_neighbours(suspect, suspects, one.index))
        others = slices_of(study.entry, run, [(case, at) for case, at, _, _ in near])
        beside, allowed = 0.0, one.allowed
        for (_, _, size, reach), other in zip(near, others, strict=True):
            if isinstance(other, Slice) and 4 * len(mine & _inputs(other)) >= 3 * len(mine):
                beside, allowed = max(beside, size), max(allowed, reach)
        if one.error > allowed or _against_constant(found, one):
            kept.append(one)
    return kept


def _inputs(found: Slice) -> set[tuple[str, float]]:
    """The elements of inputs behind a slice, by tensor and value."""
    return {(str(n.attrs["name"]), float(v)) for n in found.nodes
            if n.op == LEAF and n.attrs["source"] in ("input", "memory") for v in n.v}  # fmt: skip


def _neighbours(
    suspect: Suspect, suspects: Sequence[Suspect], index: tuple[int, ...]
) -> Iterable[tuple[str, tuple[int, ...], float, float]]:
    """(output, place, |E|, LIMIT D) of the same place of other outputs, and of the row's partners of a rotation and its
    largest element."""
    for other in suspects:
        if other is not suspect and other.case.exact.shape == suspect.case.exact.shape:
            yield other.case.name, index, float(abs(other.case.exact[index])), float(other.allowed[index])
    if not index:
        return
    row, i = suspect.allowed[index[:-1]], index[-1]
    half = len(row) // 2
    places = {i ^ 1, (i + half) % len(row) if half else i, int(np.argmax(np.where(np.isfinite(row), row, 0.0)))} - {i}
    for k in sorted(p for p in places if p < len(row)):
        at = (*index[:-1], k)
        yield suspect.case.name, at, float(abs(suspect.case.exact[at])), float(suspect.allowed[at])


def _against_constant(found: Slice, one: Examined) -> bool:
    """Whether the digits are lost to a literal (exp(x) - 1): a matter of one number, whatever lies beside it."""
    if one.spot is None:
        return False
    here = [n for n in found.nodes if (n.file, n.line) == one.spot[:2]]
    if any(n.op.startswith("log") for n in here):
        return True
    return any(_constant(found, o) for n in here if n.op in ("fadd", "fsub") for o in n.operands)


def _constant(found: Slice, o: np.ndarray) -> bool:
    return o.ndim == 1 and all(_literal(found, int(k)) for k in o[:4])


def _literal(found: Slice, number: int) -> bool:
    node = found.node_of(number)
    return node.op == LEAF and node.attrs["source"] == "constant"
