"""The blocks of a report as HTML: `fragment` for a notebook cell, `page` for a file of its own.

Everything is inline: no script, no font, no network. The fragment styles itself by attributes (code hosts strip
style sheets from notebooks) and takes its colours from the surrounding theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from render.report import svg
from render.report.beside import beside
from render.report.blocks import Block, Closing, Headline, Listing, Picture, Quote, Table
from render.report.colours import coloured
from render.report.compose import compose
from render.result.document import document

if TYPE_CHECKING:
    from render.result.verdict import Verdict

_COLOURS = {"Type-I": "#2e8b57", "Equal": "#2e8b57", "Type-II": svg.OUTSIDE, "Inconclusive": "#b8860b"}
_FAINT = "opacity:0.7"
_CELL = 'style="text-align:left;padding:2px 12px 2px 0;vertical-align:top"'
_NAME = f'{_CELL[:-1]};white-space:nowrap"'
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:90%"

_BESIDE = """body { max-width: 110rem; }
h2 { font-size: 105%; overflow-wrap: anywhere; }
.beside { display: grid; gap: 0 3rem; grid-template-columns: repeat(auto-fit, minmax(min(34rem, 100%), 1fr)); }
.beside section { min-width: 0; }
"""


def page(*verdicts: Verdict, names: Sequence[str] = ()) -> str:
    """A self-contained HTML document; of several verdicts side by side, below a table of what tells them apart."""
    title = ", ".join(f"{v.label} {v.code}" for v in verdicts)
    if len(verdicts) == 1:
        return document(title, fragment(verdicts[0]))
    called = names or [f"verdict {i + 1}" for i in range(len(verdicts))]
    table = "".join(_rows(Table("beside", "side by side", (("", *called), *beside(verdicts)))))
    whole = zip(called, map(fragment, verdicts), strict=True)
    columns = "".join(f"<section><h2>{escape(name)}</h2>{report}</section>" for name, report in whole)
    return document(title, f'{table}<div class="beside">{columns}</div>', _BESIDE)


def write(verdict: Verdict, path: str | Path) -> None:
    Path(path).write_text(page(verdict), encoding="utf-8")


def fragment(verdict: Verdict) -> str:
    """The report as one `div`; details are folded up at its end."""
    blocks = compose(verdict)
    details = [block for block in blocks if isinstance(block, Table) and block.detail]
    parts = [part for block in blocks if block not in details for part in _block(block)]
    if details:
        inner = "".join(part for block in details for part in _block(block))
        parts.insert(-1, f'<details style="margin:0.8em 0"><summary>details</summary>{inner}</details>')
    return f'<div class="render-verdict">{"".join(parts)}</div>'


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Headline):
        yield _headline(block)
    elif isinstance(block, Table):
        yield from _rows(block)
    elif isinstance(block, Picture):
        yield _pictures(block)
    elif isinstance(block, Quote):
        yield _quote(block)
    elif isinstance(block, Listing):
        yield _lines("\n".join(block.lines).rstrip())
    elif isinstance(block, Closing):
        yield f'<p style="{_FAINT}">{_cell(block.summary)}, exit {block.exit_code}. {escape(block.versions)}</p>'


def _headline(block: Headline) -> str:
    colour = _COLOURS.get(block.label, svg.UNKNOWN)
    more = f'<br><span style="{_FAINT}">{escape(block.title)}</span>' if block.title else ""
    return (
        f'<p style="border-left:6px solid {colour};padding:4px 12px;margin:0.6em 0;font-size:115%">'
        f"<b>{escape(block.label.upper())}</b> &nbsp;{escape(block.message)} &nbsp;"
        f'<span style="{_MONO}">{escape(block.code)}</span>{more}</p>'
    )


def _rows(block: Table) -> Iterator[str]:
    if block.kind == "header":
        yield f'<p style="{_FAINT};margin:0">{_cell(block.rows[0][0])}</p>'
        return
    if block.title:
        title = block.title if block.kind == "output" else f"{block.title[0].upper()}{block.title[1:]}"
        yield f'<p style="margin:0.8em 0 0.2em"><b>{_cell(title)}</b></p>'
    if all(len(row) == 1 for row in block.rows):
        items = "".join(f"<li>{escape(line)}</li>" for (line,) in block.rows)
        yield f'<ul style="margin:0">{items}</ul>'
    else:
        cells = [
            [f"<td {_CELL if i else _NAME}>{_cell(cell)}</td>" for i, cell in enumerate(row)] for row in block.rows
        ]
        rows = [f"<tr>{''.join(row)}</tr>" for row in cells]
        yield f'<table style="border-collapse:collapse;border:none">{"".join(rows)}</table>'
    if block.note:
        yield f'<p style="{_FAINT};margin:0.2em 0">{escape(block.note)}</p>'


_CAPTION = (
    "How much of its bound the compared value of each element uses: 0 % is the middle, 100 % the edge, beyond it no "
    "legal execution reaches. The bars count elements"
)
_MAP = "; the map has the largest share in each tile of the output."


def _pictures(block: Picture) -> str:
    drawn = [picture for picture in (svg.histogram(block.usage), svg.heatmap(block.usage)) if picture]
    style = 'style="display:inline-block;vertical-align:top;margin:6px 24px 6px 0"'
    figures = "".join(f"<div {style}>{picture}</div>" for picture in drawn)
    caption = f"{_CAPTION}{_MAP if len(drawn) > 1 else '.'}"
    told = f'<p style="{_FAINT};margin:0.2em 0">{caption}</p>' if drawn else ""
    return f"<div>{figures}{told}</div>"


def _quote(block: Quote) -> str:
    if not block.lines:
        return f'<p style="{_MONO}">{escape(block.place)}</p>'
    gutter = len(str(block.lines[-1][0]))
    lines = [f"{n:>{gutter}} | {source}" for (n, _), source in zip(block.lines, coloured(block.lines), strict=True)]
    carets = "^" * max(1, block.end - block.start)
    lines.append(escape(f"{'':>{gutter}} | {' ' * block.start}{carets} {block.note}".rstrip()))
    return _pre("\n".join(lines), block.place)


def _lines(text: str) -> str:
    return _pre(escape(text))


def _pre(markup: str, head: str = "") -> str:
    """Preformatted markup, below its place."""
    above = f"<b>{escape(head)}</b>\n" if head else ""
    return f'<pre style="{_MONO};margin:0.8em 0;overflow-x:auto">{above}{markup}</pre>'


def _cell(text: str) -> str:
    return escape(text.strip()).replace("  ", " &nbsp;")
