"""A line of progress on stderr: only on a terminal, and only for work that takes longer than two seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_MARKS = "|/-\\"


@contextmanager
def progress(label: str, *, after: float = 2.0, every: float = 0.2, stream: TextIO | None = None) -> Iterator[None]:
    """Shows `label` and the elapsed time on `stream` (stderr) while the body runs, and erases it at the end."""
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


def _spin(label: str, after: float, every: float, out: TextIO, done: threading.Event) -> None:
    begin = time.monotonic()
    if done.wait(after):
        return
    turn = 0
    while True:
        out.write(f"\r{_MARKS[turn % len(_MARKS)]} {label}  {time.monotonic() - begin:.0f} s ")
        out.flush()
        turn += 1
        if done.wait(every):
            break
    out.write("\r" + " " * (len(label) + 16) + "\r")
    out.flush()
