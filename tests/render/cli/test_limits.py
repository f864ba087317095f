"""A run that needs too long or too much ends with the user's line, and without a verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import render.classify  # noqa: F401 - so that no time of a test goes into the first import of torch
from render.cli.app import app
from render.cli.limits import limited
from render.result.errors import RenderError

runner = CliRunner()
HEAD = "import torch\n\ndef entry(x):\n    return x\n\ndef reference(x):\n    return x\n\n"


def classify(folder: Path, text: str, *options: str):  # type: ignore[no-untyped-def]
    file = folder / "slow.py"
    file.write_text(HEAD + text)
    return runner.invoke(app, ["classify", str(file), "--entry", "entry", *options])


ENDLESS = (
    "while True:\n        try:\n            pass\n        except Exception:\n            pass",
    pytest.param("while True:\n        pass", marks=pytest.mark.slow),
    pytest.param("import time\n    time.sleep(600)", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("body", ENDLESS)
def test_code_that_never_returns(tmp_path: Path, body: str) -> None:
    """In a process of its own: an alarm that rings while a library is imported leaves half of it behind."""
    (tmp_path / "slow.py").write_text(HEAD + f"def make_inputs():\n    {body}\n")
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for seconds in (8, 32, 128):  # a busy machine may spend the first on imports
        line = [sys.executable, "-m", "render", "classify", "slow.py", "--entry", "entry", "--timeout", str(seconds)]
        done = subprocess.run(line, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=4 * seconds + 60)
        assert done.returncode == 2 and "RND906" in done.stderr, done.stderr
        if "make_inputs" in done.stderr:
            break
    assert "slow.py:" in done.stderr and "make_inputs" in done.stderr


def test_a_swallowed_alarm_rings_again() -> None:
    seen = []

    def stubborn() -> None:
        while True:
            try:
                while True:
                    pass
            except BaseException as error:
                seen.append(type(error).__name__)
                if len(seen) > 1:
                    raise

    def run() -> None:
        with limited(0.1, 0):
            stubborn()

    with pytest.raises(RenderError):
        run()
    assert seen == ["OutOfTime", "OutOfTime"]


def test_a_library_that_does_not_come_back() -> None:
    """No alarm reaches a loop in C that never looks: the second thread ends the process."""
    code = (
        "import hashlib\nfrom render.cli import limits\nlimits.GRACE = 0.5\n"
        "with limits.limited(0.5, 0):\n    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "RND906" in done.stderr


def test_memory() -> None:
    with pytest.raises(RenderError, match="GiB of memory"), limited(0, 0.25):
        bytearray(1 << 30)
    bytearray(1 << 29)  # the limit is gone


@pytest.mark.parametrize("limit", ["0.001", "0.02", "0.2"])
def test_memory_of_a_command_ends_it_with_a_line(tmp_path: Path, limit: str) -> None:
    """Wherever it gets short: before the user's code, in it, or behind it; a library that loads is no part of it."""
    (tmp_path / "large.py").write_text(HEAD + "def make_inputs():\n    return (torch.ones(1 << 27),)\n")
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    line = [sys.executable, "-m", "render", "classify", "large.py", "--entry", "entry", "--memory-limit", limit]
    done = subprocess.run(line, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "error[RND906]" in done.stderr, done.stderr


def test_errors_are_json_where_json_was_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = classify(tmp_path, "def make_inputs():\n    raise ValueError('no')\n", "--json", str(out))
    assert result.exit_code == 2
    told = json.loads(out.read_text())
    assert told["exit_code"] == 2 and "no" in told["error"]["message"]
