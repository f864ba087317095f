"""The walk back through recorded host operations, and the slice that it leaves behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from render.trace.host import Block, HostLog, HostStep
from render.trace.host_links import numbers_of
from render.trace.host_nodes import Making
from render.trace.model import ABSENT, LEAF, Node, NotSliceable

STEPS = 512
"""Host operations behind one element."""

Place = tuple[int, int]
"""(number of a step, flat number of an element of its result)."""


class HostCutter:
    """Numbers the values behind single elements; operands come first."""

    def __init__(self, log: HostLog) -> None:
        self.log = log
        self.nodes: list[Node] = []
        self.total = 0
        self._values = np.empty(256)
        self.known: dict[int, dict[int, int]] = {}

    def number(self, at: int, before: int | None = None) -> int | None:
        """The number of the element at an address, as the last operation before step `before` left it."""
        for k in reversed(range(len(self.log.steps) if before is None else before)):
            out = self.log.steps[k].out
            if out is None:
                continue
            flat = int(out.find(np.array([at]))[0])
            if flat >= 0:
                return int(self._made(k, np.array([flat]))[0])
        return None

    def _made(self, k: int, wanted: np.ndarray) -> np.ndarray:
        """Numbers of elements of the result of step k."""
        mine = self.known.setdefault(k, {})
        fresh = np.array([w for w in np.unique(wanted).tolist() if w not in mine], np.int64)
        if fresh.size:
            if len(self.known) > STEPS:
                raise NotSliceable("the host", f"more than {STEPS} operations lie behind this element")
            numbers = numbers_of(Making(self, k, self.log.steps[k], fresh))
            mine.update(zip(fresh.tolist(), numbers.tolist(), strict=True))
        return np.array([mine[w] for w in wanted.tolist()], np.int64)

    @property
    def values(self) -> np.ndarray:
        """What the run, or real arithmetic between its results, gave every value so far."""
        return self._values[: self.total]

    def operand(self, k: int, step: HostStep, source: torch.Tensor, flat: np.ndarray) -> np.ndarray:
        """Numbers of the elements `flat` (-1: none) of an operand as it was."""
        if not source.is_floating_point():
            whole = source.detach().numpy().reshape(-1)[flat].astype(np.float64).reshape(-1)
            return self.add(LEAF, {"source": "integer"}, step, (), whole, whole, whole).reshape(flat.shape)
        block = step.blocks[id(source)]
        if not block.v.size:
            return np.full(flat.shape, ABSENT, np.int64)
        wanted = np.unique(flat[flat != ABSENT])
        numbers = self._before(k, step, block, wanted)
        table = np.full(block.v.size, ABSENT, np.int64)
        table[wanted] = numbers
        return np.where(flat == ABSENT, ABSENT, table[np.maximum(flat, 0)])

    def _before(self, k: int, step: HostStep, block: Block, wanted: np.ndarray) -> np.ndarray:
        """Made by earlier operations, if these left the very bounds that are read here; leaves otherwise."""
        numbers = np.full(wanted.shape, ABSENT, np.int64)
        addresses, ends = block.addresses(wanted), block.ends(wanted)
        open_ = np.ones(wanted.shape, bool)
        for j in reversed(range(k)):
            out = self.log.steps[j].out
            if out is None or out.start != block.start or not open_.any():
                continue
            there = out.find(addresses)
            hit = open_ & (there >= 0)
            theirs = out.ends(np.maximum(there, 0))
            same = hit & np.logical_and.reduce([np.equal(a, b) for a, b in zip(ends, theirs, strict=True)])
            if same.any():
                numbers[same] = self._made(j, there[same])
            open_ &= ~hit
        for wide in (False, True):
            left = np.flatnonzero((numbers == ABSENT) & ((ends[1] != ends[2]) == wide))
            if left.size:
                attrs = self._leaf(block.tensor, step.launches, addresses[left], wide)
                numbers[left] = self.add(LEAF, attrs, step, (), *(end[left] for end in ends))
        return numbers

    def _leaf(self, tensor: torch.Tensor, launches: int, addresses: np.ndarray, wide: bool) -> dict[str, Any]:
        storage = self.log.session.memory.find(int(addresses[0]))
        name = (storage.name if storage else None) or "unnamed memory"
        if not wide:
            return {"source": "input", "name": name}
        base = storage.base if storage else tensor.untyped_storage().data_ptr()
        writers = self.log.session.writers[:launches]
        return {"source": "memory", "name": name, "base": base, "addresses": addresses, "writers": writers}

    def add(
        self, op: str, attrs: dict[str, Any], step: HostStep, operands: tuple[np.ndarray, ...], v: np.ndarray,
        lo: np.ndarray, hi: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        self.nodes.append(Node(op, attrs, step.file, step.line, self.total, operands, v, lo, hi))
        if self.total + len(v) > len(self._values):
            self._values = np.concatenate([self._values, np.empty(self.total + len(v))])
        self._values[self.total : self.total + len(v)] = v
        self.total += len(v)
        return np.arange(self.total - len(v), self.total)
