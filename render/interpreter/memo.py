"""Remembers the attributes that Triton derives from a type.

The language builds a new block type and a new tuple of constants for every value it makes, and checks the shape each
time. A kernel has a handful of different types and hundreds of thousands of values, so what their constructors compute
is kept. Types and shapes are never written to after construction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.language import core

LIMIT = 4096
"""Entries from which on a memory is emptied: nobody has that many types."""


_SHAPE = "_numbers_of_shape"


def shape_of(block: Any) -> tuple[int, ...]:
    """The extents of a block type as plain numbers."""
    known: tuple[int, ...] | None = block.__dict__.get(_SHAPE)
    return tuple([int(getattr(n, "value", n)) for n in block.shape]) if known is None else known


def _block_type(plain: Any) -> Any:
    # An entry holds the element type itself, so its id cannot pass to another object.
    known: dict[tuple[int, tuple[int, ...]], dict[str, Any]] = {}

    def __init__(self: Any, element_ty: Any, shape: Any) -> None:
        key = (id(element_ty), tuple([getattr(n, "value", n) for n in shape]))
        found = known.get(key)
        if found is None or found["element_ty"] is not element_ty:
            plain(self, element_ty, shape)
            if len(known) >= LIMIT:
                known.clear()
            self.__dict__[_SHAPE] = tuple([int(n) for n in key[1]])
            known[key] = dict(self.__dict__)
        else:
            self.__dict__.update(found)

    return __init__


def _tensor(plain: Any) -> Any:
    """Equal block types share one shape object (see `_block_type`), which stands for the type here."""
    known: dict[tuple[int, int], tuple[Any, dict[str, Any]]] = {}

    def __init__(self: Any, handle: Any, type: Any) -> None:
        key = (id(getattr(type, "shape", None)), id(type.scalar))
        found = known.get(key)
        if found is not None:
            self.__dict__.update(found[1])
            self.handle, self.type = handle, type
            return
        plain(self, handle, type)
        if len(known) >= LIMIT:
            known.clear()
        derived = {name: value for name, value in self.__dict__.items() if name not in ("handle", "type")}
        known[key] = ((type, type.scalar), derived)

    return __init__


TYPES: dict[Any, Callable[[Any], Any]] = {core.block_type: _block_type, core.tensor: _tensor}
"""By class: makes the constructor that looks up what the plain one computed before."""
