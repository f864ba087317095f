"""Numba's compiler with types: decorators that leave the annotations of a function to its callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Serial, without the GIL, kept on disk, never with fastmath; a division by zero gives infinity or NaN.

    Numba keeps the records that a kernel takes by the names of their classes: one that is renamed or moved leaves
    kernels on disk that cannot be read, and every call of them fails until those are removed.
    """
    made: F = njit(cache=True, nogil=True, error_model="numpy")(function)
    return made


def inlined(function: F) -> F:
    """As `compiled`, put into the body of every compiled caller."""
    made: F = njit(inline="always", error_model="numpy")(function)
    return made
