"""`render report`: a saved verdict in other formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli import app
from render.report import html, markdown
from render.result.verdict import Verdict
from tests.render.report.verdicts import inconclusive, source_file, type_i, type_ii

runner = CliRunner()


@pytest.fixture
def reports(tmp_path: Path) -> list[str]:
    made = (type_i(source_file(tmp_path)), type_ii(source_file(tmp_path)), inconclusive())
    for i, verdict in enumerate(made):
        verdict.save(tmp_path / f"{i}.json")
    return [str(tmp_path / f"{i}.json") for i in range(len(made))]


def report(*arguments: str) -> str:
    result = runner.invoke(app, ["report", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_formats_are_those_of_the_verdict(reports: list[str], tmp_path: Path) -> None:
    live: Verdict = type_i(source_file(tmp_path))
    assert report(reports[0], "--format", "json") == live.to_json()
    assert report(reports[0], "--format", "html") == html.page(live)
    assert report(reports[0], "--format", "md") == markdown.page(live)
    assert "TYPE-I  round-off" in report(reports[0])
    report(reports[0], "--format", "html", "-o", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text() == html.page(live)


def test_markdown_holds_one_verdict(reports: list[str]) -> None:
    result = runner.invoke(app, ["report", *reports, "--format", "md"])
    assert result.exit_code == 2
    assert "takes one verdict" in result.stderr


def test_several_verdicts_by_the_suffix_of_the_file(reports: list[str], tmp_path: Path) -> None:
    report(*reports, "-o", str(tmp_path / "all.html"))
    assert (tmp_path / "all.html").read_text().count("<section>") == 3
    assert "Type-II RND201" in report(*reports)


def test_no_such_report(tmp_path: Path) -> None:
    result = runner.invoke(app, ["report", str(tmp_path / "none.json")])
    assert result.exit_code == 2
    assert "RND901" in result.stderr
