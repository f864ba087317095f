"""Code frames: carets stand under the expression that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.report.frame import code_frame


def _frame(tmp_path: Path, source: str, line: int, *columns: int) -> tuple[str, list[str]]:
    path = tmp_path / "k.py"
    path.write_text(source, encoding="utf-8")
    frame = code_frame(str(path), line, *columns)
    assert frame is not None
    text = dict(frame.lines)[line]
    return text[frame.start : frame.end], [shown for _, shown in frame.lines]


@pytest.mark.parametrize(
    ("line", "columns", "meant"),
    [
        ("    o = tl.dot(x, y)  # product", (9,), "tl.dot(x, y)"),
        ("    o = tl.dot(x, y)  # product", (), "o = tl.dot(x, y)"),
        ("    o = tl.dot(x, y)  # product", (0, 0), "o = tl.dot(x, y)"),
        ("    o = tl.dot(x, y)", (16, 17), "x"),
        ("    o = a + tl.exp(b)", (9,), "a + tl.exp(b)"),
        ("    ö = 'é' + tl.exp(b)", (15,), "tl.exp(b)"),
        ("    o = tl.dot(x, y)", (999,), "o = tl.dot(x, y)"),
    ],
)
def test_span(tmp_path: Path, line: str, columns: tuple[int, ...], meant: str) -> None:
    assert _frame(tmp_path, f"def f():\n{line}\n", 2, *columns)[0] == meant


def test_expression_over_several_lines_ends_with_the_line(tmp_path: Path) -> None:
    span, lines = _frame(tmp_path, "x = f(\n    a + (b *\n         c))\n", 2, 5)
    assert span == "a + (b *"
    assert lines == ["x = f(", "    a + (b *"]


def test_tabs_are_expanded(tmp_path: Path) -> None:
    assert _frame(tmp_path, "def f():\n\to = g(x)\n", 2, 6)[0] == "g(x)"


def test_source_that_does_not_parse_still_has_a_frame(tmp_path: Path) -> None:
    assert _frame(tmp_path, "o = (tl.dot(\n", 1)[0] == "o = (tl.dot("


@pytest.mark.parametrize("line", [0, 99, None])
def test_no_frame(tmp_path: Path, line: int | None) -> None:
    path = tmp_path / "k.py"
    path.write_text("x = 1\n")
    assert code_frame(str(path), line) is None
    assert code_frame("<string>", 1) is None
    assert code_frame(None, 1) is None
