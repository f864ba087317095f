"""Threads that host code starts inside of a scope see what the scope's own thread sees.

Torch's modes belong to one thread. A thread that starts while a scope is open enters the same modes, made anew for it;
one that outlives the scope keeps them, and they do nothing any more. Host tracking is one for all threads and works
for one of them at a time (`TURN`); while a comparison is judged, in sessions of its own, the others wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from render.interpreter.scope import PatchScope

TURN = threading.RLock()
"""Held by the thread whose operation, launch or comparison is followed."""


class Follower(TorchDispatchMode):
    """In another thread: operations go to the `mode` of the scope's own thread for as long as it is `open`."""

    supports_higher_order_operators = True

    def __init__(self, mode: Any) -> None:
        super().__init__()
        self._mode = mode
        mode.shared = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self._mode.open:
            return func(*args, **(kwargs or {}))
        return self._mode.__torch_dispatch__(func, types, args, kwargs)


Mode = Callable[[], AbstractContextManager[Any]]
_open: list[Mode] = []


@contextmanager
def followed(mode: Mode) -> Iterator[None]:
    """Every thread that is started meanwhile runs inside of what `mode` makes."""
    with PatchScope() as scope:
        if not _open:
            start = threading.Thread.start
            scope.set(threading.Thread, "start", lambda thread: start(_inside(thread, tuple(_open))))
        _open.append(mode)
        try:
            yield
        finally:
            _open.remove(mode)


def _inside(thread: threading.Thread, modes: tuple[Mode, ...]) -> threading.Thread:
    run = thread.run

    def wrapped() -> None:
        vars(thread).pop("run", None)
        with ExitStack() as stack:
            for mode in modes:
                stack.enter_context(mode())
            run()

    thread.run = wrapped  # type: ignore[method-assign]
    return thread
