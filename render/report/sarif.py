"""Verdicts as SARIF 2.1.0 (the part that code hosts read): one result per verdict and per memory finding.

Rules come from the table of codes. A Type-II is an error, an Inconclusive a warning, a Type-I a note. The fingerprint
is that of kernel, code and the text of the line, so that it survives lines that move.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from render.report.markdown import page
from render.result import codes
from render.result.places import cell, relative
from render.result.versions import VERSION

if TYPE_CHECKING:
    from render.result.verdict import Verdict

_LEVELS = {"Type-II": "error", "Inconclusive": "warning", "Type-I": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def dumps(verdicts: Sequence[Verdict]) -> str:
    """One run with all verdicts."""
    results = [result for verdict in verdicts for result in _results(verdict)]
    used = sorted({result["ruleId"] for result in results})
    driver = {"name": "RENDER", "version": VERSION, "rules": [_rule(code) for code in used]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    row = codes.CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": row.title},
        "fullDescription": {"text": row.prose},
        "help": {"text": "\n".join([*row.steps, row.more]).strip()},
        "defaultConfiguration": {"level": _LEVELS[row.label or "Type-II"]},
    }


def _results(verdict: Verdict) -> Iterator[dict[str, Any]]:
    named = f"{', '.join(verdict.kernels)}: " if verdict.kernels else ""
    text = {"text": f"{named}{verdict.label}: {verdict.message}", "markdown": page(verdict)}
    columns = (verdict.column, verdict.end_column)
    yield _result(verdict, verdict.code, _LEVELS[verdict.label], text, verdict.file, verdict.line, columns)
    for finding in verdict.findings:
        if (finding.code, finding.file, finding.line) != (verdict.code, verdict.file, verdict.line):
            yield _result(verdict, finding.code, "error", {"text": finding.message}, finding.file, finding.line)


def _result(
    verdict: Verdict, code: str, level: str, message: dict[str, str], file: str | None, line: int,
    columns: tuple[int, int] = (0, 0),
) -> dict[str, Any]:  # fmt: skip
    text = next((x.text.strip() for x in verdict.source if (x.file, x.line) == (file, line)), str(line))
    mark = hashlib.sha256("\n".join([code, *verdict.kernels, text]).encode()).hexdigest()[:32]
    found: dict[str, Any] = {"ruleId": code, "level": level, "message": message,
                             "partialFingerprints": {"kernelAndLine/v1": mark}}  # fmt: skip
    if file:
        found["locations"] = [_location(file, line, columns)]
    return found


def _location(file: str, line: int, columns: tuple[int, int]) -> dict[str, Any]:
    """Of a file, its address and region; of what lies in none, as a cell or text that was executed, its name: its lines
    are none of a file."""
    name = relative(file)
    if cell(file) or file.startswith("<"):
        return {"logicalLocations": [{"fullyQualifiedName": f"{name}:{line}"}]}
    place: dict[str, Any] = {"artifactLocation": {"uri": _address(name)}}
    if line:
        place["region"] = {"startLine": line}
        place["region"] |= {"startColumn": columns[0], "endColumn": columns[1]} if columns[0] else {}
    return {"physicalLocation": place}


def _address(path: str) -> str:
    """As RFC 3986 writes it: spaces, signs and letters beyond ASCII by their bytes."""
    return Path(path).as_uri() if Path(path).is_absolute() else quote(Path(path).as_posix())
