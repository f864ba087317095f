"""What ends a test: its time, or an exception of the user's own code."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from render.entry.target import as_kernel_error
from render.interpreter.refusals import is_own_failure
from render.result.errors import KernelError, RenderError, UnsupportedOp


class TooLong(BaseException):
    """A test has used up its time. Not an Exception, so that no handler of a library takes it."""


def of_user(error: Exception) -> Exception:
    """An exception of the user's own code as such."""
    if isinstance(error, RenderError | UnsupportedOp | KernelError) or is_own_failure(error):
        return error
    return as_kernel_error(error)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises TooLong inside after so many seconds of wall time (0: never; only in the main thread, on Unix)."""
    if not seconds or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
