"""Annotations: a workflow command as GitHub documents it, only there, and only for what is no round-off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from render.report.github import annotate, annotation
from tests.render.report.verdicts import source_file, type_i, type_ii


def test_a_bug_is_an_error_at_its_line(tmp_path: Path) -> None:
    bug = replace(type_ii(source_file(tmp_path)), file="a,b:c.py", line=7, message="50 % wrong\nhere")
    assert annotation(bug) == f"::error file=a%2Cb%3Ac.py,line=7,title=Type-II {bug.code}::50 %25 wrong%0Ahere"
    assert annotation(type_i(source_file(tmp_path))) is None and annotation(replace(bug, file=None)) is None


def test_only_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    bug = type_ii(source_file(tmp_path))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    annotate(bug)
    assert not capsys.readouterr().err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    annotate(bug)
    assert capsys.readouterr().err.startswith("::error file=")
