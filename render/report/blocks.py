"""A report as a sequence of blocks: what every view prints, in this order and in these words.

A view (terminal, web page, notebook, Markdown, ...) decides how a kind of block looks and how many rows it has room
for, never what it says. `detail` marks what a short view leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass

from render.result.usage import Usage


@dataclass(frozen=True)
class Headline:
    """The verdict: label, sentence and code, and the title of the code where the sentence does not say it."""

    label: str
    message: str
    code: str
    title: str


@dataclass(frozen=True)
class Table:
    """A titled list or table. `kind` says what of, `note` stands below it."""

    kind: str
    title: str
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    detail: bool = False


@dataclass(frozen=True)
class Quote:
    """Lines of the user's file, carets under columns `start` to `end` (from 0) of the last; at least the place."""

    place: str
    label: str
    note: str = ""
    lines: tuple[tuple[int, str], ...] = ()
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Listing:
    """Lines that are aligned already."""

    kind: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """How much of its bound an output uses; for views that can draw."""

    output: str
    usage: Usage


@dataclass(frozen=True)
class Closing:
    """The last line: counts of kernels and labels, the exit code, and what ran."""

    summary: str
    exit_code: int
    versions: str


Block = Headline | Table | Quote | Listing | Picture | Closing
