"""The end of a command's process, without taking apart what the operating system drops anyway."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

exit_at_once = os._exit
PATIENCE = 20.0
"""Seconds that threads of the user's have to end."""
HELD = f"render: exit handlers of the user's code were not through after {PATIENCE:g} s, and are cut"
LEFT = f"render: threads that the user's code started were not through {PATIENCE:g} s after the end, and are left"


def leave(code: object) -> NoReturn:
    """Ends the process with this exit code. Under a debugger, a profiler or `python -i` in Python's own way."""
    if not isinstance(code, int | None) or sys.gettrace() or sys.getprofile() or sys.flags.interactive:
        raise SystemExit(code)
    end(code or 0)


def end(code: int) -> NoReturn:
    """Threads and exit handlers first, as always, but torch's and numba's objects are not destroyed one by one: that
    takes 0.7 s."""
    if not _ended():
        _tell(LEFT)
    done = threading.Event()
    threading.Thread(target=_cut, args=(code, done), daemon=True).start()
    atexit._run_exitfuncs()
    done.set()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # the reader has gone, or the user's code has closed it
            stream.flush()
    exit_at_once(code)


def _cut(code: int, done: threading.Event) -> None:
    """Ends the process where the user's exit handlers do not: the result is told already."""
    if not done.wait(PATIENCE):
        _tell(HELD)
        exit_at_once(code)


def _tell(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)


def _ended() -> bool:
    """Whether all threads are through, pools told to end first, as Python does (`threading._shutdown`). Who waits for
    nothing is not waited for: the result is told already."""
    others = [t for t in threading.enumerate() if not t.daemon and t is not threading.current_thread()]
    waiting = threading.Thread(target=_wait_for, args=(others,), daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    return not waiting.is_alive()


def _wait_for(others: list[threading.Thread]) -> None:
    for told in reversed(getattr(threading, "_threading_atexits", ())):
        told()
    for thread in others:
        thread.join()


@contextmanager
def kept() -> Iterator[None]:
    """In the body `os._exit` of user code is `sys.exit`: a command that is ended without a word looks like a pass.
    Children of this process end as ever."""
    own, before = os.getpid(), os._exit

    def ends(status: int) -> NoReturn:
        if os.getpid() != own:
            before(status)
        raise SystemExit(status)

    os._exit = ends
    try:
        yield
    finally:
        os._exit = before
