"""The lines of source that a verdict keeps: those it points to and those around lines with a width."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from render.judgement.quotes import quoted
from render.result.records import LineWidth
from render.result.verdict import Verdict

PLAIN = Verdict("Type-I", "RND101", "", "Type-I", "round-off")


def test_the_line_and_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("".join(f"line {n}  \n" for n in range(1, 31)))
    found = quoted(replace(PLAIN, file=str(file), line=9)).source
    assert [(x.line, x.text) for x in found] == [(8, "line 8"), (9, "line 9")]
    first = quoted(replace(PLAIN, file=str(file), line=1)).source
    assert [x.line for x in first] == [1]


def test_lines_around_a_width_once_each(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("".join(f"line {n}\n" for n in range(1, 31)))
    widths = tuple(LineWidth(str(file), n, "fadd", 1e-8, 0.0, 1) for n in (2, 4, 20, 30))
    found = quoted(replace(PLAIN, lines=widths)).source
    assert [x.line for x in found] == [1, 2, 3, 4, 5, 6, 18, 19, 20, 21, 22, 28, 29, 30]


def test_what_cannot_be_read_is_left_out() -> None:
    assert quoted(replace(PLAIN, file="/nowhere/k.py", line=3)).source == ()
    assert quoted(PLAIN).source == ()
