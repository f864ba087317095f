"""The server: imports everything once, and forks itself for every command that a caller hands over.

The parent never runs a user's code: a job's files are imported in its fork, as they are then, and nothing of one job is
seen by another. It ends when it was idle for long, when it is told to, and when the installed code is no longer the one
that it has loaded.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import resource
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from render.cli.serving import state
from render.cli.serving.client import owner, receive, send

TICK = 2.0
"""Seconds between two looks at the clock, the sources and the folder."""
PREFERRED_BACKLOG = 16


def load() -> int:
    """Imports what commands import and judges one small kernel, in one thread; the number of threads that jobs get."""
    import torch

    threads = torch.get_num_threads()
    import render.front.found
    import render.front.watch
    import render.lab.replay.preload
    import render.lab.suite.runner
    import render.report.html
    import render.report.terminal  # noqa: F401
    from render.classify import classify_file
    from render.cli import application
    from render.result.packaged import find

    example, nowhere = find(Path("kernels") / "matmul.py"), io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        with contextlib.suppress(SystemExit):  # the command line is parsed, and its help made, before a file is missed
            application()(["classify", os.devnull + "/none"], prog_name="render")
        with contextlib.suppress(Exception):  # whatever is wrong, the first job will say it
            classify_file(example or "")
    gc.collect()
    gc.freeze()
    return threads


@dataclass
class Job:
    pid: int
    line: socket.socket
    ends: int
    """A file descriptor that is readable when the process has ended."""


@dataclass
class Server:
    path: Path
    idle: float
    """Seconds without a job after which it ends; 0: never."""
    threads: int = 1
    code: str = field(default_factory=state.code)
    jobs: dict[int, Job] = field(default_factory=dict)
    done: int = 0

    def run(self) -> None:
        """Until it has nothing to do any more."""
        self.listening = listen(self.path)
        self.own = self.path.stat().st_ino
        self.select = selectors.DefaultSelector()
        self.select.register(self.listening, selectors.EVENT_READ, self._accept)
        self.last, self.ending = time.monotonic(), False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            while not (self.ending and not self.jobs):
                for key, _ in self.select.select(TICK):
                    key.data(key.fileobj)
                self._look()
        finally:
            self._remove()

    def _end(self, *_: object) -> None:
        self.ending = True

    def _look(self) -> None:
        if self.jobs:
            self.last = time.monotonic()
        idle = bool(self.idle) and time.monotonic() - self.last > self.idle
        if not self.ending and (idle or self._is_stale()):
            self.ending = True
        if self.ending and self.listening.fileno() >= 0:
            self.select.unregister(self.listening)
            self._remove()

    def _is_stale(self) -> bool:
        """Whether the sources have changed, or another server took this place."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_ino != self.own or state.code() != self.code
        return True

    def _remove(self) -> None:
        self.listening.close()
        with contextlib.suppress(OSError):
            if self.path.stat().st_ino == self.own:
                self.path.unlink()

    def _accept(self, listening: socket.socket) -> None:
        try:
            line, _ = listening.accept()
        except OSError:
            return
        line.settimeout(TICK)
        try:
            if owner(line) != os.getuid():
                raise OSError("another user")
            message, fds = receive(line, 3)
        except (OSError, ValueError):
            line.close()
            return
        try:
            self._answer(line, message, fds)
        except OSError:  # the caller has gone
            line.close()
        finally:
            for fd in fds:
                os.close(fd)

    def _answer(self, line: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        if "job" in message and len(fds) == 3 and not self.ending and not self._is_stale():
            self._start(line, message["job"], fds)
            return
        if message.get("ask") == "status":
            send(line, self._status())
        elif message.get("ask") == "stop":
            send(line, {"pid": os.getpid(), "jobs": len(self.jobs)})
            self.ending = True
        else:
            send(line, "no")
        line.close()

    def _status(self) -> dict[str, float]:
        cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        counts = {"pid": os.getpid(), "jobs": len(self.jobs), "done": self.done}
        return {**counts, "idle": self.idle, "cpu": cpu, "memory": _resident()}

    def _start(self, line: socket.socket, job: dict[str, Any], fds: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become(line, job, fds)
        with contextlib.suppress(OSError):  # the child does the same: whoever comes first
            os.setpgid(pid, pid)
        started = Job(pid, line, os.pidfd_open(pid))
        self.jobs[pid] = started
        self.select.register(started.ends, selectors.EVENT_READ, lambda _: self._ended(started))
        self.select.register(line, selectors.EVENT_READ, lambda _: self._told(started))
        with contextlib.suppress(OSError):
            send(line, "begun")

    def _told(self, job: Job) -> None:
        """Signals for the job, a byte each; an end without one is a caller that was killed."""
        try:
            numbers = job.line.recv(64)
        except OSError:
            numbers = b""
        if not numbers:
            self.select.unregister(job.line)
        for number in numbers or bytes((signal.SIGKILL,)):
            with contextlib.suppress(OSError, ValueError):
                os.killpg(job.pid, number)

    def _ended(self, job: Job) -> None:
        _, status = os.waitpid(job.pid, 0)
        self.select.unregister(job.ends)
        os.close(job.ends)
        with contextlib.suppress(KeyError, ValueError):
            self.select.unregister(job.line)
        with contextlib.suppress(OSError):
            send(job.line, status)
        job.line.close()
        del self.jobs[job.pid]
        self.done += 1
        self.last = time.monotonic()

    def _become(self, line: socket.socket, job: dict[str, Any], fds: list[int]) -> NoReturn:
        """The fork: the caller's process in all that a command can see, then the command."""
        code: object = 4
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.select.close()
            self.listening.close()
            line.close()
            for other in self.jobs.values():
                other.line.close()
                os.close(other.ends)
            _take(job, fds)
            code = _command(job["words"], self.threads)
        except BaseException as error:  # not the command's: those are told by its guard
            import traceback

            from render.result.defects import caught

            caught(error, "a command under render serve")
            traceback.print_exc()
        finally:
            from render.cli.leave import end

            end(code if isinstance(code, int) else 4)


def _command(words: list[str], threads: int) -> object:
    import torch

    from render.cli import application
    from render.lab import workers

    workers.forks = True
    torch.set_num_threads(threads)
    gc.set_threshold(700, 10, 10)
    try:
        application()(words, prog_name="render")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return 0


def _take(job: dict[str, Any], fds: list[int]) -> None:
    """Streams, folder, environment, limits, random numbers: as a fresh process of the caller would have them."""
    import random

    import numpy as np

    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    fds.clear()
    encoding, errors = job["input"]
    sys.stdin = sys.__stdin__ = open(0, encoding=encoding, errors=errors, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    for fd, name, (encoding, errors, lines, through) in zip((1, 2), ("stdout", "stderr"), job["streams"], strict=True):
        raw = open(fd, "wb", closefd=False)  # noqa: SIM115
        made = io.TextIOWrapper(raw, encoding, errors, line_buffering=lines, write_through=through)
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)
    os.environ.clear()
    os.environ.update(job["environment"])
    time.tzset()
    os.umask(job["umask"])
    os.chdir(job["folder"])
    sys.argv[:] = [job["program"], *job["words"]]
    sys.path[:] = job["path"]
    for name, limit in job["limits"].items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), tuple(limit))
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, job["cores"])
    with contextlib.suppress(OSError):
        os.nice(max(0, job["nice"] - os.nice(0)))
    random.seed()
    np.random.seed()  # noqa: NPY002  the generator that users draw from


def listen(path: Path) -> socket.socket:
    """A socket at `path` that only this user can reach. Raises OSError where the folder is somebody else's."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(path.parent, 0o700)
    if not state.is_private(path.parent):
        raise PermissionError(f"{path.parent} is not this user's alone")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    beside = path.with_suffix(f".{os.getpid()}")
    before = os.umask(0o177)
    try:
        made.bind(str(beside))
    finally:
        os.umask(before)
    made.listen(PREFERRED_BACKLOG)
    os.replace(beside, path)
    return made


def _resident() -> float:
    """MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
