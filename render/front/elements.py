"""Elements that code puts against each other one by one: one comparison for each line and pair of tensors.

`abs(out[i].item() - ref[i].item())` in a loop is a comparison of all the elements that it went over, and of no others.
They are gathered until somebody asks for verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import FrameType

import torch
from torch.utils._python_dispatch import _disable_current_modes

from render.front.differences import fitted, opposed
from render.front.parts import own_part, picked
from render.front.steps import BETWEEN, Cell, Region

Place = tuple[Region, int]
"""Where it lies, and when it was read."""


@dataclass(frozen=True)
class ComparingLine:
    """A line that compares, in a frame."""

    file: str
    line: int
    frame: FrameType


@dataclass
class ElementsOfLine:
    """What one line compared of two storages as they were. `before`: how many comparisons came before it."""

    at: ComparingLine
    cells: tuple[Cell, Cell]
    read: tuple[int, int]
    before: int
    indices: dict[tuple[int, int], None] = field(default_factory=dict)

    def sides(self) -> tuple[Region, Region, int] | None:
        """The two tensors, and when; None where they are no result and reference."""
        with torch.no_grad(), _disable_current_modes():
            columns = torch.tensor(list(self.indices)).T
            behind = [time + BETWEEN - 1 for time in self.read]
            parts = [own_part(picked(*of), of[-1]) for of in zip(self.cells, columns, behind, strict=True)]
        fitting = fitted(parts[0], parts[1])
        return (*fitting, max(behind)) if fitting and opposed(*fitting, max(behind)) else None


class SingleElements:
    """All that waits for its verdict."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[object, ...], ElementsOfLine] = {}

    def add(self, one: Place, two: Place, at: ComparingLine, before: int) -> bool:
        """Whether these are elements of larger tensors, which wait from now on."""
        if not all(_is_element(place) for place, _ in (one, two)):
            return False
        cells = one[0].cell, two[0].cell
        last = [max((s.time for s in place.cell.steps if s.time <= until), default=0) for place, until in (one, two)]
        key = (at.file, at.line, *cells, *last)
        found = self._waiting.setdefault(key, ElementsOfLine(at, cells, (one[1], two[1]), before))
        found.indices[one[0].offset, two[0].offset] = None
        return True

    def taken(self) -> list[ElementsOfLine]:
        """All of them, which wait no longer."""
        found = list(self._waiting.values())
        self._waiting.clear()
        return found


def _is_element(place: Region) -> bool:
    same = place.dtype == place.cell.dtype and place.cell.storage is not None
    return same and all(n == 1 for n in place.size) and place.cell.nbytes > place.dtype.itemsize
