"""Remembers the attributes that Triton derives from a type.

The language builds a new block type and a new tuple of constants for every value it makes, and checks the shape each
time. A kernel has a handful of different types and hundreds of thousands of values, so what their constructors compute
is kept for the length of a launch. Types and shapes are never written to after construction.
"""

from __future__ import annotations

from typing import Any

from triton.language import core

from render.interpreter.scope import PatchScope


def remember_types(scope: PatchScope) -> None:
    """Patches the constructors of `block_type` and `tensor` with ones that look up what they computed before."""
    scope.set(core.block_type, "__init__", _block_type(core.block_type.__init__))
    scope.set(core.tensor, "__init__", _tensor(core.tensor.__init__))


def _block_type(plain: Any) -> Any:
    # An entry holds the element type itself, so its id cannot pass to another object.
    known: dict[tuple[int, tuple[int, ...]], dict[str, Any]] = {}

    def __init__(self: Any, element_ty: Any, shape: Any) -> None:
        key = (id(element_ty), tuple([getattr(n, "value", n) for n in shape]))
        found = known.get(key)
        if found is None or found["element_ty"] is not element_ty:
            plain(self, element_ty, shape)
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
        derived = {name: value for name, value in self.__dict__.items() if name not in ("handle", "type")}
        known[key] = ((type, type.scalar), derived)

    return __init__
