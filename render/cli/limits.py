"""Limits of time and memory for a command: an error with a line, never a verdict. No clock decides what a verdict says.

The alarm interrupts Python code wherever it is. Where it stands in a library's own loop, or the user's code swallows
the interruption, a second thread ends the process a little later, with the same words.
"""

from __future__ import annotations

import math
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType

from render.cli.leave import exit_at_once
from render.report.text import place
from render.result import codes
from render.result.errors import RenderError

TIMEOUT = "End the run after so long without a verdict; 0: never."
MEMORY = "End the run when it needs more memory than this; 0: no limit."
GRACE = 20.0
"""Seconds after which the process is ended where the alarm did not end the command."""
_OURS = Path(__file__).resolve().parents[2]
_GIB = 1 << 30
_EVER = 1e9
"""More seconds, or GiB, than a system call takes mean no more than this."""


class OutOfTime(BaseException):
    """Raised in the main thread when the time is over: no `except Exception` of anybody stops it."""


@contextmanager
def limited(seconds: float, memory: float) -> Iterator[None]:
    """The body may take `seconds` and `memory` GiB more than now; 0 is no limit. Raises RenderError where it needs more
    (RND906)."""
    for option, limit in (("--timeout", seconds), ("--memory-limit", memory)):
        if not math.isfinite(limit):
            raise RenderError("RND902", f"{option} {limit} is no limit", "0 is none")
    with _memory(min(memory, _EVER)), _time(seconds):
        yield


@contextmanager
def _time(seconds: float) -> Iterator[None]:
    seconds = min(seconds, _EVER)
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    where: list[str] = []

    def ring(signum: int, frame: FrameType | None) -> None:
        del signum
        where[:] = [_place(frame)]
        raise OutOfTime(_said(seconds, where[0]))

    done = threading.Event()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again every second: user code may swallow one
    threading.Thread(target=_end, args=(seconds, where, done), daemon=True).start()
    try:
        yield
    except OutOfTime as stop:
        raise RenderError("RND906", str(stop), "--timeout SECONDS gives it more time, 0 all of it") from None
    finally:
        done.set()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _end(seconds: float, where: list[str], done: threading.Event) -> None:
    if not done.wait(seconds + GRACE):
        print(f"error[RND906]: {_said(seconds, ''.join(where))}", file=sys.stderr, flush=True)
        exit_at_once(codes.USAGE_ERROR)


def _said(seconds: float, where: str) -> str:
    return f"no result after {seconds:g} s" + (f", still at {where}" if where else "")


def _place(frame: FrameType | None) -> str:
    """The innermost line that is the user's: in no file of ours or of an installed package."""
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if (
            file.is_file()
            and not file.is_relative_to(_OURS / "render")
            and not {"site-packages", "lib"} & set(file.parts)
        ):
            return f"{place(str(file), frame.f_lineno)} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def short_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what led to it, says that there is no memory."""
    while error is not None:
        said = str(error) if isinstance(error, RuntimeError) else ""  # in the words of torch, and of threads
        if isinstance(error, MemoryError) or "can't allocate memory" in said or "can't start new thread" in said:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _memory(limit: float) -> Iterator[None]:
    """Linux counts private memory against RLIMIT_DATA (man 2 getrlimit, since 4.7)."""
    if limit <= 0:
        yield
        return
    import_module("render.classify")  # what a library cannot load without is no memory of the run
    before = resource.getrlimit(resource.RLIMIT_DATA)
    own = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (own + int(limit * _GIB), before[1]))
    try:
        yield
    except (MemoryError, RuntimeError, RenderError) as error:
        if not short_of_memory(error):
            raise
        hint = "--memory-limit GIB gives it more; smaller inputs need less"
        raise RenderError("RND906", f"more than {limit:g} GiB of memory are needed", hint) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
