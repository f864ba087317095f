"""A scope that records each attribute it sets and restores them all, in reverse, whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import is_
from types import ModuleType
from typing import Any

_MISSING = object()


class PatchScope:
    """Use as a context manager; `set` patches one attribute until the scope ends."""

    def __init__(self) -> None:
        self._changes: list[tuple[Any, dict[str, Any]]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        before = _own(owner, name)
        if self._changes and self._changes[-1][0] is owner:
            self._changes[-1][1].setdefault(name, before)
        else:
            self._changes.append((owner, {name: before}))
        setattr(owner, name, value)

    def update(self, owner: Any, values: Mapping[str, Any]) -> None:
        """`set` for many names of a module or class at once."""
        self._changes.append((owner, _before(vars(owner), values)))
        _put(owner, values)

    def restore(self) -> None:
        while self._changes:
            _put(*self._changes.pop())

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Everything as it was before this scope, for a while."""
        changes = self._changes
        patched = [(owner, {name: _own(owner, name) for name in names}) for owner, names in changes]
        for change in reversed(changes):
            _put(*change)
        try:
            yield
        finally:
            for change in patched:
                _put(*change)

    def __enter__(self) -> PatchScope:
        return self

    def __exit__(self, *exc: object) -> None:
        self.restore()


def _before(own: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What an owner has under these names. Each launch asks for over a thousand: no loop of Python's."""
    return dict(zip(values, map(own.get, values, repeat(_MISSING)), strict=True))


def _own(owner: Any, name: str) -> Any:
    """The attribute as the owner itself has it; the code of a function is no entry of its dictionary."""
    return owner.__code__ if name == "__code__" else vars(owner).get(name, _MISSING)


def _put(owner: Any, values: Mapping[str, Any]) -> None:
    if isinstance(owner, ModuleType):
        own = vars(owner)
        if any(map(is_, values.values(), repeat(_MISSING))):
            for name in [name for name, value in values.items() if value is _MISSING]:
                own.pop(name, None)
            values = {name: value for name, value in values.items() if value is not _MISSING}
        own.update(values)
        return
    for name, value in values.items():
        if value is not _MISSING:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)
