"""Twins: every program parses, and the wrong one differs from the right one in one place outside the reference."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from twins import CLASSES, Row, changed_line, page, written


@pytest.mark.parametrize("name", CLASSES)
def test_twins_differ_in_one_place(name):
    twins = CLASSES[name][1]
    assert len(twins) >= 10 and len({t.name for t in twins}) == len(twins)
    for twin in twins:
        right, wrong = written(twin, False), written(twin, True)
        ast.parse(right), ast.parse(wrong)
        assert right != wrong and right[right.index("def reference") :] == wrong[wrong.index("def reference") :]
        lines = [i for i, pair in enumerate(zip(right.splitlines(), wrong.splitlines(), strict=True), 1)
                 if len(set(pair)) > 1]  # fmt: skip
        assert lines == [changed_line(twin)]


def test_the_page_tells_what_came_out_otherwise():
    rows = [
        Row("a", "Type-I", "Type-II", ("RND100", "RND201"), True),
        Row("b", "Type-I", "Type-I", ("RND100", "RND105"), False),
    ]
    text = page({"some": rows})
    assert (
        "|  | some | 2 | 2 | 0 | 0 | 1 | 1 | 0 | 1 | 1 |" in text
        and "- some, b: right Type-I (RND100), wrong Type-I" in text
    )
