"""Large arrays on several cores: a function of a range of rows runs on parts of it at once.

What runs here gives up the GIL (compiled loops, matrix products, numpy's own loops) and writes to rows of its own, so
that a row's result is the same in any part: the number of threads changes no bit. A part runs in a copy of the caller's
context, where numpy keeps how it takes overflows. Processes that were started as some of several use one thread, and a
process is forked without threads.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

R = TypeVar("R")

LEAST = 1 << 15
"""Elements that are worth a thread: to wake one costs what a simple loop takes for as many."""
ALIGNED = 1 << 12
"""Parts of flat arrays begin at multiples of this, where vectorised loops begin anew in any case."""
HEAVY = LEAST
"""Weight of a row that is worth one by itself."""

_told: int | None = None
_busy = threading.Lock()


@contextmanager
def using(threads: int | None) -> Iterator[None]:
    """So many threads inside; None: as many as outside."""
    global _told
    before = _told
    _told = before if threads is None else threads
    try:
        yield
    finally:
        _told = before


def count() -> int:
    """Threads that may run at once."""
    return default() if _told is None else _told


@cache
def default() -> int:
    """One for each core that this process may use, or what OMP_NUM_THREADS says; one where there are other processes
    for the other cores."""
    if multiprocessing.parent_process() is not None or "PYTEST_XDIST_WORKER" in os.environ:
        return 1
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ranges(rows: int, weight: int = 1) -> list[tuple[int, int]]:
    """Even parts of the rows, as many as there are threads, or fewer where a part would not be worth one.

    `weight`: elements of a row.
    """
    parts = 1 if rows * weight < 2 * LEAST else min(count(), rows, rows * weight // LEAST)
    if parts <= 1:
        return [(0, rows)]
    unit = ALIGNED if weight == 1 else 1
    ends = [rows * k // parts // unit * unit for k in range(parts)] + [rows]
    return list(pairwise(ends))


def spread(work: Callable[[int, int], R], rows: int, weight: int = 1) -> list[R]:
    """`work(start, stop)` of each of these parts, in order; all have ended when it returns, also where one raises."""
    return each(work, ranges(rows, weight))


def each(work: Callable[[int, int], R], parts: list[tuple[int, int]]) -> list[R]:
    """`work(start, stop)` of these parts, at once if nothing else runs so; what the first of those raised that did."""
    if len(parts) == 1 or not _busy.acquire(blocking=False):
        return [work(*part) for part in parts]
    others: list[_Part[R]] = []
    try:
        for worker, part in zip(_workers(len(parts) - 1), parts[1:], strict=True):
            others.append(_Part(work, part))
            worker.put(others[-1])
        try:
            first = work(*parts[0])
        finally:
            _settle(others)
    finally:
        _busy.release()
    return [first, *(other.result() for other in others)]


class _Part(Generic[R]):
    """One call, for another thread."""

    __slots__ = ("_context", "_done", "_error", "_part", "_result", "_work")

    def __init__(self, work: Callable[[int, int], R], part: tuple[int, int]) -> None:
        self._work, self._part = work, part
        self._context: Context = copy_context()
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        try:
            self._result = self._context.run(self._work, *self._part)
        except BaseException as error:  # it is raised where the call was made
            self._error = error
        finally:
            self._done.release()

    def wait(self) -> None:
        with self._done:
            pass

    def result(self) -> R:
        if self._error is not None:
            raise self._error
        return self._result


def _settle(others: list[_Part[Any]]) -> None:
    """Waits for all: an interrupt goes on when nobody writes to the caller's arrays any more."""
    try:
        for other in others:
            other.wait()
    except BaseException:
        for other in others:
            other.wait()
        raise


_Queue = SimpleQueue["_Part[Any] | None"]
_threads: list[tuple[threading.Thread, _Queue]] = []


def _workers(wanted: int) -> list[_Queue]:
    """The queues of so many threads, which stay for the next call."""
    while len(_threads) < wanted:
        queue: _Queue = SimpleQueue()
        thread = threading.Thread(target=_serve, args=(queue,), name=f"render-{len(_threads) + 1}", daemon=True)
        thread.start()
        _threads.append((thread, queue))
    return [queue for _, queue in _threads[:wanted]]


def _serve(queue: _Queue) -> None:
    while (part := queue.get()) is not None:
        part.run()
        del part  # it holds the caller's arrays


def _before_fork() -> None:
    """A fork has none of its parent's threads, and a process of one thread forks safely."""
    _busy.acquire()
    for thread, queue in _threads:
        queue.put(None)
        thread.join()
    _threads.clear()


def _in_fork() -> None:
    default.cache_clear()
    _busy.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_busy.release, after_in_child=_in_fork)
