"""Numba's compiler with types: decorators that leave the annotations of a function to its callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

from interval_ops.code_cache import keep

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Serial, without the GIL, kept on disk (`code_cache`), never with fastmath; a division by zero gives infinity or
    NaN."""
    made: F = njit(nogil=True, error_model="numpy")(function)
    keep(made, function)
    return made


def inlined(function: F) -> F:
    """As `compiled`, put into the body of every compiled caller."""
    made: F = njit(inline="always", error_model="numpy")(function)
    return made
