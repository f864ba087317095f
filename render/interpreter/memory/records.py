"""What the memory hands to the rest of the interpreter: results, envelopes, and the two signals to the grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NO_TAINT: frozenset[int] = frozenset()


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
class LoadResult:
    """`v` in the value carrier; `lo`, `hi` float64 or None for a point; axes of length 1 stand for equal lanes.

    `masked_off`: some lane was masked off and had no `other`; it reads zero here, the language leaves it undefined.
    `ordered`: the value comes from an atomic and depends on the order in which the programs ran.
    """

    v: np.ndarray
    lo: np.ndarray | None = None
    hi: np.ndarray | None = None
    taint: frozenset[int] = NO_TAINT
    masked_off: bool = False
    ordered: bool = False

    @property
    def pair(self) -> tuple[np.ndarray, np.ndarray]:
        """(lo, hi); a point gives its value twice."""
        return (self.v, self.v) if self.lo is None or self.hi is None else (self.lo, self.hi)


@dataclass(frozen=True, slots=True)
class Envelope:
    """Bounds of a tensor's elements in the tensor's own shape.

    `written` is False where nothing has written the element since its allocation; `kernel_written` says whether a
    kernel stored into these bytes (or a host copy of such memory did).
    """

    lo: np.ndarray
    hi: np.ndarray
    written: np.ndarray
    kernel_written: bool
    taints: frozenset[int]
