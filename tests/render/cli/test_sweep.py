"""The command of a sweep: rows, exit code, what is kept, what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli import app, warm
from tests.render.lab.test_units import written

runner = CliRunner()


@pytest.mark.slow
def test_a_sweep_is_told_kept_and_resumed(tmp_path):
    (tmp_path / "right").mkdir()
    (tmp_path / "wrong").mkdir()
    written(tmp_path / "right")
    written(tmp_path / "wrong", "3.0")
    files = {"--store": "s.sqlite", "--json": "s.json", "--html": "s.html"}
    written_to = [word for option, name in files.items() for word in (option, str(tmp_path / name))]
    varied = ["--device", "any,sm_90", "--input", "x=randn({n})", "--vary", "n=8,40"]
    line = ["sweep", str(tmp_path), *varied, *written_to, "-j", "2"]
    first = runner.invoke(app, line)
    assert first.exit_code == 1, first.output
    told = json.loads((tmp_path / "s.json").read_text())
    assert sorted(row["exit_code"] for unit in told["units"] for row in unit["rows"]) == [0] * 4 + [1] * 4
    assert {tuple(unit["unit"]["specs"]) for unit in told["units"]} == {("x=randn(8)",), ("x=randn(40)",)}
    assert "8 units, 8 results: 4 Type-I, 4 Type-II" in first.output and "(kept)" not in first.output
    again = runner.invoke(app, line)
    assert again.exit_code == 1 and again.output.count("(kept)") == 8
    assert "data:image/png" in (tmp_path / "s.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "nothing to sweep"),
        (["FILE", "--seeds", "x"], "--seeds"),
        (["FILE", "--vary", "n"], "--vary"),
        (["FILE", "--input", "x=randn({n})", "--vary", "m=1"], "no value for"),
        (["FILE", "--given", "output=x"], "--given"),
        (["FILE", "--device", "nothing_like_it"], "error"),
        (["FILE", "--programs", "150%"], "no part of the programs"),
        (["--corpus", "issues", "--small", "--programs", "1%"], "kernel files alone"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, options: list[str], words: str) -> None:
    file = str(written(tmp_path))
    line = [
        "sweep",
        *(file if word == "FILE" else word for word in options),
        "--store",
        str(tmp_path / "s.sqlite"),
        "-q",
    ]
    run = runner.invoke(app, [*line, "-j", "1"])
    assert run.exit_code == 2 and words in run.output


def test_a_part_of_the_programs_is_a_unit_of_its_own(tmp_path):
    file, store = str(written(tmp_path, "3.0")), str(tmp_path / "s.sqlite")
    told = []
    for part in ("all", "1"):
        line = ["sweep", file, "--programs", part, "--store", store, "--json", str(tmp_path / "s.json"), "-j", "1"]
        run = runner.invoke(app, line)
        assert run.exit_code == 1 and "(kept)" not in run.output, run.output
        told.append(json.loads((tmp_path / "s.json").read_text())["units"][0]["unit"]["programs"])
    assert told == ["all", "1"]


@pytest.mark.slow
def test_kernels_are_compiled_ahead(monkeypatch, tmp_path):
    monkeypatch.setattr(warm, "KERNELS", ("vector_add", "gelu"))
    run = runner.invoke(app, ["doctor", "--warm", "-j", "2"])
    assert run.exit_code == 0 and "compiling what common kernels need into" in run.output
