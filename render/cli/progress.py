"""A line of progress on stderr: only on a terminal, and only for work that takes longer than two seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_MARKS = "|/-\\"


@contextmanager
def progress(
    label: str | Callable[[], str], *, after: float = 2.0, every: float = 0.2, stream: TextIO | None = None
) -> Iterator[None]:
    """Shows `label` (or what it returns by then) and the elapsed time on `stream` (stderr) while the body runs, and
    erases it at the end."""
    out = stream or sys.stderr
    if not _wanted(out):
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin, args=(label, after, every, out, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _wanted(out: TextIO) -> bool:
    return out.isatty() and os.environ.get("TERM", "") != "dumb"


def _spin(label: str | Callable[[], str], after: float, every: float, out: TextIO, done: threading.Event) -> None:
    begin = time.monotonic()
    if done.wait(after):
        return
    turn = width = 0
    while True:
        text = label if isinstance(label, str) else label()
        line = f"{_MARKS[turn % len(_MARKS)]} {text}  {time.monotonic() - begin:.0f} s "
        out.write("\r" + line.ljust(width))
        width = max(width, len(line))
        out.flush()
        turn += 1
        if done.wait(every):
            break
    out.write("\r" + " " * width + "\r")
    out.flush()
