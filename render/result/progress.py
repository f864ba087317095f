"""Progress on stderr for work that takes longer than two seconds, with an estimate of what is left.

A launch that will take longer than ten, or more than a GiB, says so as soon as its first programs are done, before the
rest. On a terminal one line that is redrawn and erased; elsewhere (logs of a CI, notebooks) a line now and then, rarer
with time. The estimate of the time is of the launch that runs: that of its programs so far, times those that are left;
that of memory goes by the elements that have bounds by then. Clocks decide nothing. `RENDER_PROGRESS=0` keeps it
silent, and so does a test of pytest's (`RENDER_PROGRESS=1`: it does not).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from render.result.errors import RenderError

if TYPE_CHECKING:
    from render.result.options import Options

_MARKS = "|/-\\"
_DUE = (2.0, 10.0, 30.0)
"""Seconds after which a line is written off terminals; then every last of these."""
_BIG = 10.0
"""A launch of more seconds is announced."""
_GIB = 1 << 30
_EACH, _AT_LEAST = 80, 40
"""Bytes that an element with bounds needs until its verdict: measured (75 for fp16, 84 for fp32, of a kernel of one
operation; a reference keeps its own beside them), and what is held for sure: ends (16), stamp, value and reference
(12), the exact reference and its error (16), less what a narrow type saves."""
_WORK = 0.17 * _GIB
"""What a chunk of programs has for its handles."""


def seconds(t: float) -> str:
    return f"{t:.1f} s" if t < 60 else f"{int(t) // 60} min {int(t) % 60:02d} s"


class Doing:
    """What is being done: `text`, and how far the launch is that runs now. Called, it says so; "" while nothing is.

    `out`: where the estimate of a big launch is written, once its first programs have shown what they take.
    `limit`: GiB that the run may need; 0 is no limit.
    """

    def __init__(self, text: str = "", limit: float = 0.0) -> None:
        self.text, self.limit = text, limit
        self.out: TextIO | None = None
        self._programs, self._began, self._first = (0, 0), 0.0, 0
        self._told = False
        self._needs = float(_GIB)
        """Bytes of memory that have been told of."""

    def launched(self, done: int, total: int, kept: int = 0) -> None:
        """What a session tells of its progress: `done` of the launch's `total` programs are done, and `kept` elements
        have bounds. Raises RenderError where these alone need more memory than there may be."""
        before = self._programs
        if done == 0 or before[1] != total or done < before[0]:  # another launch, and how much of it was not timed
            self._began, self._told, self._first = time.monotonic(), False, done
        self._fits(kept)
        self._programs = (done, total) if done < total else (0, 0)
        if self.out is not None and not self._told and (self._first < done or done == total):
            self._told = True
            self._estimate(self.out, done, total, kept)

    def _fits(self, kept: int) -> None:
        if self.limit and kept * _AT_LEAST > self.limit * _GIB:
            needed = (
                f"about {kept * _EACH / _GIB:.1f} GiB of memory are needed, and --memory-limit allows {self.limit:g}"
            )
            raise RenderError("RND906", needed, "--memory-limit GIB gives it more; smaller inputs need less")

    def _left(self) -> float:
        """Seconds for the programs that are left, by those that are done."""
        done, total = self._programs
        return (time.monotonic() - self._began) * (total - done) / max(1, done - self._first)

    def _estimate(self, out: TextIO, done: int, total: int, kept: int) -> None:
        """Before the bulk of a launch: what it will take, and what the verdict on it will need."""
        left = self._left() if done < total else 0.0
        more = kept * (_EACH - 24 * done / total) + _WORK  # ends, stamp and value of what is stored are there
        if left < _BIG and more <= self._needs:
            return
        self._needs = max(self._needs, 2 * more)
        took = f"take about {seconds(left)} and " if left >= _BIG else ""
        limit = f", of at most {self.limit:g} more" if self.limit else ""
        memory = f"{(more + _resident()) / _GIB:.1f} GiB of memory{limit}"
        out.write(f"\rrender: a launch of {total} programs will {took}need about {memory}\n")
        out.flush()

    def __call__(self) -> str:
        done, total = self._programs
        if not total:
            return self.text
        left = self._left()
        told = f"{done} of {total} programs of a launch"
        told += f", about {seconds(max(left, 1.0))} left" if done > self._first else ""
        return f"{self.text}: {told}" if self.text else told


@contextmanager
def progress(
    label: str | Callable[[], str], *, after: float = 2.0, every: float = 0.2, stream: TextIO | None = None,
    lines: bool = False, doing: Doing | None = None,
) -> Iterator[None]:  # fmt: skip
    """Shows `label` (or what it returns by then; "" is nothing) and the elapsed time on `stream` (stderr) while the
    body runs. `lines`: whole lines on a terminal, too, where somebody else writes to it. `doing`: what announces big
    launches, if that is not the label itself."""
    out = stream or sys.stderr
    if not _wanted(out):
        yield
        return
    announcing = doing or (label if isinstance(label, Doing) else None)
    if announcing is not None:
        announcing.out = out
    done, call = threading.Event(), (lambda: label) if isinstance(label, str) else label
    redrawn = not lines and out.isatty() and os.environ.get("TERM", "") != "dumb"
    show = _spin if redrawn else _write
    thread = threading.Thread(target=show, args=(call, after, every, out, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def told_in_notebooks(what: str, options: Options) -> Iterator[Options]:
    """The options for the body, which reports what it does where this process is the kernel of a notebook."""
    if not _in_notebook() or "progress" in options.session:
        yield options
        return
    doing = Doing(what)
    with progress(doing):
        yield replace(options, session={**options.session, "progress": doing.launched})


def _in_notebook() -> bool:
    kernel = sys.modules.get("ipykernel")
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return kernel is not None and getattr(shell, "kernel", None) is not None


def _wanted(out: TextIO) -> bool:
    said = os.environ.get("RENDER_PROGRESS", "")
    return said != "0" and (bool(said) or out.isatty() or "PYTEST_CURRENT_TEST" not in os.environ)


def _spin(label: Callable[[], str], after: float, every: float, out: TextIO, done: threading.Event) -> None:
    begin = time.monotonic()
    if done.wait(after):
        return
    turn = width = 0
    while True:
        line = f"{_MARKS[turn % len(_MARKS)]} {label()}  {time.monotonic() - begin:.0f} s "
        out.write("\r" + line.ljust(width))
        width = max(width, len(line))
        out.flush()
        turn += 1
        if done.wait(every):
            break
    out.write("\r" + " " * width + "\r")
    out.flush()


def _write(label: Callable[[], str], after: float, every: float, out: TextIO, done: threading.Event) -> None:
    """A line when work has gone on for `after` seconds, and then as often as `_DUE` says."""
    begin, told = time.monotonic(), 0
    while not done.wait(min(every, after) or every):
        text, gone = label(), time.monotonic() - begin
        if not text:
            begin, told = time.monotonic(), 0
        elif gone >= (_DUE[told] * after / _DUE[0] if told < len(_DUE) else (told - len(_DUE) + 2) * _DUE[-1]):
            told += 1
            out.write(f"render: {text}, {seconds(gone)} so far{_memory()}\n")
            out.flush()


def _memory() -> str:
    """What the process holds now, where the system says so."""
    held = _resident()
    return f", {held / _GIB:.1f} GiB" if held else ""


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return int(pages * os.sysconf("SC_PAGE_SIZE"))
