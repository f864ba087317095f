"""The lines of source that a verdict points to, kept in it: a report shows them as they were when it was judged."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import replace

from render.result.records import AROUND, SourceLine
from render.result.verdict import Verdict


def quoted(verdict: Verdict) -> Verdict:
    """The verdict with its lines of source, as far as they can be read."""
    lines = sorted({place for place in _wanted(verdict) if place[1] > 0})
    texts = ((file, n, linecache.getline(file, n).rstrip()) for file, n in lines)
    return replace(verdict, source=tuple(SourceLine(file, n, text) for file, n, text in texts if text))


def _wanted(verdict: Verdict) -> Iterator[tuple[str, int]]:
    """The line to look at and the one before it; lines with a width, and those around."""
    if verdict.file and verdict.line:
        yield from ((verdict.file, n) for n in (verdict.line - 1, verdict.line))
    for width in verdict.lines:
        yield from ((width.file, n) for n in range(width.line - AROUND, width.line + AROUND + 1))
