"""Verdicts as JUnit XML: a test case each; a Type-II fails, an Inconclusive is an error, the report is its text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from render.report.terminal import full
from render.result.places import relative

if TYPE_CHECKING:
    from render.result.verdict import Verdict

_KINDS = {"Type-II": "failure", "Inconclusive": "error"}
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that XML has no way to write."""


@dataclass(frozen=True)
class TestCase:
    """One case. `kind`: "failure", "error", "skipped", or "" for one that passes; `type` and `message` say why."""

    __test__ = False  # no test of pytest's

    file: str
    name: str
    seconds: float
    kind: str = ""
    type: str = ""
    message: str = ""
    text: str = ""


def of_verdict(verdict: Verdict) -> TestCase:
    text = "\n".join(line.plain for line in full(verdict, 100, verbose=True))
    file = relative(verdict.file) if verdict.file else "render"
    name, seconds = ", ".join(verdict.kernels) or "no kernel", verdict.timing.get("total_s") or 0.0
    return TestCase(file, name, seconds, _KINDS.get(verdict.label, ""), verdict.code, verdict.message, text)


def dumps(cases: Iterable[TestCase]) -> str:
    """One suite with all cases."""
    cases = list(cases)
    kinds = Counter(case.kind for case in cases)
    suite = ET.Element("testsuite", {"name": "render", "tests": str(len(cases))})
    for name, kind in _COUNTED.items():
        suite.set(name, str(kinds[kind]))
    suite.set("time", f"{sum(case.seconds for case in cases):.3f}")
    for case in cases:
        _written(suite, case)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _written(suite: ET.Element, case: TestCase) -> None:
    attributes = {"classname": case.file, "name": case.name, "time": f"{case.seconds:.3f}"}
    element = ET.SubElement(suite, "testcase", {name: _clean(value) for name, value in attributes.items()})
    if case.kind:
        ET.SubElement(element, case.kind, message=_clean(case.message), type=case.type).text = _clean(case.text)
    elif case.text:
        ET.SubElement(element, "system-out").text = _clean(case.text)


def _clean(text: str) -> str:
    return _CONTROL.sub("?", text)
