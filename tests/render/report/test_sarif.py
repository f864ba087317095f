"""SARIF: rules, levels, places and fingerprints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli import app
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


def test_sarif(reports: list[str], tmp_path: Path) -> None:
    log = json.loads(report(*reports, "--format", "sarif"))
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    results = run["results"]
    assert log["version"] == "2.1.0" and {r["ruleId"] for r in results} == rules == {
        "RND101",
        "RND201",
        "RND207",
        "RND301",
    }
    assert [r["level"] for r in results] == ["note", "error", "error", "warning"]
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 9, "startColumn": 9, "endColumn": 21}
    assert place["artifactLocation"]["uri"].endswith("tl_dot.py")
    assert "locations" not in results[-1]


def test_fingerprints_follow_the_text_of_the_line(tmp_path: Path) -> None:
    from render.report import sarif

    def mark(text: str, line: int) -> str:
        file = tmp_path / f"{line}.py"
        file.write_text("\n" * (line - 1) + text)
        result = json.loads(sarif.dumps([type_i(str(file), line=line)]))["runs"][0]["results"][0]
        return next(iter(result["partialFingerprints"].values()))

    assert mark("x = 1", 3) == mark("x = 1", 5) != mark("x = 2", 4)
