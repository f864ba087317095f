"""Which programs of a launch may have stored to an address: the span of each program's addresses, store by store.

A span holds every address of the store's block, masked lanes included, so it may name programs that did not write; it
never leaves one out. Kept for the whole session: a few numbers per program and store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.handle import Handle


@dataclass(frozen=True, eq=False)
class Span:
    """One store by the programs `linear`: byte addresses `low` .. `high`, one per program or one for all of them.

    `name` and `base` are those of the storage that the pointer was derived from (None and 0 if that is not known).
    """

    name: str | None
    base: int
    linear: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(eq=False)
class Writers:
    """The stores of one launch."""

    spans: list[Span] = field(default_factory=list)

    def note(self, ptr: Handle, linear: np.ndarray) -> None:
        rows = ptr.v.reshape(ptr.v.shape[0], -1)
        name, base = (None, 0) if ptr.origin is None else (ptr.origin.name, ptr.origin.base)
        self.spans.append(Span(name, base, linear, rows.min(axis=1), rows.max(axis=1)))

    def of(self, address: int) -> Iterator[tuple[Span, np.ndarray]]:
        """Each store that may have hit this address, with its programs."""
        for span in self.spans:
            hit = (span.low <= address) & (address <= span.high)
            if hit.any():
                yield span, span.linear if len(hit) == 1 else span.linear[hit]
