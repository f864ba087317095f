"""What a command finds around it: its streams, its folder, the variables that libraries read."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from typing import TextIO

from render.result.errors import RenderError

_PIPED_WIDTH = 100
_UNWRITABLE = frozenset([errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
_FULL = frozenset([errno.EMFILE, errno.ENFILE])
_NO_PATH = frozenset([errno.ENAMETOOLONG, errno.ELOOP])
_SHOWN = 60
_LIBRARIES = ("torch", "triton", "numba")


_kept: dict[int, int] = {}
"""Where standard streams led at first, by number."""


_path: list[str] = []
"""Where modules were found at first."""
_DEEP = 1000
"""Calls within each other that a report may take: Python's own limit."""


def streams() -> None:
    """Standard streams that are closed lead nowhere, those that user code has closed since lead where they led: what is
    opened later must not come in their places. Modules are found where they were found at first, however deep."""
    sys.path += [folder for folder in _path if folder not in sys.path]
    _path[:] = _path or sys.path
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEP))
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        found, isopen = getattr(sys, name), _is_open(fd)
        if found is None and isopen and fd not in _kept:  # closed from the start, and its number is another file's
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives
            continue
        if not isopen and fd in _kept:
            os.dup2(_kept[fd], fd)
        elif not isopen:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if fd not in _kept:
            _kept[fd] = os.dup(fd)
        if found is None or found.closed:
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as above


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def fitting() -> None:
    """Raises RenderError where no command can do its work."""
    try:
        os.getcwd()
    except OSError:
        raise RenderError("RND901", "the working folder does not exist any more", "change to another one") from None
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise RenderError("RND902", "NUMBA_DISABLE_JIT is set, and RENDER's own loops have to be compiled", "unset it")
    # Of a value that it cannot read numba prints a traceback, and goes on without.
    warnings.filterwarnings("error", "Environment variable 'NUMBA_", RuntimeWarning)
    threads = os.environ.get("NUMBA_NUM_THREADS", "1")
    if not threads.isdigit() or not int(threads):
        raise RenderError("RND902", f"NUMBA_NUM_THREADS is {threads!r}, no number of threads", "unset it, or say 1")


def width(stream: TextIO) -> int | None:
    """Of a console on `stream`: as COLUMNS says, or a fixed one off a terminal; None: the terminal's."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    return None if stream.isatty() and not columns else _PIPED_WIDTH


def unwritable(error: OSError) -> RenderError | None:
    """What the user is told where a stream takes no more, or nothing can be opened; None where it is another error."""
    if error.errno in _FULL:
        return RenderError("RND901", f"no file can be opened any more: {error.strerror}", "see `ulimit -n`")
    if error.filename is not None or error.errno not in _UNWRITABLE:
        return None
    return RenderError("RND901", f"the report cannot be written: {error.strerror}", "make room, or write it elsewhere")


def unimportable(error: Exception) -> RenderError | None:
    """What the user is told where a library that we stand on refuses to load; None where it is another error."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.name == "<module>"]
    for name in _LIBRARIES:
        if any(frame.filename.endswith(f"{os.sep}{name}{os.sep}__init__.py") for frame in frames):
            words = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            hint = f"look at the variables {name.upper()}_* and at its installation"
            return RenderError("RND902", f"{name} cannot be imported here: {words}", hint)
    return None


def no_path(error: OSError) -> RenderError | None:
    """What the user is told of a name that the system takes for no path; None where it is another error."""
    if error.filename is None or error.errno not in _NO_PATH:
        return None
    name = os.fsdecode(error.filename)
    shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "..."
    return RenderError("RND901", f"{shown} is no path: {error.strerror}", "check the name")
