"""A scope that records each attribute it sets and restores them all, in reverse, whatever happens."""

from __future__ import annotations

from typing import Any

_MISSING = object()


class PatchScope:
    """Use as a context manager; `set` patches one attribute until the scope ends."""

    def __init__(self) -> None:
        self._changes: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self._changes.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def restore(self) -> None:
        while self._changes:
            owner, name, old = self._changes.pop()
            if old is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)

    def __enter__(self) -> PatchScope:
        return self

    def __exit__(self, *exc: object) -> None:
        self.restore()
