"""Numba's compiler with types: decorators that leave the annotations of a function to its callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit
from numba.core.typing import mathdecl  # noqa: F401
from numba.cpython import mathimpl  # noqa: F401

# Numba knows the functions of `math` by the objects that its two registries found there when they were imported, which
# it puts off until something is compiled. By then they may be replaced: a session does so while a script runs.
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
