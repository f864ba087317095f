"""Code frames: the user's line with a caret under the expression that matters."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """Lines of the user's file around `line`; columns `start` to `end` (from 0) of that line are underlined."""

    line: int
    lines: tuple[tuple[int, str], ...]
    start: int
    end: int


def code_frame(
    file: str | None, line: int | None, column: int | None = None, end_column: int | None = None, before: int = 1
) -> Frame | None:
    """The frame of file:line, or None where the source cannot be read. Columns count from 1, `end_column` is past the
    last character; without them the whole statement is underlined.
    """
    if not file or not line or line < 1:
        return None
    text = linecache.getline(file, line)
    if not text.strip():
        return None
    text = text.rstrip()
    shown = [(n, linecache.getline(file, n).rstrip()) for n in range(max(1, line - before), line)]
    start, end = _span(file, line, text, column, end_column)
    return Frame(line, (*((n, t.expandtabs(8)) for n, t in shown), (line, text.expandtabs(8))), start, end)


def _span(file: str, line: int, text: str, column: int | None, end_column: int | None) -> tuple[int, int]:
    """Columns to underline: as given, else the longest expression that starts at `column`, else the statement."""
    first = len(text) - len(text.lstrip())
    code = text.split("  #")[0].rstrip() or text
    if not column or column > len(text):
        return _expanded(text, first), _expanded(text, len(code))
    start = column - 1
    if end_column and end_column > column:
        return _expanded(text, start), _expanded(text, min(end_column - 1, len(text)))
    ends = [
        len(text) if node.end_lineno != line else _characters(text, node.end_col_offset)
        for node in _nodes(file)
        if node.lineno == line and _characters(text, node.col_offset) == start
    ]
    end = max(ends, default=min(len(code), start + 1))
    return _expanded(text, start), _expanded(text, max(min(end, len(code)), start + 1))


def _nodes(file: str) -> list[ast.expr]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.expr)]


def _characters(text: str, offset: int | None) -> int:
    """ast counts UTF-8 bytes, a terminal counts characters."""
    return len(text.encode()[: offset or 0].decode(errors="ignore"))


def _expanded(text: str, column: int) -> int:
    return len(text[:column].expandtabs(8))
