"""Code frames: the user's line with a caret under the expression that matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from render.result.records import SourceLine


class Frame(NamedTuple):
    """Lines of the user's file up to the one that is meant; columns `start` to `end` (from 0) of it are underlined."""

    lines: tuple[tuple[int, str], ...]
    start: int
    end: int


def frame(
    source: Sequence[SourceLine], file: str, line: int, column: int = 0, end_column: int = 0, before: int = 1
) -> Frame | None:
    """The frame of file:line, or None where `source` lacks it. Columns count from 1, `end_column` is past the last
    character; without them the whole statement is underlined.
    """
    known = {x.line: x.text for x in source if x.file == file}
    text = known.get(line, "").rstrip()
    if not text:
        return None
    start, end = _span(text, column, end_column)
    shown = [(n, known[n].rstrip()) for n in range(line - before, line) if n in known]
    lines = tuple((n, t.expandtabs(8)) for n, t in [*shown, (line, text)])
    return Frame(lines, len(text[:start].expandtabs(8)), len(text[:end].expandtabs(8)))


def _span(text: str, column: int, end_column: int) -> tuple[int, int]:
    """Columns to underline, from 0: as given, else the statement without its comment."""
    if 0 < column <= len(text) and end_column > column:
        return column - 1, min(end_column - 1, len(text))
    code = text.split("  #")[0].rstrip() or text
    return len(text) - len(text.lstrip()), len(code)
