"""Numbers that leave torch and come back: through files, pickles, JSON, queues, arrays and lists.

What happens in between is not watched. What was computed is copied where it leaves (`left`); memory from outside that
has the same contents, bit for bit or each number rounded once to its format, whole, in part or one after the other, is
what left (`found`). That is true by the values themselves: a bound of a number holds for the same number wherever it
lies. So that no constant is taken for a result, the numbers have to tell something (`_TELLING`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from render.front.scalars import ReadElement, Recipe
from render.front.steps import Region

_TELLING, _PART = 20, 32
"""Bits in the significands of the distinct numbers, the first ones not counted, of all and of a part of an array: so
many agree by chance once in 10^6 or 10^9 cases."""
_KEPT, _ROOM = 32, 1 << 28
"""So many tensors are kept, and bytes of them; the oldest are let go."""
_STARTS, _COLUMNS = 16, 16
_TEXT, _LARGEST = 12, 2.0**127
"""Bits in the significand of a single number that comes from text."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_LISTED = 1 << 12
"""In larger arrays single numbers are not looked for."""

Number = Callable[[float], ReadElement | Recipe | None]


@dataclass(eq=False)
class LeftCopy:
    """What left: a flat copy that a tape knows, where it lies, and how often it, or an element, was found again."""

    values: torch.Tensor
    place: Region
    key: Any
    uses: int = 0
    read: Counter[int] = field(default_factory=Counter)

    @cached_property
    def elements(self) -> Mapping[float, list[int]]:
        """The places of its numbers, where they are few enough."""
        found: dict[float, list[int]] = {}
        for i, value in enumerate(self.values.tolist() if self.values.numel() <= _LISTED else ()):
            found.setdefault(value, []).append(i)
        return found


@dataclass(frozen=True, eq=False)
class CameBack:
    """Makes a flat tensor of parts: elements of tensors, one after the other, and numbers."""

    dtype: torch.dtype

    def __call__(self, *parts: Any) -> torch.Tensor:
        made = [x.to(self.dtype) if isinstance(x, torch.Tensor) else torch.full((), x, dtype=self.dtype).reshape(1)
                for x in parts]  # fmt: skip
        return torch.cat(made) if len(made) > 1 else made[0].clone()


class LeftCopies:
    """What left under one tape."""

    def __init__(self) -> None:
        self._kept: list[LeftCopy] = []

    def __bool__(self) -> bool:
        return bool(self._kept)

    def knows(self, key: Any) -> bool:
        return any(one.key == key for one in self._kept)

    def keep(self, values: torch.Tensor, place: Region, key: Any) -> None:
        self._kept.append(LeftCopy(values, place, key))
        while len(self._kept) > _KEPT or sum(one.values.nbytes for one in self._kept) > _ROOM:
            self._kept.pop(0)

    def found(self, data: torch.Tensor, number: Number) -> Sequence[Any] | None:
        """The parts of a flat tensor, for `CameBack`: places and numbers that left; None where some of it did not."""
        if not data.is_floating_point() or not data.numel() or _told(data) < _TELLING:
            return None
        wanted = _bits(data)
        others = [(one, _bits(one.values.to(data.dtype))) for one in self._kept]
        parts: list[Any] = []
        used: list[LeftCopy] = []
        at = 0
        while at < data.numel():
            others.sort(key=lambda other: other[0].uses + used.count(other[0]))  # of equal ones each in its turn
            one, start, length = _longest(wanted[at:], others)
            if one is not None and _told(data[at : at + length]) >= _PART:
                place = one.place
                parts.append(Region(place.cell, place.dtype, (length,), (1,), place.offset + start))
                used.append(one)
                at += length
                continue
            value = float(data[at])
            left = number(value) if data.numel() <= _LISTED else None
            if left is None and _told(data[at : at + 1]):
                return None
            parts.append(value if left is None else left)
            at += 1
        for one in used:
            one.uses += 1
        return parts if any(not isinstance(x, float) for x in parts) else None

    def element(self, value: float) -> tuple[LeftCopy, int] | None:
        """The element that a number was, which comes from text; of equal ones each in its turn."""
        short = float(np.float32(value)) if abs(value) < _LARGEST else value
        for exact, least in ((value, _TEXT), (short, _TELLING - 4)):
            found = [(one, i) for one in self._kept for i in one.elements.get(exact, ())]
            if found and _told(torch.tensor([exact], dtype=torch.float64)) >= least:
                one, i = min(found, key=lambda at: at[0].read[at[1]])
                one.read[i] += 1
                return one, i
        return None

    def columns(self, data: torch.Tensor) -> Iterator[tuple[LeftCopy, int, int]]:
        """What lies as a whole in every so many elements of a table: (it, in which column, of how many)."""
        if not data.is_floating_point():
            return
        wanted, used = _bits(data), list[LeftCopy]()
        for width in range(2, _COLUMNS + 1):
            rows = data.numel() // width
            fitting = [one for one in self._kept if one.values.numel() == rows and not data.numel() % width]
            for column in range(width if fitting else 0):
                fitting.sort(key=lambda one: one.uses + used.count(one))
                same = (one for one in fitting if torch.equal(_bits(one.values.to(data.dtype)), wanted[column::width]))
                one = next((one for one in same if _told(one.values) >= _PART), None)
                if one is not None:
                    used.append(one)
                    yield one, column, width
            if used:
                break
        for one in used:
            one.uses += 1

    def inside(self, data: torch.Tensor) -> Iterator[tuple[LeftCopy, int]]:
        """What lies as a whole in memory that holds other things, too, a file for example, and behind which byte."""
        memory = data.contiguous().view(torch.uint8).numpy().tobytes()
        for one in self._kept:
            width = one.values.itemsize
            start = memory.find(one.values.view(torch.uint8).numpy().tobytes()) if _told(one.values) >= _PART else -1
            if start >= 0 and start % width == 0:
                yield one, start


def _longest(wanted: torch.Tensor, others: Sequence[tuple[LeftCopy, torch.Tensor]]) -> tuple[LeftCopy | None, int, int]:
    """Which of the others has the longest part that `wanted` begins with, where it starts, and its length."""
    best: tuple[LeftCopy | None, int, int] = (None, 0, 0)
    for one, bits in others:
        for start in torch.nonzero(bits == wanted[0])[:_STARTS, 0].tolist():
            count = min(len(wanted), len(bits) - start)
            differing = torch.nonzero(bits[start : start + count] != wanted[:count])
            length = int(differing[0]) if len(differing) else count
            if length > best[2]:
                best = one, start, length
            if length == len(wanted):
                return best
    return best


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(_BITS[x.itemsize])


def _told(x: torch.Tensor) -> int:
    """Bits in the significands of the distinct finite numbers, without the leading ones."""
    wide = np.unique(x.to(torch.float64).numpy())
    bits = wide[np.isfinite(wide)].view(np.int64) & ((1 << 52) - 1)
    last = bits & -bits
    return int(np.where(bits != 0, 52 - np.log2(np.maximum(last, 1)), 0).sum())
