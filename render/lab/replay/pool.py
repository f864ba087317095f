"""Cases in processes of their own: each starts fresh, and one that dies takes no other with it.

Where the platform has it, a server process imports torch, triton and the interpreter once and forks itself for every
case, so a case neither pays for the imports nor sees what another case left behind.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from render.lab.replay.rows import ReplayRow, from_dict
from render.lab.replay.worker import ReplayPlan

MEMORY = 850.0
"""MB that the cases that run at once may need, per job: with what the processes share, 2 GB for two jobs."""


class Running(NamedTuple):
    folder: Path
    process: Any
    receiver: Connection


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    folders: list[Path], plan: ReplayPlan, jobs: int, need: Callable[[Path], float] = lambda folder: 0.0
) -> Iterator[tuple[Path, ReplayRow | None, str]]:
    """(folder, row, error) of every case as it finishes, `jobs` at a time; no row where a process died.

    A case waits while the `need`s (MB) of those that run would exceed `MEMORY` per job with it; smaller ones go first
    then. Closing the generator ends what is still running.
    """
    context = _context()
    waiting = list(folders)
    running: dict[Any, Running] = {}
    try:
        while waiting or running:
            while (chosen := _next(waiting, [r.folder for r in running.values()], jobs, need)) is not None:
                waiting.remove(chosen)
                started = _start(context, chosen, plan)
                running[started.receiver] = started
            for receiver in wait(list(running)):
                done = running.pop(receiver)
                yield (done.folder, *_result(done))
    finally:
        for left in running.values():
            left.process.terminate()
            left.process.join()


def _next(waiting: list[Path], running: list[Path], jobs: int, need: Callable[[Path], float]) -> Path | None:
    """The first case that there is a job and memory for; any case fits where nothing else runs."""
    if len(running) >= jobs:
        return None
    free = MEMORY * jobs - sum(map(need, running))
    return next((folder for folder in waiting if not running or need(folder) <= free), None)


def _context() -> Any:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["render.lab.replay.preload"])
    return context


def _start(context: Any, folder: Path, plan: ReplayPlan) -> Running:
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, str(folder), plan), daemon=True)
    with without_main():
        process.start()
    sender.close()
    return Running(folder, process, receiver)


class without_main:
    """The child needs nothing of the parent's main module, which multiprocessing would import there."""

    def __enter__(self) -> None:
        names = sys.modules["__main__"].__dict__
        self._saved: dict[str, Any] = {name: names[name] for name in ("__file__", "__spec__") if name in names}
        names.update(dict.fromkeys(self._saved))

    def __exit__(self, *exc: object) -> None:
        sys.modules["__main__"].__dict__.update(self._saved)


def _serve(sender: Connection, folder: str, plan: ReplayPlan) -> None:
    from render.lab.replay.worker import replay

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout = sys.stderr  # what a kernel prints must not mix with a report on stdout
    sender.send(replay(Path(folder), plan).to_dict())
    sender.close()


def _result(done: Running) -> tuple[ReplayRow | None, str]:
    try:
        found = done.receiver.recv()
    except EOFError:
        found = None
    done.receiver.close()
    done.process.join()
    if found is not None:
        return from_dict(found), ""
    code = done.process.exitcode
    if code is not None and code < 0:
        return None, f"its process was killed by {signal.Signals(-code).name}"
    return None, f"its process ended with status {code}"
