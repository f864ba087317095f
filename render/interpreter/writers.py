"""Which programs of a launch may have stored to an address: spans of each program's addresses, store by store.

A span holds all addresses of one line of the store's block, masked lanes included, so it may name programs that did not
write; it never leaves one out. Kept for the whole session: two numbers per line of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.handle import Handle


@dataclass(frozen=True, eq=False)
class Span:
    """One store by the programs `linear`: byte addresses `low` .. `high`, (programs or 1, lines of the block).

    `name` and `base` are those of the storage that the pointer was derived from (None and 0 if that is not known).
    """

    name: str | None
    base: int
    linear: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @cached_property
    def whole(self) -> tuple[int, int]:
        """The first and the last address of all."""
        return int(self.low.min()), int(self.high.max())


@dataclass(eq=False)
class Writers:
    """The stores of one launch."""

    spans: list[Span] = field(default_factory=list)

    def note(self, ptr: Handle, linear: np.ndarray) -> None:
        name, base = (None, 0) if ptr.origin is None else (ptr.origin.name, ptr.origin.base)
        axis, rows = _dense_axis(ptr.v), ptr.v.shape[0]
        low, high = (end.reduce(ptr.v, axis=axis).reshape(rows, -1) for end in (np.minimum, np.maximum))
        self.spans.append(Span(name, base, linear, low, high))

    def of(self, address: int) -> Iterator[tuple[Span, np.ndarray]]:
        """Each store that may have hit this address, with its programs."""
        for span in self.spans:
            first, last = span.whole
            if not first <= address <= last:
                continue
            hit = np.any((span.low <= address) & (address <= span.high), axis=1)
            if hit.any():
                yield span, span.linear if len(span.low) == 1 else span.linear[hit]

    def touch(self, low: int, high: int) -> bool:
        """Whether a store may have hit an address from `low` to `high`."""
        return any(span.whole[0] <= high and low <= span.whole[1] for span in self.spans)


def _dense_axis(v: np.ndarray) -> tuple[int, ...]:
    """The axis along which addresses lie closest; a span per line of a tile leaves out the tiles beside it."""
    axes = [axis for axis in range(1, v.ndim) if v.shape[axis] > 1]
    if len(axes) < 2:
        return tuple(range(1, v.ndim))
    first = v[0]
    return (min(axes, key=lambda axis: int(np.ptp(first, axis=axis - 1).max())),)
