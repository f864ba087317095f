"""Code frames: carets stand under the expression that is meant."""

from __future__ import annotations

import pytest

from render.report.frame import frame
from render.result.records import SourceLine


def _frame(source: str, line: int, *columns: int) -> tuple[str, list[str]]:
    found = frame([SourceLine("k.py", n, x) for n, x in enumerate(source.splitlines(), 1)], "k.py", line, *columns)
    assert found is not None
    text = dict(found.lines)[line]
    return text[found.start : found.end], [shown for _, shown in found.lines]


@pytest.mark.parametrize(
    ("line", "columns", "meant"),
    [
        ("    o = tl.dot(x, y)  # product", (9, 21), "tl.dot(x, y)"),
        ("    o = tl.dot(x, y)  # product", (), "o = tl.dot(x, y)"),
        ("    o = tl.dot(x, y)  # product", (0, 0), "o = tl.dot(x, y)"),
        ("    o = tl.dot(x, y)", (9,), "o = tl.dot(x, y)"),
        ("    o = tl.dot(x, y)", (16, 17), "x"),
        ("    o = tl.dot(x, y)", (9, 999), "tl.dot(x, y)"),
        ("    o = tl.dot(x, y)", (999, 1001), "o = tl.dot(x, y)"),
    ],
)
def test_span(line: str, columns: tuple[int, ...], meant: str) -> None:
    found, lines = _frame(f"def f():\n{line}\n", 2, *columns)
    assert found == meant
    assert lines[0] == "def f():"


def test_tabs_are_expanded() -> None:
    assert _frame("def f():\n\to = g(x)\n", 2, 6, 10)[0] == "g(x)"


def test_no_frame_without_the_line() -> None:
    known = [SourceLine("k.py", 1, "x = 1"), SourceLine("k.py", 2, "   ")]
    places = (("k.py", 0), ("k.py", 2), ("k.py", 9), ("other.py", 1))
    assert all(frame(known, file, line) is None for file, line in places)
