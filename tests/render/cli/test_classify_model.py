"""`render classify-model`: files, names, inputs, exit codes."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from render.cli.app import app

TARGET = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


def make_inputs():
    return (torch.randn(3, 6),)


def reference(x):
    return model(x)


def build():
    torch.manual_seed(0)
    other = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        other[2].bias += 0.01
    return other
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(TARGET)
    (tmp_path / "b.py").write_text(TARGET)
    return tmp_path


def run(*args):
    return CliRunner().invoke(app, ["classify-model", *args])


def test_a_bug_is_named_and_exits_with_1(files):
    found = run("a.py::build", "--ref", "b.py::model", "--json", "out.json", "--html", "out.html")
    assert found.exit_code == 1, found.output
    assert found.output.startswith("  TYPE-II  module 2:")
    assert json.loads((files / "out.json").read_text())["first"] == "2"
    assert (files / "out.html").is_file()


def test_equal_models_exit_with_0(files):
    assert run("a.py::model", "--ref", "b.py::model").exit_code == 0
    assert run("a.py").exit_code == 0  # `model` against `reference` of the same file


def test_inputs_from_a_file(files):
    from safetensors.torch import save_file

    save_file({"x": torch.randn(5, 6)}, str(files / "x.safetensors"))
    assert run("a.py::build", "--ref", "b.py::model", "--inputs", "x.safetensors").exit_code == 1


def test_mistakes_exit_with_2(files):
    assert run("a.py::nothing", "--ref", "b.py").exit_code == 2
    assert run("a.py", "--ref", "b.py", "--inputs", "none.pt").exit_code == 2
    assert run("a.py::build", "--ref", "b.py", "--match", "2").exit_code == 2
    assert run("a.py::build", "--ref", "b.py", "--start", "9").exit_code == 2


def test_a_recorded_run_is_judged_by_the_other_sides_code(files):
    done = CliRunner().invoke(app, ["record", "a.py", "--modules", "--entry", "build", "-o", "run.safetensors"])
    assert done.exit_code == 0, done.output
    found = run("run.safetensors", "--ref", "b.py::model")
    assert found.exit_code == 1 and found.output.startswith("  TYPE-II  module 2:")
    mirrored = run("b.py::model", "--ref", "run.safetensors")
    assert mirrored.exit_code == 1 and mirrored.output.startswith(
        "  TYPE-II  module 2:"
    )  # a record knows its operations
    assert run("run.safetensors").exit_code == 2
