"""Everything that some values of a program are computed from, whatever made them: the walk of provenance.

A lane depends on the lanes of the operands that its operation reads, as in a slice. Where an operation has no formula
there, every lane at the same place of operands of the result's shape counts, unless it joins many, and every lane that
its program has of any other: more than what is behind, never less. The walk is about values: what decides which of them
are taken (conditions, masks, indices of gathers, branches) is followed only where that is asked for, addresses never.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from render.interpreter.handle import Handle
from render.ops.rule import Shape
from render.ops.table import EXACT, RULES
from render.trace.joins import rows
from render.trace.model import ABSENT, NotSliceable
from render.trace.moves import MOVES, lanes_of
from render.trace.recorder import Recorded, Recorder
from render.trace.step import Link, Step, title
from render.trace.walk import Walk

JOINING = frozenset(op for op, rule in {**RULES, **EXACT}.items() if rule.shape in (Shape.REDUCTION, Shape.DOT))
"""Operations whose results have lanes at other places behind them, of operands of their own shape too."""
REFERENCES = 1 << 22
"""References of one operation to lanes of its operands; beyond, all lanes of them count."""


@dataclass(frozen=True, eq=False)
class Reached:
    """One result behind what was asked for: the operation, its lanes that count, and the operands that they read."""

    entry: Recorded
    out: Handle
    lanes: np.ndarray
    links: list[Link]
    read: np.ndarray
    """Which of the lanes a load, or an atomic that returns, read of what this program did not store before."""

    @property
    def outside(self) -> np.ndarray:
        """The addresses of these."""
        if not self.read.any():
            return np.empty(0, np.int64)
        return np.asarray(self.entry.attrs["ptr"].reshape(-1)[self.lanes[self.read]])

    @property
    def moves(self) -> bool:
        """Whether the operation only moves values."""
        return self.entry.op in MOVES or "move" in self.entry.attrs

    @property
    def title(self) -> str:
        """The operation in words of the language."""
        return title(self.entry.op)


class Dependence(Walk):
    """`decisions`: what decides is followed too. `complete`: of every value behind it is known how it was made."""

    through_memory = True

    def __init__(self, recorder: Recorder, decisions: bool = False) -> None:
        super().__init__(recorder)
        self.decisions = decisions
        self.complete = True

    def follows(self, h: Handle) -> bool:
        return not h.dtype.scalar.is_ptr()

    def step(self, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
        extent = max((max(h.shape, default=1) for h in entry.args), default=1)
        if wanted.size * extent > REFERENCES and not _elementwise(entry, out):
            return Step(_everything(entry, out, wanted))
        try:
            step = super().step(entry, out, wanted)
        except NotSliceable:
            return Step(_everything(entry, out, wanted))
        return step if step.reads is None else Step(step.reads, attrs=step.attrs)

    def behind(self, place: int) -> list[Reached] | None:
        """Every result that the last value stored at this address is computed from, the last one first.

        None where the recorded programs stored nothing there.
        """
        store = next((e for e in reversed(self.stores) if e.args and _hit(e, place).size), None)
        if store is None:
            return None
        self.need(store.args[0], _hit(store, place) % lanes_of(store.args[0]))
        for entry in (store, *(e for e in self.entries if e.op == "branch")):
            self._need_deciding(entry)
        found = []
        for entry, k, wanted, step in self.back():
            found.append(Reached(entry, entry.outs[k], wanted, step.links, _read(entry, wanted, step)))
            self._need_deciding(entry)
        made = (id(h) in self.maker or (h.is_point and h.v.size == 1) or not self.follows(h)
                for h in self.handles.values())  # fmt: skip
        self.complete = all(made)
        return found

    def _need_deciding(self, entry: Recorded) -> None:
        for h in _deciding(entry) if self.decisions else ():
            self.need(h, np.arange(lanes_of(h)))


def _hit(store: Recorded, place: int) -> np.ndarray:
    """Lanes of a store that touch this address."""
    return np.flatnonzero((store.attrs["ptr"] == place) & store.attrs["active"])


def _deciding(entry: Recorded) -> tuple[Handle, ...]:
    """Operands that decide what the operation takes of the others."""
    if entry.op in ("select", "branch"):
        return entry.args[:1]
    if entry.op == "gather":
        return entry.args[1:]
    mask = entry.attrs.get("mask")
    return () if mask is None else (mask,)


def _elementwise(entry: Recorded, out: int) -> bool:
    return all(h.shape == entry.outs[out].shape for h in entry.args)


def _everything(entry: Recorded, out: int, wanted: np.ndarray) -> list[Link]:
    """The lane at the same place of operands of the result's shape, and all lanes of others, for every wanted lane."""
    if entry.op in ("reduce", "argmax", "argmin") and wanted.size * max(entry.args[0].shape) <= REFERENCES:
        return rows(entry, out, wanted)
    h = entry.outs[out]
    links = []
    for x in entry.args:
        same = x.shape == h.shape and x.computed.shape[0] == h.computed.shape[0] and entry.op not in JOINING
        links.append((x, wanted if same else _of_programs(x, h, wanted)))
    return links


def _of_programs(x: Handle, h: Handle, wanted: np.ndarray) -> np.ndarray:
    """All lanes that the programs of the wanted lanes of `h` have of an operand."""
    size = math.prod(x.shape)
    if x.computed.shape[0] == 1 or h.computed.shape[0] == 1:
        return np.arange(lanes_of(x))[None, :]
    programs = np.unique(wanted // math.prod(h.shape))
    found: np.ndarray = (programs[:, None] * size + np.arange(size)).reshape(1, -1)
    return found


def _read(entry: Recorded, wanted: np.ndarray, step: Step) -> np.ndarray:
    if "ptr" not in entry.attrs:
        return np.zeros(wanted.shape, bool)
    on = entry.attrs["active"].reshape(-1)[wanted]
    for _, at in step.links:
        on = on & (at == ABSENT)
    return np.asarray(on)
