"""Units of work in processes of this machine: each is done once, whatever happens to the process that does it.

A few processes take one unit after the other, so imports and compiled kernels are paid for once each. One that dies
takes nothing with it but the unit that it was at, which another one is given again.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

from render.lab.replay.pool import without_main

U = TypeVar("U")
R = TypeVar("R")
ATTEMPTS = 3
"""A unit whose process died so often is given up: it is likely what kills them."""
WARM = ("render.lab.replay.preload",)
"""What the processes share: imports, and small kernels that ran once."""
UNITS = 200
"""A process makes way for a fresh one after so many units: what libraries keep is not kept for ever."""


class Done(NamedTuple, Generic[R]):
    """What became of the unit at this index: its result, or in words why there is none."""

    unit: int
    result: R | None
    error: str = ""
    attempts: int = 1


class _Worker:
    def __init__(self, context: Any, work: Callable[[Any], Any]) -> None:
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with without_main():
            self.process.start()
        theirs.close()
        self.index: int | None = None
        self.given = 0

    def give(self, index: int, unit: Any) -> None:
        self.index = index
        self.given += 1
        self.connection.send((index, unit))

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def run(
    work: Callable[[U], R], units: Sequence[U], jobs: int, preload: Sequence[str] = WARM, per_process: int = UNITS
) -> Iterator[Done[R]]:
    """Each unit's outcome as it comes; `work` is a function of a module, units and results are picklable.

    `preload`: modules that the processes share; the first call chooses. `per_process`: units that a process does before
    a fresh one takes its place. Closing the generator ends what still runs.
    """
    context = _context(preload)
    waiting, tries = deque(range(len(units))), [0] * len(units)
    workers: dict[Connection, _Worker] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                new = _Worker(context, work)
                workers[new.connection] = new
                _next(new, waiting, units, tries)
            for ready in wait(list(workers)):
                assert isinstance(ready, Connection)
                worker = workers[ready]
                done = _answer(worker, tries)
                if done is None:  # died, with attempts left
                    assert worker.index is not None
                    waiting.appendleft(worker.index)
                else:
                    yield done
                if done is not None and worker.process.is_alive() and waiting and worker.given < per_process:
                    _next(worker, waiting, units, tries)
                else:
                    del workers[ready]
                    worker.end()
    finally:
        for worker in workers.values():
            worker.end()


def _next(worker: _Worker, waiting: deque[int], units: Sequence[Any], tries: list[int]) -> None:
    index = waiting.popleft()
    tries[index] += 1
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it died meanwhile: `wait` tells
        worker.give(index, units[index])


def _answer(worker: _Worker, tries: list[int]) -> Done[Any] | None:
    """What a process says of its unit; None where it died and the unit is to be given again."""
    index = worker.index
    assert index is not None
    try:
        result, error = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        if tries[index] < ATTEMPTS:
            return None
        return Done(index, None, f"its process {_ending(worker.process.exitcode)}, {tries[index]} times", tries[index])
    return Done(index, result, error, tries[index])


def _ending(code: int | None) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with {code}"


forks = False
"""Set in a process that has loaded everything and runs one thread: it forks itself."""


def _context(preload: Sequence[str]) -> Any:
    if forks:
        return multiprocessing.get_context("fork")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return context


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """The loop of one process, until its connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent ends us
    sys.stdout = sys.stderr  # what a kernel prints must not mix with a report on stdout
    while True:
        try:
            _, unit = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = work(unit), ""
        except Exception as error:  # the boundary of the process
            where = traceback.extract_tb(error.__traceback__)[-1]
            answer = None, f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
        try:
            connection.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return
