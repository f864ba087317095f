"""What the memory hands to the rest of the interpreter: results, envelopes, and the two signals to the grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.registry import Storage
    from render.interpreter.types import ElemType

NO_TAINT: frozenset[int] = frozenset()


class Use(Enum):
    """What kernels did with the memory of a tensor."""

    NONE = "it was given to none"
    IDLE = "it was given to one, which neither loaded from it nor stored to it"
    READ = "only loaded from"
    STORED = "stored to, and nothing read that afterwards"
    PASSED_ON = "stored to, and a later launch or the host read it"


class Hazard(BaseException):
    """Programs of one chunk depend on each other through memory: undo, then run them one at a time.

    Derives from BaseException so that an `except Exception` in a kernel's helper cannot swallow it.
    """


class Retry(BaseException):
    """A storage turned out to be both read and written: undo and run the same chunk again, now with reads tracked."""


@dataclass(frozen=True, slots=True)
class LaunchInfo:
    """Which kernel runs on which grid (any object with these two attributes will do)."""

    kernel: str
    grid: tuple[int, ...]


def program_of(linear: int, grid: tuple[int, ...]) -> tuple[int, ...]:
    """Program id by axis of a linear id; the first axis is the slowest."""
    return tuple(int(i) for i in np.unravel_index(linear, grid))


@dataclass(frozen=True, slots=True)
class Request:
    """Where an access goes, and whose it is.

    `ptr`: byte addresses, shape (1 or programs, *block); a length-1 axis 0 stands for the same access by all of `pids`.
    `mask` decides the value lane (None: all lanes); a lane where `possible` differs from it is undecided. `origin` is
    the storage that the addresses belong to (None: each is looked up). `among`: all the addresses that a lane may have
    (empty: `ptr` is certain).
    """

    ptr: np.ndarray
    elem: ElemType
    origin: Storage | None
    pids: np.ndarray
    site: Site
    mask: np.ndarray | None = None
    possible: np.ndarray | None = None
    among: tuple[np.ndarray, ...] = ()

    @property
    def active(self) -> np.ndarray:
        """Lanes that may take part."""
        if self.mask is None:
            return np.ones((1,) * self.ptr.ndim, np.bool_)
        return self.mask if self.possible is None else self.mask | self.possible

    def into(self, storage: Storage, mask: np.ndarray | None) -> Request:
        """The part of it that goes to one storage, all lanes decided."""
        return replace(self, origin=storage, mask=mask, possible=None, among=())


@dataclass(frozen=True, slots=True)
class LoadResult:
    """`v` in the value carrier; `lo`, `hi` float64 or None for a point; axes of length 1 stand for equal lanes.

    `masked_off`: some lane was masked off and had no `other`; it reads zero here, the language leaves it undefined.
    `ordered`: the value comes from an atomic and depends on the order in which the programs ran.
    `void`: lanes that nothing has written, `why` those of the taints that concern only them.
    `among`: all that open integers may be, where that is little.
    """

    v: np.ndarray
    lo: np.ndarray | None = None
    hi: np.ndarray | None = None
    taint: frozenset[int] = NO_TAINT
    masked_off: bool = False
    ordered: bool = False
    void: np.ndarray | None = None
    why: frozenset[int] = NO_TAINT
    among: tuple[np.ndarray, ...] = ()

    @property
    def pair(self) -> tuple[np.ndarray, np.ndarray]:
        """(lo, hi); a point gives its value twice."""
        return (self.v, self.v) if self.lo is None or self.hi is None else (self.lo, self.hi)


@dataclass(frozen=True, slots=True)
class Envelope:
    """Bounds of a tensor's elements in the tensor's own shape.

    `written` is False where nothing has written the element since its allocation; `kernel_written` says whether a
    kernel stored into these bytes (or a host copy of such memory did). `void` are taints of what is not written alone.
    """

    lo: np.ndarray
    hi: np.ndarray
    written: np.ndarray
    kernel_written: bool
    taints: frozenset[int]
    void: frozenset[int] = NO_TAINT
