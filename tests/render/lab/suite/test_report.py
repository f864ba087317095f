"""Accepted findings, the table, JSON and JUnit."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from render.lab.suite.accept import apply, load
from render.lab.suite.report import dumps, junit, line, summary
from render.lab.suite.rows import ERROR, SKIPPED, Row, exit_code
from render.result.errors import RenderError

ROWS = [
    Row("a.py::good", "Type-I", "RND102", "k", "lib/k.py", 3, 0.5),
    Row("a.py::bad", "Type-II", "RND201", "k", "/elsewhere/lib/k.py", 7, 1.0, message="computes something else"),
    Row("a.py::unstable", "Type-II", "RND206", "s", "lib/s.py", 4, message="loses digits"),
    Row("a.py::unknown", "Inconclusive", "RND302", message="no rule"),
    Row("a.py::broken", ERROR, "", message="ValueError: no"),
    Row("a.py::other", SKIPPED, message="launches no kernel"),
]


def accept(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "accept.toml"
    path.write_text(text)
    return path


def test_accepted_findings_do_not_fail(tmp_path: Path) -> None:
    entries = load(accept(tmp_path, """
        [[accept]]
        code = "RND201"
        place = "lib/k.py:7"
        reason = "a known difference"
        [[accept]]
        code = "RND206"
        test = "*unstable"
        reason = "asked for"
        [[accept]]
        code = "RND201"
        place = "other.py"
        reason = "long gone"
    """))  # fmt: skip
    rows, unused = apply(ROWS, entries)
    assert [row.accepted for row in rows] == ["", "a known difference", "asked for", "", "", ""]
    assert [entry.reason for entry in unused] == ["long gone"]
    assert exit_code(rows) == 2 and exit_code(rows[:3]) == 0 and exit_code(ROWS[:3]) == 1
    assert "can go" in summary(rows, unused)[1]
    assert "a known difference" in line(rows[1]) and "7" in line(rows[1])


@pytest.mark.parametrize(
    "text", ["[[accept]]\ncode = 'RND201'", "[[accept]]\ncode='RND201'\nreason='x'\nline=3", "not toml"]
)
def test_a_wrong_entry_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(RenderError, match=r"accept\.toml"):
        load(accept(tmp_path, text))


def test_another_line_or_code_is_not_accepted(tmp_path: Path) -> None:
    entries = load(accept(tmp_path, "[[accept]]\ncode='RND201'\nplace='lib/k.py:8'\nreason='elsewhere'"))
    assert not any(row.accepted for row in apply(ROWS, entries)[0])


def test_json_holds_every_row() -> None:
    content = json.loads(dumps(ROWS))
    assert content["exit_code"] == 2 and content["summary"]["Type-II"] == 2
    assert [row["test"] for row in content["rows"]] == [row.test for row in ROWS]
    assert content["rows"][1]["exit_code"] == 1


def test_junit_counts_as_the_table_does() -> None:
    suite = ElementTree.fromstring(junit(ROWS))
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6", "failures": "2", "errors": "2", "skipped": "1",
    }  # fmt: skip
    assert suite.find("testcase[@name='bad']/failure").text == "/elsewhere/lib/k.py:7"  # type: ignore[union-attr]
    assert suite.find("testcase[@name='good']/failure") is None
