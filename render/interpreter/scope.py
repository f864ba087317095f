"""A scope that records each attribute it sets and restores them all, in reverse, whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import is_
from types import ModuleType
from typing import Any

_MISSING = object()


class _Replaced(dict[str, Any]):
    """What `Names` stand in place of, whenever they do, and which of these are `absent` there: nothing is added."""

    absent: tuple[str, ...] = ()

    @classmethod
    def of(cls, own: Mapping[str, Any], names: Mapping[str, Any]) -> _Replaced:
        found = cls({name: own[name] for name in names if name in own})
        found.absent = tuple(name for name in names if name not in own)
        return found

    def still(self, own: Mapping[str, Any]) -> bool:
        """Whether the owner has all of it, and nothing else under these names."""
        same = all(map(is_, map(own.get, self, repeat(_MISSING)), self.values()))
        return same and not any(map(own.__contains__, self.absent))


class Names(dict[str, Any]):
    """Values for names of one module that are put in place again and again. What they replace is written down anew only
    where it is not what it was the last time."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._replaced: _Replaced | None = None

    def replaced(self, own: Mapping[str, Any]) -> _Replaced:
        if self._replaced is None or not self._replaced.still(own):
            self._replaced = _Replaced.of(own, self)
        return self._replaced


def _absent(values: Mapping[str, Any]) -> tuple[str, ...]:
    return values.absent if type(values) is _Replaced else ()


class PatchScope:
    """Use as a context manager; `set` patches one attribute until the scope ends."""

    def __init__(self) -> None:
        self._changes: list[tuple[Any, Mapping[str, Any]]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        before = _own(owner, name)
        last, kept = self._changes[-1] if self._changes else (None, None)
        if last is owner and type(kept) is dict:
            kept.setdefault(name, before)
        else:
            self._changes.append((owner, {name: before}))
        setattr(owner, name, value)

    def update(self, owner: Any, values: Mapping[str, Any]) -> None:
        """`set` for many names of a module or class at once."""
        own = vars(owner)
        self._changes.append((owner, values.replaced(own) if type(values) is Names else _before(own, values)))
        _put(owner, values)

    def restore(self) -> None:
        while self._changes:
            _put(*self._changes.pop())

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Everything as it was before this scope, for a while."""
        changes = self._changes
        patched = [(owner, {name: _own(owner, name) for name in (*kept, *_absent(kept))}) for owner, kept in changes]
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
        if type(values) is Names or type(values) is _Replaced:
            for name in _absent(values):
                own.pop(name, None)
            own.update(values)
            return
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
