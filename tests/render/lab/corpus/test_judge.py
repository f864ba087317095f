"""Whole cases that are small at their published size: file, inputs, device output and reference through the judge."""

from __future__ import annotations

import pytest

from render.lab.corpus.case import find_case
from render.lab.corpus.judge import judge

ISSUES = "5895 4551 2843 1578 1960 3017 4701"
TWINS = "4551-rna 2843-ieee 2843-ieee-ignored 1960-half 1960-off-by-one 3017-exclusive 4701-masked"


@pytest.mark.parametrize("name", [*ISSUES.split(), *TWINS.split()])
def test_expected_verdict(name: str):
    case = find_case(name)
    expected = case.facts.expected
    verdict = judge(case)
    assert (verdict.label, verdict.paper_rule) == (expected.label, expected.paper_rule)
    assert verdict.code in expected.codes
    outside = [o.outside_device for o in verdict.outputs]
    if expected.device in ("inside", "outside"):
        assert any(outside) == (expected.device == "outside")


@pytest.mark.parametrize("name", ["5895", "3017", "4701", "2843-ieee-ignored"])
def test_expected_verdict_without_a_device_output(name: str):
    expected = find_case(name).facts.expected
    verdict = judge(find_case(name), device_output=False)
    assert verdict.label == expected.source_level and verdict.code in expected.source_codes
