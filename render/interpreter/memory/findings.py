"""Findings (certain defects) and taints (results that are not fully covered), counted per place.

What a chunk reports is provisional until the chunk is committed: a chunk that is undone and run again reports anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.context import Site

DISTINCT_LIMIT = 1 << 22
"""Distinct addresses are counted exactly up to here (one int64 each)."""


@dataclass(frozen=True, slots=True)
class MemoryFinding:
    """One defect at one line for one tensor.

    `count` lanes at `addresses` distinct addresses; `program`, `index` and `offset` (bytes from the start of the
    tensor) name the first of them, `extent` is the size of the tensor in bytes. `kind` is "read", "write" or "atomic".
    A never-written read (RND208) counts only if it reaches an output: `taint` is the id to look for there.
    """

    code: str
    message: str
    tensor: str | None
    program: tuple[int, ...]
    index: tuple[int, ...]
    file: str
    line: int
    count: int
    kind: str
    addresses: int
    offset: int
    extent: int
    taint: int | None = None


@dataclass(frozen=True, slots=True)
class Taint:
    """Why a value is not covered by its interval; `code` is RND302, 303, 305 or 208."""

    code: str
    op: str
    file: str
    line: int
    message: str
    count: int = 0


def distinct(x: np.ndarray) -> np.ndarray:
    """Sorted distinct values; numpy's own `unique` hashes, which is slow on equally spaced addresses."""
    x = np.sort(x)
    keep = np.ones(len(x), np.bool_)
    np.not_equal(x[1:], x[:-1], out=keep[1:])
    return x[keep]


@dataclass
class _Case:
    finding: MemoryFinding
    where: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


class FindingLog:
    """Findings by (code, site, tensor, kind); those of the chunk in progress are provisional."""

    def __init__(self) -> None:
        self._settled: dict[tuple[object, ...], _Case] = {}
        self._open: list[_Case] = []

    def add(self, finding: MemoryFinding, addresses: np.ndarray) -> None:
        """Add `finding` (its `count` lanes at these byte addresses) to the chunk in progress."""
        self._open.append(_Case(finding, distinct(addresses)))

    def commit(self) -> None:
        for case in self._open:
            _merge(self._settled, case)
        self._open.clear()

    def mark(self) -> int:
        return len(self._open)

    def undo_to(self, mark: int) -> None:
        del self._open[mark:]

    @property
    def all(self) -> list[MemoryFinding]:
        return [replace(case.finding, addresses=len(case.where)) for case in self._settled.values()]


def _merge(into: dict[tuple[object, ...], _Case], case: _Case) -> None:
    f = case.finding
    old = into.setdefault((f.code, f.file, f.line, f.tensor, f.kind), case)
    if old is case:
        return
    old.finding = replace(old.finding, count=old.finding.count + f.count)
    if len(old.where) < DISTINCT_LIMIT:
        old.where = distinct(np.concatenate([old.where, case.where]))


class TaintLog:
    """Taints by id; an id is never reused, its count covers work that was not undone."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str, str, int, str], int] = {}
        self._taints: dict[int, Taint] = {}
        self._settled: dict[int, int] = {}
        self._open: list[int] = []

    def add(self, code: str, op: str, site: Site, message: str) -> int:
        key = (code, op, site.file, site.line, message)
        ident = self._ids.get(key)
        if ident is None:
            ident = self._ids[key] = len(self._ids)
            self._taints[ident] = Taint(code, op, site.file, site.line, message)
        self._open.append(ident)
        return ident

    def commit(self) -> None:
        for ident in self._open:
            self._settled[ident] = self._settled.get(ident, 0) + 1
        self._open.clear()

    def mark(self) -> int:
        return len(self._open)

    def undo_to(self, mark: int) -> None:
        del self._open[mark:]

    def get(self, ident: int) -> Taint:
        return replace(self._taints[ident], count=self._counts()[ident])

    def _counts(self) -> Counter[int]:
        return Counter(self._settled) + Counter(self._open)

    @property
    def all(self) -> dict[int, Taint]:
        """Taints of committed work and of the chunk in progress, by id."""
        return {ident: replace(self._taints[ident], count=n) for ident, n in sorted(self._counts().items())}
