"""`render suite` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli.app import app

WRONG = """
import torch
from render.lab.suite.case import pair
from scaling_library import scale

def cases():
    yield from pair("right", scale, lambda x: 3 * x, lambda: (torch.randn(70),))
    yield from pair("wrong", scale, lambda x: 2 * x, lambda: (torch.randn(70),))
"""


@pytest.fixture
def suite(library: Path) -> Path:
    (library / "table.py").write_text(WRONG)
    return library


def test_the_table_and_its_files(suite: Path, tmp_path: Path) -> None:
    json_file, junit_file = tmp_path / "t.json", tmp_path / "t.xml"
    done = CliRunner().invoke(app, ["suite", str(suite), "--json", str(json_file), "--junit", str(junit_file)])
    assert done.exit_code == 1 and "1 Type-I, 1 Type-II" in done.output
    assert [row["label"] for row in json.loads(json_file.read_text())["rows"]] == ["Type-I", "Type-II"]
    assert junit_file.read_text().count("<testcase") == 2


def test_accepted_findings_exit_with_zero(suite: Path, tmp_path: Path) -> None:
    accept = tmp_path / "accept.toml"
    accept.write_text("[[accept]]\ncode='RND201'\nreason='the factor is documented'\n")
    done = CliRunner().invoke(app, ["suite", str(suite), "--accept", str(accept), "-q"])
    assert done.exit_code == 0 and "the factor is documented" in done.output and "right" not in done.output


def test_json_alone_on_stdout(suite: Path) -> None:
    done = CliRunner().invoke(app, ["suite", str(suite), "-k", "right", "--json", "-"])
    assert done.exit_code == 0 and [row["label"] for row in json.loads(done.stdout)["rows"]] == ["Type-I"]


@pytest.mark.parametrize("arguments", [["nowhere"], [".", "-k", "no such test"]])
def test_nothing_to_judge_is_an_error(suite: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(suite)
    assert CliRunner().invoke(app, ["suite", *arguments]).exit_code == 2
