"""The walk back from stored values to leaves, and the numbered nodes that it leaves behind.

Backwards over the recorded operations, the lanes that are needed spread from a result to its operands (`links`); then,
forwards, every needed lane gets a number. Movements, loads and decided selects give a lane the number of the lane it
came from, so only arithmetic is left. An operation that is not known here stops the cut: nothing is guessed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from interval_ops.formats.casting import holds
from interval_ops.formats.model import FORMATS
from render.interpreter.handle import Handle
from render.trace.integers import bounds
from render.trace.links import Step, step_of
from render.trace.model import ABSENT, LEAF, Node, NotSliceable
from render.trace.moves import lanes_of
from render.trace.recorder import Entry, Pass, Recorder

LIMIT = 10_000_000
"""Operand references of one slice; a larger one costs more than it explains."""


def at_lanes(h: Handle, array: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Entries of one of the handle's arrays at these lanes."""
    shape = (h.computed.shape[0], *h.shape)
    if array.shape == shape and array.flags.c_contiguous:
        return array.reshape(-1)[lanes]
    whole = np.broadcast_to(array, shape)
    return whole[np.unravel_index(lanes, whole.shape)]


class Cutter:
    """Cuts one element out of what a recorder wrote down."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.entries = [e for p in recorder.valid() for e in p.entries]
        self.place = {id(e): k for k, e in enumerate(self.entries)}
        self.maker: dict[int, tuple[Entry, int]] = {}
        for entry in self.entries:
            for k, out in enumerate(entry.outs):
                self.maker.setdefault(id(out), (entry, k))
        self.stores = [e for e in self.entries if e.op in ("store", "atomic")]
        self.needed: dict[int, np.ndarray] = {}
        self.handles: dict[int, Handle] = {}
        self.numbers: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.nodes: list[Node] = []
        self.total = 0
        self.terms = 0
        self.notes: dict[str, int] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        self._steps: dict[int, list[tuple[np.ndarray, Step]]] = {}

    @cached_property
    def owners(self) -> dict[int, Pass]:
        """The pass of every operation, by identity."""
        return {id(e): p for p in self.recorder.passes for e in p.entries}

    def span(self, access: Entry) -> tuple[int, int]:
        """The first and the last address of a load or store, masked-off lanes included."""
        if id(access) not in self._spans:
            ptr = access.attrs["ptr"]
            self._spans[id(access)] = (int(ptr.min()), int(ptr.max())) if ptr.size else (0, -1)
        return self._spans[id(access)]

    # what is needed
    def need(self, h: Handle, lanes: np.ndarray) -> None:
        lanes = lanes[lanes != ABSENT]
        if not lanes.size:
            return
        mask = self.needed.get(id(h))
        if mask is None:
            mask = self.needed[id(h)] = np.zeros(lanes_of(h), bool)
            self.handles[id(h)] = h
        mask[lanes] = True

    def follows(self, h: Handle) -> bool:
        """Whether values of this handle are traced to what made them; others are exact and taken as they are."""
        scalar = h.dtype.scalar
        return bool(scalar.is_floating()) or id(h) in self.recorder.soft

    def back(self) -> None:
        """Spreads the need from results to operands, last operation first."""
        for entry in reversed(self.entries):
            steps = []
            for k, out in enumerate(entry.outs):
                mask = self.needed.get(id(out))
                if mask is None or self.maker[id(out)][0] is not entry or not self.follows(out):
                    continue
                wanted = np.flatnonzero(mask)
                step = step_of(self, entry, k, wanted)
                steps.append((wanted, step))
                for h, lanes in step.links:
                    self.terms += lanes.size
                    if self.terms > LIMIT:
                        raise NotSliceable(
                            entry.op, f"more than {LIMIT} operands lie behind this element", *_place(entry)
                        )
                    self.need(h, lanes.reshape(-1))
            if steps:
                self._steps[id(entry)] = steps

    # numbers
    def forward(self) -> None:
        """Numbers every needed lane, operands first."""
        for entry in self.entries:
            for (wanted, step), out in zip(self._steps.get(id(entry), ()), self._outs(entry), strict=True):
                self._number(entry, out, wanted, step)

    def _outs(self, entry: Entry) -> list[Handle]:
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

    def note(self, text: str) -> None:
        self.notes[text] = self.notes.get(text, 0) + 1

    def assign(self, h: Handle, lanes: np.ndarray, numbers: np.ndarray) -> None:
        """Numbers of all the lanes that are needed of a handle, in the order of the lanes."""
        self.numbers[id(h)] = lanes, numbers

    def add(
        self, op: str, attrs: dict[str, Any], entry: Entry | None, operands: tuple[np.ndarray, ...], h: Handle,
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
        self, op: str, attrs: dict[str, Any], entry: Entry | None, operands: tuple[np.ndarray, ...], v: np.ndarray,
        lo: np.ndarray, hi: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        file, line = _place(entry) if entry is not None else ("", 0)
        self.nodes.append(Node(op, attrs, file, line, self.total, operands, v, lo, hi))
        self.total += len(v)
        return np.arange(self.total - len(v), self.total)

    def _number(self, entry: Entry, out: Handle, wanted: np.ndarray, step: Step) -> None:
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

    def _leaves(self, entry: Entry, out: Handle, lanes: np.ndarray, at: np.ndarray, step: Step) -> np.ndarray:
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
            return {"source": "input", "name": name}
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


def _place(entry: Entry) -> tuple[str, int]:
    return entry.site.file, entry.site.line


def exact_cast(src: str, dst: str) -> bool:
    return holds(FORMATS[dst], FORMATS[src])
