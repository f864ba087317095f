"""What a tape consists of: storages, places in them, and the steps that wrote them."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from render.interpreter.arguments import KernelCall
from render.interpreter.hosted.overloads import HostSite

if TYPE_CHECKING:
    from render.front.scalars import ReadElement, Recipe

BETWEEN = 1 << 20
"""Times between two steps of a tape, for steps that are made up later."""


@dataclass(eq=False)
class Cell:
    """One storage: its bytes, its dtype when it was first seen, the steps that wrote it in their order.

    `kernel`: a kernel's result went into it. `asked`: host code took its address. `parts`: see `parts.own_part`.
    """

    address: int
    nbytes: int
    dtype: torch.dtype
    storage: StorageWeakRef | None  # none: a decision
    steps: list[TapeStep] = field(default_factory=list)
    kernel: bool = False
    asked: bool = False
    parts: dict[Any, Region | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Region:
    """A tensor as a view of a storage: dtype, sizes, strides and offset in elements."""

    cell: Cell
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def same_elements(self, other: Region) -> bool:
        mine, its = ((p.cell, p.dtype, p.size, p.stride, p.offset) for p in (self, other))
        return mine == its


@dataclass(eq=False)
class TapeStep:
    """What wrote `writes`, at `time`. `whole`: nothing of what they held before is left."""

    time: int
    reads: tuple[Cell, ...]
    writes: tuple[Cell, ...]
    site: HostSite
    whole: bool = False


@dataclass(eq=False)
class Given(TapeStep):
    """Bytes from outside, flat. `pointers`: (element, storage whose address it holds, bytes behind its start).

    `made`: written down in the code or drawn while it ran, so nobody computed it elsewhere. `foreign`: they come
    from memory that is not torch's own, an array's.
    """

    data: torch.Tensor = field(kw_only=True)
    made: bool = False
    foreign: bool = False
    pointers: tuple[tuple[int, Cell, int], ...] = ()


@dataclass(eq=False)
class HostOperation(TapeStep):
    """A host operation; tensors among its arguments are `Region`s. `made`: place of each tensor that it returned."""

    func: Callable[..., Any] = field(kw_only=True)
    args: Any = ()
    kwargs: Any = field(default_factory=dict)
    made: tuple[Region | None, ...] = ()


@dataclass(eq=False)
class Launched(TapeStep):
    """A launch; tensors among the arguments are `Region`s, objects that hold tensors `Holder`s."""

    kernel: Any = field(kw_only=True)
    grid: tuple[int, ...] = ()
    call: KernelCall = field(kw_only=True)
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> dict[int, str]:
        """Its arguments as "`parameter` of `kernel` (file:line)", by the identity of the storage."""
        function = self.kernel.fn
        where = f"{os.path.basename(function.__code__.co_filename)}:{function.__code__.co_firstlineno}"
        return {
            id(place.cell): f"`{name}` of `{function.__name__}` ({where})"
            for name, given in self.args.items()
            for place in (given.places.values() if isinstance(given, Holder) else (given,))
            if isinstance(place, Region)
        }


@dataclass(eq=False)
class DecidedByPython(TapeStep):
    """Python went one of two ways, as `number` said: steps of that way rest on it."""

    number: Recipe | ReadElement = field(kw_only=True)


@dataclass(frozen=True)
class GovernedLines:
    """A branch or loop that was entered: its lines in a frame that runs, and the decision."""

    frame: FrameType
    first: int
    last: int
    cell: Cell


@dataclass(frozen=True)
class Holder:
    """An object of the user's that holds tensors (a tensor descriptor, a wrapper): their places by attribute."""

    value: Any
    places: Mapping[str, Any]

    def filled(self, change: Callable[[Any], Any]) -> Any:
        twin = copy.copy(self.value)
        for name, place in self.places.items():
            object.__setattr__(twin, name, change(place))
        return twin
