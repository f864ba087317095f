"""What the user's host code computed once, for runs that differ in the kernel's target alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Results by key. What was computed while host code asked what device it has is kept for that device alone.

    A result is handed out as it was made: who takes it changes nothing in it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, Any], tuple[Any, frozenset[str]]] = {}

    def __call__(self, key: Hashable, compute: Callable[[], T]) -> T:
        from render.interpreter.device import current

        told = current()
        for facts in (None, told.facts):
            if (key, facts) in self._known:
                value, asked = self._known[key, facts]
                told.asked |= asked
                return value  # type: ignore[no-any-return]
        before, told.asked = told.asked, set()
        try:
            value = compute()
        finally:
            asked, told.asked = frozenset(told.asked), before | told.asked
        self._known[key, told.facts if asked else None] = value, asked
        return value


def asks_now() -> frozenset[str]:
    """What host code has asked of the device of the scope around, so far."""
    from render.interpreter.device import current

    return frozenset(current().asked)
