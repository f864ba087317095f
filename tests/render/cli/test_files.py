"""What a command writes never takes the place of something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from render.cli.files import writable
from render.network import page as network_page
from render.network.records import NetworkVerdict
from render.report.html import page
from render.report.saved import replacing
from render.result.errors import RenderError
from render.result.needs import drawn
from tests.render.report.verdicts import type_ii


def test_reports_of_ours_are_replaced(tmp_path: Path) -> None:
    verdict = type_ii()
    (tmp_path / "v.json").write_text(verdict.to_json())
    (tmp_path / "v.html").write_text(page(verdict))
    (tmp_path / "empty").write_text("")
    writable(tmp_path / "v.json", tmp_path / "v.html", tmp_path / "empty", tmp_path / "new.json", "-", None, os.devnull)


def test_nothing_else_is(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("x = 1\n")
    (tmp_path / "link.json").symlink_to(kernel)
    data = tmp_path / "results.json"
    data.write_text('{"mine": 1}')
    for bad in (kernel, data, tmp_path, tmp_path / "no" / "x.json", tmp_path / "link.json"):
        with pytest.raises(RenderError) as error:
            writable(bad, protected=(kernel,))
        assert error.value.code == "RND901"
    with pytest.raises(RenderError):
        writable(tmp_path / "a", tmp_path / "a")
    assert kernel.read_text() == "x = 1\n"


def test_half_a_report_is_never_seen(tmp_path: Path) -> None:
    path = tmp_path / "last.json"
    path.write_text("old")

    def fails() -> None:
        with replacing(path) as beside:
            beside.write_text("ne")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["last.json"]


def test_a_reader_that_stops_reading_keeps_the_exit_code(tmp_path: Path) -> None:
    code = (
        "import typer, sys\nfrom render.cli.exits import decided, guarded\nfrom render.cli.output import console\n"
        "@guarded\ndef command():\n    code = decided(3)\n    out = console()\n"
        "    for _ in range(100000): out.print('line')\n    return code\n"
        "app = typer.Typer()\napp.command()(command)\napp()\n"
    )
    pipe = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert pipe.stdout is not None and pipe.stdout.readline() == b"line\n"
    pipe.stdout.close()
    assert pipe.wait(60) == 3


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_of_ours_is_replaced_and_nobody_else_s(tmp_path: Path, suffix: str) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    mine, foreign = tmp_path / f"mine.{suffix}", tmp_path / f"foreign.{suffix}"
    drawn(plt.figure(), mine)
    plt.figure().savefig(foreign)
    plt.close("all")
    writable(mine)
    with pytest.raises(RenderError, match="not overwritten"):
        writable(foreign)


def test_the_report_of_a_network_is_replaced(tmp_path: Path) -> None:
    verdict = NetworkVerdict("Type-I", "RND100", None, "equal", [], "Type-I", "torch-cpu")
    for name, write in (("v.json", verdict.save), ("v.html", lambda path: network_page.write(verdict, path))):
        write(tmp_path / name)
        writable(tmp_path / name)
