"""The numbered nodes that the walk back (`walk`) from stored values to leaves leaves behind.

Forwards over the operations that were reached, every needed lane gets a number. Movements, loads and decided selects
give a lane the number of the lane it came from, so only arithmetic is left. An operation that is not known here stops
the cut: nothing is guessed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render.interpreter.handle import Handle
from render.trace.integers import bounds
from render.trace.model import ABSENT, LEAF, Node, NotSliceable
from render.trace.moves import at_lanes, lanes_of
from render.trace.recorder import Recorded, Recorder
from render.trace.step import Step, where
from render.trace.walk import Walk

LIMIT = 10_000_000
"""Operand references of one slice; a larger one costs more than it explains."""


class Cutter(Walk):
    """Cuts elements out of what a recorder wrote down: every value behind them gets a number."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.numbers: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.nodes: list[Node] = []
        self.total = 0
        self._steps: dict[int, list[tuple[np.ndarray, Step]]] = {}

    def collect(self) -> None:
        """Spreads the need from results to operands, last operation first."""
        terms = 0
        for entry, _, wanted, step in self.back():
            self._steps.setdefault(id(entry), []).append((wanted, step))
            terms += sum(lanes.size for _, lanes in step.links)
            if terms > LIMIT:
                raise NotSliceable(entry.op, f"more than {LIMIT} operands lie behind this element", *where(entry))

    # numbers
    def forward(self) -> None:
        """Numbers every needed lane, operands first."""
        for entry in self.entries:
            for (wanted, step), out in zip(self._steps.get(id(entry), ()), self._outs(entry), strict=True):
                self._number(entry, out, wanted, step)

    def _outs(self, entry: Recorded) -> list[Handle]:
        if id(entry) not in self._steps:
            return []
        return [o for o in entry.outs if id(o) in self.needed and self.maker[id(o)][0] is entry and self.follows(o)]

    def numbers_of(self, h: Handle, lanes: np.ndarray) -> np.ndarray:
        """Numbers of these lanes (ABSENT stays ABSENT); lanes that nothing recorded made become leaves."""
        absent = lanes == ABSENT
        if id(h) not in self.numbers:
            if absent.all():
                return lanes
            self._leaf_of(h)
        known, numbers = self.numbers[id(h)]
        found = numbers[lanes if len(known) == lanes_of(h) else np.searchsorted(known, lanes)]
        return np.where(absent, ABSENT, found) if absent.any() else found

    def _leaf_of(self, h: Handle) -> None:
        wanted = np.flatnonzero(self.needed[id(h)])
        scalar = h.dtype.scalar
        if not self.follows(h):
            self._note_decided(h)
            kind = "truth" if scalar.is_int1() else "integer"
            self.assign(h, wanted, self.add(LEAF, {"source": kind}, None, (), h, wanted))
        elif id(h) not in self.maker and h.is_point and h.v.size == 1:
            self.assign(h, wanted, self.add(LEAF, {"source": "constant"}, None, (), h, wanted))
        else:
            raise NotSliceable("an operation outside the builder", "nothing says how its result was made")

    def _note_decided(self, h: Handle) -> None:
        if h.open is not None:
            self.note("an integer that the bounds of a float leave open is taken with the ends that the run has")
        elif id(h) in self.recorder.decided:
            self.note("an integer or truth value that the bounds of a float decide is taken as the run has it")

    def assign(self, h: Handle, lanes: np.ndarray, numbers: np.ndarray) -> None:
        """Numbers of all the lanes that are needed of a handle, in the order of the lanes."""
        self.numbers[id(h)] = lanes, numbers

    def add(
        self, op: str, attrs: dict[str, Any], entry: Recorded | None, operands: tuple[np.ndarray, ...], h: Handle,
        lanes: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """A new node with the values of these lanes; gives their numbers.

        A sum that nobody has closed has no bound yet (asking would close it): NaN.
        """
        v = at_lanes(h, h.computed, lanes)
        if v.dtype.itemsize == 8 and v.dtype.kind in "iu" and h.open is None:
            lo, hi = _around(v)
        elif h.pend is not None:
            lo = hi = np.full(v.shape, np.nan)
        elif h.is_point and h.open is None:
            v = lo = hi = v.astype(np.float64)
        else:
            lo, hi = (at_lanes(h, end, lanes).astype(np.float64) for end in bounds(h))
        return self.add_values(op, attrs, entry, operands, v.astype(np.float64, copy=False), lo, hi)

    def add_values(
        self, op: str, attrs: dict[str, Any], entry: Recorded | None, operands: tuple[np.ndarray, ...], v: np.ndarray,
        lo: np.ndarray, hi: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        file, line = where(entry) if entry is not None else ("", 0)
        self.nodes.append(Node(op, attrs, file, line, self.total, operands, v, lo, hi))
        self.total += len(v)
        return np.arange(self.total - len(v), self.total)

    def _number(self, entry: Recorded, out: Handle, wanted: np.ndarray, step: Step) -> None:
        found = [self.numbers_of(h, lanes) for h, lanes in step.links]
        if step.op:
            self.assign(out, wanted, self.add(step.op, step.attrs, entry, tuple(found), out, wanted))
            return
        numbers = found[0] if found else np.full(wanted.shape, ABSENT, np.int64)
        for f in found[1:]:
            numbers = np.where(numbers == ABSENT, f, numbers)
        left = np.flatnonzero(numbers == ABSENT)
        if left.size:
            numbers = numbers.copy()
            numbers[left] = self._leaves(entry, out, wanted[left], left, step)
        self.assign(out, wanted, numbers)

    def _leaves(self, entry: Recorded, out: Handle, lanes: np.ndarray, at: np.ndarray, step: Step) -> np.ndarray:
        """Loads from outside, arguments and literals, tensor by tensor."""
        if entry.op != "load":
            return self.add(LEAF, {"source": entry.op, **entry.attrs}, entry, (), out, lanes)
        addresses = step.attrs["addresses"][at]
        low, high = (at_lanes(out, end, lanes) for end in bounds(out))
        numbers = np.empty(lanes.shape, np.int64)
        bounded = low != high
        for wide in (False, True):
            for name, base, mine in self.storages(addresses, np.flatnonzero(bounded == wide)):
                attrs = self.memory_leaf(wide, name, base, addresses[mine])
                numbers[mine] = self.add(LEAF, attrs, entry, (), out, lanes[mine])
        return numbers

    def memory_leaf(self, wide: bool, name: str, base: int, addresses: np.ndarray) -> dict[str, Any]:
        """Attributes of elements of one tensor; those with a bound say who may have stored them before."""
        if not wide:
            return {"source": "input", "name": name, "addresses": addresses}
        writers = self.recorder.writers[: self.recorder.launch_of_last]
        return {"source": "memory", "name": name, "base": base, "addresses": addresses, "writers": writers}

    def storages(self, addresses: np.ndarray, lanes: np.ndarray) -> list[tuple[str, int, np.ndarray]]:
        """(tensor name, its start, lanes) by tensor that these addresses lie in; masked-off lanes have address 0."""
        found = []
        left = lanes
        while left.size:
            first = int(addresses[left[0]])
            storage = self.recorder.find(first) if first else None
            if storage is None:
                inside = addresses[left] == first
            else:
                inside = (addresses[left] >= storage.base) & (addresses[left] < storage.base + storage.nbytes)
            name = "masked-off lanes" if not first else (storage.name if storage else None) or "unnamed memory"
            found.append((name, storage.base if storage else 0, left[inside]))
            left = left[~inside]
        return found


def _around(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 numbers around 64-bit integers, which it does not always hold."""
    near = v.astype(np.float64)
    exact = np.abs(near) < 2.0**53
    return np.where(exact, near, np.nextafter(near, -np.inf)), np.where(exact, near, np.nextafter(near, np.inf))
