"""The caller's side: hands the command to a running server, and stands for it towards terminal and shell.

Standard input, output and error are handed over themselves, with arguments, folder and environment; signals are passed
on, and the end is the job's: its exit code, or the signal that ended it. Where no server runs in this state, or
anything is unusual, the command runs here as if there were no servers.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

COMMANDS = ("classify", "run", "suite", "sweep", "classify-model")
SWITCH = "RENDER_SERVE"
"""Set to 0, no server is asked."""
PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
WAIT = 5.0
"""Seconds for the server to say that it has begun; it forks before it answers."""
_LENGTH = struct.Struct("!I")


def served(words: Sequence[str]) -> int | None:
    """The exit code of the command, where a server ran it; None where it must run here."""
    if not words or words[0] not in COMMANDS or os.environ.get(SWITCH) == "0" or not hasattr(socket, "send_fds"):
        return None
    if sys.gettrace() or sys.getprofile() or any(s is None for s in (sys.stdin, sys.stdout, sys.stderr)):
        return None
    try:
        line = connect()
    except OSError:
        return None
    if line is None:
        return None
    with line:
        return _job(line, words)


def connect(path: Path | None = None) -> socket.socket | None:
    """A connection to this user's server in this state, or to the one at `path`."""
    from render.cli.serving import state

    if not state.is_private(state.folder()):
        return None
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.settimeout(WAIT)
        line.connect(str(path or state.socket_path()))
        if owner(line) != os.getuid():
            raise OSError("not this user's server")
    except OSError:
        line.close()
        return None
    return line


def owner(line: socket.socket) -> int:
    """The user at the other end, as the kernel knows it (unix(7), SO_PEERCRED)."""
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[1])


def send(line: socket.socket, message: Any, fds: Sequence[int] = ()) -> None:
    data = json.dumps(message).encode()
    socket.send_fds(line, [_LENGTH.pack(len(data))], list(fds))
    line.sendall(data)


def receive(line: socket.socket, fds: int = 0) -> tuple[Any, list[int]]:
    """(message, file descriptors). Raises OSError where the other end has gone."""
    head, found, _, _ = socket.recv_fds(line, _LENGTH.size, fds)
    head += _exactly(line, _LENGTH.size - len(head))
    return json.loads(_exactly(line, _LENGTH.unpack(head)[0])), found


def _exactly(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def _job(line: socket.socket, words: Sequence[str]) -> int | None:
    """Runs the command there; None where the server did not begin."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        send(line, {"job": _settings(words)}, (0, 1, 2))
        begun, _ = receive(line)
    except (OSError, ValueError):
        return None
    if begun != "begun":
        return None
    line.settimeout(None)
    with _passing(line):
        try:
            status, _ = receive(line)
        except OSError:
            print("internal error: the server of `render serve` has gone", file=sys.stderr)
            return 4
    code = os.waitstatus_to_exitcode(status)
    if code < 0:  # end as the job did, for whoever started this process
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        return 128 - code
    return code


def _settings(words: Sequence[str]) -> dict[str, Any]:
    outputs: list[Any] = [sys.stdout, sys.stderr]
    streams = [(s.encoding, s.errors, s.line_buffering, s.write_through) for s in outputs]
    mask = os.umask(0)
    os.umask(mask)
    limits = {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")}
    return {
        "words": list(words), "program": sys.argv[0], "folder": os.getcwd(), "environment": dict(os.environ),
        "path": sys.path, "streams": streams, "input": (sys.stdin.encoding, sys.stdin.errors), "umask": mask,
        "limits": limits, "cores": sorted(os.sched_getaffinity(0)), "nice": os.nice(0),
    }  # fmt: skip


@contextmanager
def _passing(line: socket.socket) -> Iterator[None]:
    """Signals to this process reach the job; Ctrl-Z stops both."""

    def passed(number: int, frame: FrameType | None) -> None:
        del frame
        line.sendall(bytes((number,)))

    def stopped(number: int, frame: FrameType | None) -> None:
        del number, frame
        line.sendall(bytes((signal.SIGSTOP,)))
        os.kill(os.getpid(), signal.SIGSTOP)

    before = {number: signal.signal(number, passed) for number in PASSED}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, stopped)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
