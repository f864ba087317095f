"""The blocks of a report as Markdown, to paste into an issue: figures first, details folded up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from render.report.blocks import Block, Closing, Headline, Listing, Quote, Table
from render.report.compose import compose

if TYPE_CHECKING:
    from render.result.verdict import Verdict

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def page(verdict: Verdict) -> str:
    """The whole report."""
    blocks = compose(verdict)
    shown = [line for block in blocks[:-1] if not _detail(block) for line in _block(block)]
    details = [line for block in blocks if _detail(block) for line in _block(block)]
    folded = ["<details><summary>details</summary>", "", *details, "</details>", ""] if details else []
    return "\n".join([*shown, *folded, *_block(blocks[-1])]).rstrip() + "\n"


def unescaped(text: str) -> str:
    """The text that a reader sees where `page` wrote markup around it."""
    return re.sub(r"\\(.)", r"\1", text)


def _detail(block: Block) -> bool:
    return isinstance(block, Table) and block.detail


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Headline):
        yield from (f"### {block.label.upper()} {_text(block.message)} ({block.code})", "")
        yield from [_text(block.title), ""] if block.title else []
    elif isinstance(block, Table):
        yield from _rows(block)
    elif isinstance(block, Quote):
        yield from _quote(block)
    elif isinstance(block, Listing):
        yield from _fenced(block.lines)
    elif isinstance(block, Closing):
        yield f"{_text(block.summary)}, exit {block.exit_code}. {_text(block.versions)}"


def _rows(block: Table) -> Iterator[str]:
    if block.title:
        yield from (f"**{_text(block.title)}**", "")
    if block.kind == "header":
        yield _text(block.rows[0][0])
    elif all(len(row) == 1 for row in block.rows):
        yield from (f"- {_text(line)}" for (line,) in block.rows)
    else:
        columns = len(block.rows[0])
        yield from ("|" + " |" * columns, "|" + "---|" * columns)
        yield from ("| " + " | ".join(_text(cell) for cell in row) + " |" for row in block.rows)
    yield from ["", _text(block.note)] if block.note else []
    yield ""


def _quote(block: Quote) -> Iterator[str]:
    yield from (f"**{_text(block.place)}**", "")
    if block.lines:
        gutter = len(str(block.lines[-1][0]))
        carets = f"{'':>{gutter}} | {' ' * block.start}{'^' * max(1, block.end - block.start)} {block.note}"
        yield from _fenced([*(f"{n:>{gutter}} | {source}" for n, source in block.lines), carets])


def _fenced(lines: tuple[str, ...] | list[str]) -> Iterator[str]:
    yield from ("```text", *(line.rstrip() for line in lines), "```", "")


def _text(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
