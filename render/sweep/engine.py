"""The sweep itself: what is known is told, the rest is handed to whatever executes, and kept as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from render.sweep.store import KeptUnit, SweepStore


class Work(Protocol):
    """A picklable unit. Two with one key are the same work."""

    @property
    def key(self) -> str: ...

    @property
    def told(self) -> dict[str, Any]:
        """What it is, in JSON types."""


class UnitEnd(Protocol):
    """What an execution says of the unit at an index: rows, or in words why there are none."""

    @property
    def unit(self) -> int: ...
    @property
    def result(self) -> list[dict[str, Any]] | None: ...
    @property
    def error(self) -> str: ...
    @property
    def attempts(self) -> int: ...


Execute = Callable[[Sequence[Any]], Iterable[UnitEnd]]
"""Works through units in any order, and says each time one has ended."""


class Swept(NamedTuple):
    """An entry, and whether an earlier sweep made it."""

    entry: KeptUnit
    known: bool


def sweep(units: Sequence[Work], store: SweepStore, execute: Execute) -> Iterator[Swept]:
    """Every unit's entry once: the known ones, then the others as they come. Closing it keeps what was done."""
    each = {unit.key: unit for unit in units}
    known = store.known(each)
    for entry in known.values():
        yield Swept(entry, True)
    left = [unit for key, unit in each.items() if key not in known]
    ended: set[str] = set()
    for done in execute(left) if left else ():
        unit = left[done.unit]
        if unit.key in ended:  # an execution that says it twice
            continue
        ended.add(unit.key)
        entry = KeptUnit(unit.key, unit.told, done.result or [], done.error, done.attempts)
        store.put(entry)
        yield Swept(entry, False)
