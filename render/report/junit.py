"""Verdicts as JUnit XML: a test case each; a Type-II fails, an Inconclusive is an error, the report is its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from render.report.terminal import full
from render.report.text import relative

if TYPE_CHECKING:
    from render.result.verdict import Verdict

_KINDS = {"Type-II": "failure", "Inconclusive": "error"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that XML has no way to write."""


def dumps(verdicts: Sequence[Verdict]) -> str:
    """One suite with all verdicts."""
    kinds = [_KINDS.get(verdict.label) for verdict in verdicts]
    numbers = {"tests": len(kinds), "failures": kinds.count("failure"), "errors": kinds.count("error")}
    suite = ET.Element("testsuite", {"name": "render", **{name: str(n) for name, n in numbers.items()}})
    for verdict in verdicts:
        _case(suite, verdict)
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, verdict: Verdict) -> None:
    seconds = verdict.timing.get("total_s") or 0.0
    name = ", ".join(verdict.kernels) or "no kernel"
    where = relative(verdict.file) if verdict.file else "render"
    case = ET.SubElement(suite, "testcase", {"classname": where, "name": name, "time": f"{seconds:.3f}"})
    text = _CONTROL.sub("?", "\n".join(line.plain for line in full(verdict, 100, verbose=True)))
    kind = _KINDS.get(verdict.label)
    if kind is None:
        ET.SubElement(case, "system-out").text = text
    else:
        message = _CONTROL.sub("?", verdict.message)
        ET.SubElement(case, kind, {"type": verdict.code, "message": message}).text = text
