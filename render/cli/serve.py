"""`render serve`: a process with everything loaded, which other commands use while it runs."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from render.cli.exits import guarded
from render.cli.serving import state
from render.cli.serving.client import COMMANDS, connect, receive, send
from render.result.errors import RenderError

POSSIBLE = hasattr(socket, "send_fds") and hasattr(os, "pidfd_open")
BEGIN = 120.0
"""Seconds that a server may take to load."""


@guarded
def command(
    idle: Annotated[
        float, typer.Option(metavar="MINUTES", min=0, help="End after so long without a job; 0: never.")
    ] = 30,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay in this terminal.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Say what runs.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End what runs, after the jobs that it has.")] = False,
) -> int:
    """Keep a process with everything loaded, which classify, run, suite, sweep and classify-model use while it runs.

    Each command runs in a fork of its own. Its socket is for this user alone; it ends by itself when it is idle and
    when the installed code changes. RENDER_SERVE=0 in front of a command does without it.
    """
    if not POSSIBLE:
        raise RenderError("RND902", "render serve needs Linux 5.3 or later", "commands run without it")
    if status or stop:
        return _ask("stop" if stop else "status")
    running = connect()
    if running is not None:
        running.close()
        typer.echo("a server is running; `render serve --status` says more")
        return 0
    if foreground:
        _serve(idle)
        return 0
    return _in_background(idle)


def servers() -> Iterator[dict[str, Any]]:
    """What each of this user's servers says of itself; `here`: it serves commands of this installation as it is."""
    own = state.socket_path()
    for path in sorted(state.folder().glob("*.sock")):
        told = _told(path, "status")
        if told is not None:
            yield told | {"here": path == own}


def described(told: dict[str, Any]) -> str:
    if not told["here"]:
        return f"running as process {told.get('pid')}, for another installation or environment"
    jobs = f"{told['jobs']} jobs now, {told['done']} done in {told['cpu']:.1f} s of CPU time"
    ends = f"ends after {told['idle'] / 60:g} idle minutes" if told["idle"] else "never ends by itself"
    return f"running as process {told['pid']}, {jobs}, {told['memory']:.0f} MB, {ends}"


def _told(path: Path, question: str) -> dict[str, Any] | None:
    line = connect(path)
    if line is None:
        return None
    with line, contextlib.suppress(OSError, ValueError):
        send(line, {"ask": question})
        answer, _ = receive(line)
        return answer if isinstance(answer, dict) else None
    return None


def _ask(question: str) -> int:
    found = list(servers())
    for told in found:
        typer.echo(described(told))
    if not found:
        typer.echo("no server is running; `render serve` starts one")
    if question == "stop":
        for path in state.folder().glob("*.sock"):
            if _told(path, "stop") is None:
                path.unlink(missing_ok=True)  # left behind by one that was killed
        typer.echo("told to end" if found else "nothing to end")
    return 0


def _serve(idle: float) -> None:
    from render.cli.serving import server

    path, code = state.socket_path(), state.code()  # before anything is imported: what changes meanwhile is seen
    server.Server(path, idle * 60, server.load(), code).run()


def _in_background(idle: float) -> int:
    """Starts it as a process of its own session, and waits until it answers."""
    import subprocess

    began = time.monotonic()
    words = [sys.executable, *_flags(), "-m", "render", "serve", "--foreground", "--idle", str(idle)]
    null, path = subprocess.DEVNULL, os.pathsep.join(p for p in sys.path[1:] if p)
    started = subprocess.Popen(
        words, stdin=null, stdout=null, stderr=subprocess.PIPE, start_new_session=True, cwd="/",
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    while time.monotonic() - began < BEGIN:
        line = connect()
        if line is not None:
            line.close()
            names = ", ".join(COMMANDS)
            typer.echo(f"running as process {started.pid}; {names} use it. `render serve --stop` ends it")
            return 0
        if started.poll() is not None:
            assert started.stderr is not None
            last = started.stderr.read().decode(errors="replace").strip().splitlines()
            raise RenderError("RND902", "the server did not start: " + (last[-1] if last else "no reason given"))
        time.sleep(0.1)
    started.terminate()
    raise RenderError("RND902", f"the server did not answer within {BEGIN:g} s", "see `render serve --foreground`")


def _flags() -> list[str]:
    import subprocess

    return subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined, no-any-return]
