"""JUnit: what fails, what is an error, and text that XML can hold."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

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


def test_junit(reports: list[str]) -> None:
    suite = ET.fromstring(report(*reports, "--format", "junit"))
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("3", "1", "1")
    kinds = [[child.tag for child in case] for case in suite]
    assert kinds == [["system-out"], ["failure"], ["error"]]
    assert suite[1][0].attrib["type"] == "RND201"
    assert "TYPE-II" in (suite[1][0].text or "")


def test_text_that_xml_cannot_hold() -> None:
    from render.report import junit

    ET.fromstring(junit.dumps([junit.of_verdict(type_ii(message="bell \x07 and <tag> & more"))]))
