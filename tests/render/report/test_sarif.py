"""SARIF: rules, levels, places and fingerprints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from render.cli import app
from render.report import sarif
from render.result import codes
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
    def mark(text: str, line: int) -> str:
        file = tmp_path / f"{line}.py"
        file.write_text("\n" * (line - 1) + text)
        result = json.loads(sarif.dumps([type_i(str(file), line=line)]))["runs"][0]["results"][0]
        return next(iter(result["partialFingerprints"].values()))

    assert mark("x = 1", 3) == mark("x = 1", 5) != mark("x = 2", 4)


SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0.json").read_text(encoding="utf-8"))
REFERENCE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?([A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-F]{2})*")
"""RFC 3986, appendix A: the characters of a URI reference."""


def checked(*verdicts: Verdict) -> list[dict[str, Any]]:
    """The results of a log that the official schema takes."""
    log = json.loads(sarif.dumps(verdicts))
    jsonschema.validate(log, SCHEMA)
    (run,) = log["runs"]
    for place in (place for result in run["results"] for place in result.get("locations", ())):
        if "physicalLocation" in place:
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert REFERENCE.fullmatch(uri) and not uri.startswith("/"), uri
    return run["results"]


def uri(result: dict[str, Any]) -> str:
    (place,) = result["locations"]
    return place["physicalLocation"]["artifactLocation"]["uri"]


def test_the_schema_refuses_what_is_no_log() -> None:
    log = json.loads(sarif.dumps([type_ii()]))
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SCHEMA)


def test_every_code_and_finding_and_none_at_all(tmp_path: Path) -> None:
    file = source_file(tmp_path)
    rows = [(code, row.label) for code, row in codes.CODES.items() if row.label]
    assert len(checked(*(type_i(file, code=code, label=label) for code, label in rows))) == len(rows) >= 40
    assert len(checked(type_i(file), type_ii(file), inconclusive())) == 4  # a finding of its own
    assert checked() == []


def test_paths_are_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    below = tmp_path / "my dir #1" / "kernel \u00fc % [x]?.py"
    below.parent.mkdir()
    below.write_text("x = 1\n")
    assert uri(checked(type_i(str(below)))[0]) == "my%20dir%20%231/kernel%20%C3%BC%20%25%20%5Bx%5D%3F.py"
    assert uri(checked(type_i("/elsewhere/a b.py"))[0]) == "file:///elsewhere/a%20b.py"
    assert uri(checked(type_i(str(tmp_path / "a:b.py")))[0]) == "a%3Ab.py"  # no scheme of its own


@pytest.mark.parametrize("file", ["nb.ipynb#cell3", "<ipython-input-3-0123>", "<string>"])
def test_what_is_no_file_has_a_name(file: str) -> None:
    for result in checked(type_ii(file)):
        assert result["locations"][0].keys() == {"logicalLocations"}
