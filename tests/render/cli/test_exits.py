"""Every kind of bad input ends with a clear line and the right exit code: nothing hangs, nothing is overwritten, no
pickle is executed, and nothing of it is called a defect of RENDER."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli.app import app
from tests.render.cli.bad_input_kinds import Kind, kinds
from tests.render.cli.vandalism import vandals

KINDS = [*kinds(), *vandals()]
QUICK = KINDS[::23]
"""A sample; all of them take some minutes."""


def laid_out(kind: Kind, folder: Path) -> None:
    for name in kind.folders:
        (folder / name).mkdir()
    for name, to in kind.links.items():
        (folder / name).symlink_to(to)
    for name in kind.pipes:
        os.mkfifo(folder / name)
    for name, content in kind.files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def run(kind: Kind, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """(exit code, everything that was printed)."""
    laid_out(kind, folder)
    if kind.environment:
        line = [sys.executable, "-m", "render", *kind.arguments]
        if kind.streams:
            line = ["bash", "-c", f'"$@" {kind.streams}; exit ${{PIPESTATUS[0]}}', "bash", *line]
        own = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        here = {**os.environ, **own, **kind.environment}
        env = {name: value for name, value in here.items() if value is not None}
        done = subprocess.run(line, cwd=folder, env=env, capture_output=True, timeout=120)
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    result = CliRunner().invoke(app, list(kind.arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.exit_code, result.output


def check(kind: Kind, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = run(kind, folder, monkeypatch)
    assert code in kind.codes, f"exit {code}\n{told[-1500:]}"
    if not kind.environment:
        assert "Traceback" not in told, told[-1500:]
    if code == 2 and "2>" not in kind.streams:
        first = [line for line in told.splitlines() if line.strip()]
        assert any(line.startswith(("error", "Usage", "╭─ Error")) or "Error" in line for line in first), told
    assert all(word in told for word in kind.words), told[-1500:]
    for name, content in kind.files.items():
        assert (folder / name).read_bytes() == (content if isinstance(content, bytes) else content.encode()), name
    assert not (folder / "canary").exists()


def test_there_are_many_kinds() -> None:
    assert len(KINDS) >= 800 and len({kind.name for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", QUICK, ids=lambda kind: kind.name)
def test_some_kinds(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(kind, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(kind, tmp_path, monkeypatch)
