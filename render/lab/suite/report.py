"""A suite's rows for people, as JSON and as JUnit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from render.lab.suite.accept import Accepted
from render.lab.suite.rows import ERROR, SKIPPED, Row, counts, exit_code
from render.report import junit as junit_cases
from render.report.junit import TestCase

SCHEMA = 1
_ORDER = ("Type-I", "Type-II", "Inconclusive", ERROR, "accepted", SKIPPED)


def line(row: Row) -> str:
    """One row of the table; what is no Type-I says why below."""
    label = "accepted" if row.accepted else row.label
    first = f"{label:<12}  {row.code:<7}  {row.seconds:6.2f} s  {row.test}"
    more = f"  [{row.kernel}]" if row.kernel else ""
    where = f"  {row.place}" if row.place else ""
    why = row.accepted or (row.message if row.label != "Type-I" else "")
    return f"{first}{more}{where}" + (f"\n{'':14}{why}" if why else "")


def summary(rows: Sequence[Row], unused: Sequence[Accepted] = ()) -> list[str]:
    """How many rows of each kind, the time, and accepted findings that are no longer found."""
    known = counts(rows)
    parts = [f"{known[name]} {name}" for name in _ORDER if name in known]
    seconds = sum(row.seconds for row in rows)
    lines = [f"{len(rows)} tests: {', '.join(parts) or 'nothing'}  {seconds:.1f} s"]
    for entry in unused:
        place = f" at {entry.place}" if entry.place else ""
        lines.append(f"note: no test gives {entry.code}{place} any more; its entry under --accept can go")
    return lines


def dumps(rows: Sequence[Row]) -> str:
    content = {"schema": SCHEMA, "summary": counts(rows), "exit_code": exit_code(rows),
               "rows": [row.to_dict() for row in rows]}  # fmt: skip
    return json.dumps(content, indent=2) + "\n"


def junit(rows: Sequence[Row]) -> str:
    """JUnit XML: Type-II and errors fail, Inconclusive is an error of its own kind, accepted and Type-I pass."""
    return junit_cases.dumps(_case(row) for row in rows)


def _case(row: Row) -> TestCase:
    file, _, name = row.test.partition("::")
    kind = _junit_kind(row)
    text = row.place if kind else f"{row.label} {row.code} {row.accepted}".strip() if row.code else ""
    return TestCase(file, name or file, row.seconds, kind, row.code or row.label, row.message, text)


def _junit_kind(row: Row) -> str:
    if row.label == SKIPPED:
        return "skipped"
    if row.exit_code == 0:
        return ""
    return "failure" if row.label == "Type-II" else "error"


def write(text: str, path: Path | str) -> None:
    Path(path).write_text(text, encoding="utf-8")
