"""Which programs of which launch may have made an element, from the spans of addresses that every run keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from render.interpreter.writers import Writers
from render.trace.model import NotSliceable

PROGRAMS = 65_536
"""Programs of one launch that are run again for one element."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where an element lies: bytes into the storage of an argument, or (name None) at an address known only later."""

    launch: int
    programs: np.ndarray
    name: str | None
    offset: int


def places(writers: Sequence[Writers], at: int, base: int) -> Iterator[Place]:
    """Every launch that may have stored to address `at` of the storage that starts at `base`, the last one first.

    Memory that was given back may come again under the same address: a span counts only with the storage's own start.
    """
    for launch in reversed(range(len(writers))):
        spans = [s for s in writers[launch].of(at) if s[0].name is None or s[0].base == base]
        if not spans:
            continue
        programs = np.unique(np.concatenate([p for _, p in spans]))
        if len(programs) > PROGRAMS:
            raise NotSliceable("the launch", f"{len(programs)} programs may have written this element")
        span = spans[-1][0]
        yield Place(launch, programs, span.name, at - span.base)
