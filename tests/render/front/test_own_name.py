"""A program with a `render` module of its own beside ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import render

ROOT = Path(render.__file__).resolve().parent.parent
OWN = "def rays():\n    return 42\n"
PROGRAM = """
import {first}
import {second}
from render import rays
import render_triton as rt
import render as again
assert render.rays() == again.rays() == rays() == 42
assert rt.classify.__module__ == "render.classify" and rt.__version__ == {version!r}
"""


@pytest.mark.parametrize(("first", "second"), [("render", "render_triton"), ("render_triton", "render")])
def test_each_importer_gets_the_one_that_it_means(first: str, second: str, tmp_path: Path) -> None:
    (tmp_path / "render.py").write_text(OWN)
    (tmp_path / "program.py").write_text(PROGRAM.format(first=first, second=second, version=render.__version__))
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_command_works_in_such_a_folder(tmp_path: Path) -> None:
    (tmp_path / "render.py").write_text(OWN)
    done = subprocess.run(
        [sys.executable, "-m", "render_triton", "explain", "RND101"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and "RND101" in done.stdout, done.stderr
