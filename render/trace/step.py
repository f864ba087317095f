"""What one recorded operation reads: a step of the walk back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from render.interpreter.handle import Handle
from render.trace.model import NotSliceable
from render.trace.moves import lanes_of
from render.trace.recorder import Recorded

Link = tuple[Handle, np.ndarray]
"""An operand and, for each wanted lane, its lane (or lanes) there."""


@dataclass(eq=False)
class Step:
    """A step with `op` becomes a node; the lanes of a step without one are those of the first operand that is not
    ABSENT. A lane without any is a leaf. `reads`: what the result depends on, where that is more than the links (what a
    slice takes by value) or where those lead to operands that no operation made.
    """

    links: list[Link]
    op: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)
    reads: list[Link] | None = None


def aligned(h: Handle, out: Handle, lanes: np.ndarray) -> np.ndarray:
    """The same lanes of an operand of the same shape."""
    if h.shape != out.shape:
        raise NotSliceable("an elementwise operation", f"operand {h.shape} of a result {out.shape}")
    return lanes if h.computed.shape[0] == out.computed.shape[0] else lanes % lanes_of(h)


def where(entry: Recorded) -> tuple[str, int]:
    """File and line of the operation."""
    return entry.site.file, entry.site.line


_TITLES = {
    "ranked": "sort", "whole": "map_elementwise", "returned": "atomic", "library integer_power": "libdevice.pow",
}  # fmt: skip


def title(op: str) -> str:
    """An operation of the stream of events in words of the language."""
    return _TITLES.get(op, op.replace("library ", "libdevice."))
