"""Everything that some values of a program are computed from, whatever made them: the walk of provenance.

A lane depends on the lanes of the operands that its operation reads, as in a slice. Where an operation has no formula
there, every lane at the same place of operands of the result's shape counts, and every lane of any other: more than
what is behind, never less. Addresses, masks and decided conditions are not followed: the walk is about values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from render.interpreter.handle import Handle
from render.trace.joins import rows
from render.trace.model import ABSENT, NotSliceable
from render.trace.moves import MOVES, lanes_of
from render.trace.recorder import Entry
from render.trace.step import Link, Step, title
from render.trace.walk import Walk

REFERENCES = 1 << 24
"""References of one operation to lanes of its operands; beyond, all lanes of them count."""


@dataclass(frozen=True, eq=False)
class Reached:
    """One result behind what was asked for: the operation, its lanes that count, and the operands that they read."""

    entry: Entry
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
    through_memory = True

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.complete = True
        """Whether an event says how each value was made that something depends on."""

    def follows(self, h: Handle) -> bool:
        return not h.dtype.scalar.is_ptr()

    def step(self, entry: Entry, out: int, wanted: np.ndarray) -> Step:
        extent = max((max(h.shape, default=1) for h in entry.args), default=1)
        if wanted.size * extent > REFERENCES and not _elementwise(entry, out):
            return Step(_everything(entry, out, wanted))
        try:
            step = super().step(entry, out, wanted)
        except NotSliceable:
            return Step(_everything(entry, out, wanted))
        return step if step.reads is None else Step(step.reads, attrs=step.attrs)

    def behind(self, value: Handle, lanes: np.ndarray) -> list[Reached]:
        """Every result that these lanes are computed from, the last one first."""
        self.need(value, lanes)
        found = []
        for entry, k, wanted, step in self.back():
            found.append(Reached(entry, entry.outs[k], wanted, step.links, _read(entry, wanted, step)))
        made = (id(h) in self.maker or (h.is_point and h.v.size == 1) or not self.follows(h)
                for h in self.handles.values())  # fmt: skip
        self.complete = all(made)
        return found


def _elementwise(entry: Entry, out: int) -> bool:
    return all(h.shape == entry.outs[out].shape for h in entry.args)


def _everything(entry: Entry, out: int, wanted: np.ndarray) -> list[Link]:
    """The lane at the same place of operands of the result's shape, and all lanes of others, for every wanted lane."""
    if entry.op in ("reduce", "argmax", "argmin") and wanted.size * max(entry.args[0].shape) <= REFERENCES:
        return rows(entry, out, wanted)
    h = entry.outs[out]
    links = []
    for x in entry.args:
        same = x.shape == h.shape and x.computed.shape[0] == h.computed.shape[0]
        links.append((x, wanted if same else np.arange(lanes_of(x))[None, :]))
    return links


def _read(entry: Entry, wanted: np.ndarray, step: Step) -> np.ndarray:
    if "ptr" not in entry.attrs:
        return np.zeros(wanted.shape, bool)
    on = entry.attrs["active"].reshape(-1)[wanted]
    for _, at in step.links:
        on = on & (at == ABSENT)
    return np.asarray(on)
