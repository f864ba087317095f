"""`render explain`: a code, or a verdict told again from its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli import app
from render.report.saved import load

runner = CliRunner()

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(X, Y, Z, N: tl.constexpr):
    i = tl.arange(0, N)
    offs = i[:, None] * N + i[None, :]
    x = tl.load(X + offs)
    y = tl.load(Y + offs)
    z = tl.dot(x, y)
    tl.store(Z + offs, z)


def mm(a, b):
    out = torch.empty_like(a)
    kernel[(1,)](a, b, out, N=32)
    return out


def make_inputs():
    return dict(a=torch.randn(32, 32), b=torch.randn(32, 32))


def reference(a, b):
    return torch.mm(a, b)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "k.py"
    path.write_text(SOURCE)
    return path


def explain(*arguments: str):
    return runner.invoke(app, ["explain", *arguments])


def test_everything_that_was_asked_is_told_again(file: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    options = ["-v", "--counterfactuals", "--power", "--lines", "--json", str(report)]
    done = runner.invoke(app, ["classify", str(file), *options])
    assert done.exit_code == 0, done.output
    assert "what would change it (re-run)" in done.stdout
    assert "  power       1.00: " in done.stdout
    told = explain(str(report)).stdout
    assert told == explain("last").stdout
    assert "where the bound comes from" in told
    assert "inputs rounded to TF32" in told
    assert set(done.stdout.splitlines()) <= set(told.splitlines())
    assert 'with input_precision="ieee"' in told
    assert "smallest fault noticed in out" in told
    (dot,) = (line for line in told.splitlines() if "z = tl.dot(x, y)" in line and "new" in line)
    assert "12 |" in dot
    assert "new" in dot
    (load,) = (line for line in told.splitlines() if "x = tl.load(X + offs)" in line)
    assert "exact" in load
    assert "more with" not in told


def test_what_was_not_asked_is_offered(file: Path) -> None:
    assert runner.invoke(app, ["classify", str(file)]).exit_code == 0
    assert "more with   render classify ... --counterfactuals --power --lines" in explain("last").stdout


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_no_report(file: Path, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    for name in [str(path), *(["last"] if text is None else [])]:
        result = explain(name)
        assert result.exit_code == 2
        assert "RND901" in result.stderr


def test_a_report_of_a_bug(file: Path, tmp_path: Path) -> None:
    file.write_text(SOURCE.replace("tl.dot(x, y)", "x / (y - y)"))
    report = tmp_path / "r.json"
    runner.invoke(app, ["classify", str(file), "--json", str(report)])
    assert json.loads(report.read_text())["verdict"]["code"] == "RND204"
    told = explain(str(report)).stdout
    assert "where NaN and inf are made" in told
    assert "fdiv(" in told


def test_what_no_check_needed_is_found_out_when_it_is_asked_for(file: Path) -> None:
    plain = runner.invoke(app, ["classify", str(file)])
    assert plain.exit_code == 0 and "a run without it" not in plain.stdout
    assert load("last").stage == "checked"
    told = explain("last")
    assert "confirmed by a run without it" in told.stdout
    assert load("last").stage == "explained"
    assert explain("last").stdout == told.stdout


def test_a_file_that_has_changed_since_is_not_explained_by_what_it_is_now(file: Path) -> None:
    runner.invoke(app, ["classify", str(file)])
    file.write_text(file.read_text() + "\n# another one\n")
    told = explain("last")
    assert told.exit_code == 0 and "not what was judged any more" in told.stderr
    assert "a run without it" not in told.stdout and load("last").stage == "checked"
