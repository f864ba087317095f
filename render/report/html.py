"""A verdict as HTML: `fragment` for a notebook cell, `page` for a file of its own.

Everything is inline: no script, no font, no network. The fragment styles itself by attributes (code hosts strip
style sheets from notebooks) and takes its colours from the surrounding theme.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from render.report import explained, svg, words
from render.report.frame import code_frame
from render.report.growth import growth
from render.report.text import place
from render.result import codes

if TYPE_CHECKING:
    from render.result.verdict import OutputVerdict, Verdict

_COLOURS = {"Type-I": "#2e8b57", "Type-II": svg.OUTSIDE, "Inconclusive": "#b8860b"}
_FAINT = "opacity:0.7"
_CELL = 'style="text-align:left;padding:2px 12px 2px 0;vertical-align:top"'
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:90%"

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1e; background: #ffffff; }}
@media (prefers-color-scheme: dark) {{ body {{ color: #e6e6e6; background: #16181c; }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(verdict: Verdict) -> str:
    """A self-contained HTML document."""
    return _PAGE.format(title=escape(f"{verdict.label} {verdict.code}"), body=fragment(verdict))


def write(verdict: Verdict, path: str | Path) -> None:
    Path(path).write_text(page(verdict), encoding="utf-8")


def fragment(verdict: Verdict) -> str:
    """The report as one `div`."""
    return f'<div class="render-verdict">{"".join(_parts(verdict))}</div>'


def _parts(verdict: Verdict) -> Iterator[str]:
    yield f'<p style="{_FAINT};margin:0">{_cell(words.header(verdict))}</p>'
    yield _headline(verdict)
    for output in verdict.outputs:
        yield from _output(output, verdict.reference)
    yield _list("Why the outputs differ", tuple(filter(None, [words.differs(verdict)])))
    yield _table("Where the bound comes from", _budget(verdict))
    yield _table("What would change it (re-run)", explained.what_if_rows(verdict.counterfactuals, verdict.label))
    yield _list("Power", tuple(explained.power_rows(verdict.power)) if verdict.power else ())
    yield _growth(verdict)
    yield _table("Memory", ((f.code, words.fact(f), place(f.file, f.line or None)) for f in verdict.findings))
    yield _table("Not bounded", ((t.code, words.fact(t), place(t.file, t.line or None)) for t in verdict.taints))
    yield _frame(verdict)
    yield _list("What to do", verdict.help)
    yield _list("Notes", verdict.notes)
    yield _list("Exact value of the reference", tuple(words.finer(verdict)))
    yield _list("Without any rounding", tuple(words.unrounded(verdict)))
    yield f'<p style="margin:0.4em 0"><b>Paper rule</b> {_cell(words.paper_rule(verdict))}</p>'
    yield _list("Assumptions", verdict.assumptions)
    left, code = words.summary([verdict])
    yield f'<p style="{_FAINT}">{escape(left)}, exit {code}. {_versions(verdict)}</p>'


def _headline(verdict: Verdict) -> str:
    colour = _COLOURS.get(verdict.label, svg.UNKNOWN)
    title = codes.title(verdict.code)
    more = (
        f'<br><span style="{_FAINT}">{escape(title)}</span>'
        if verdict.label == "Type-I" and title not in verdict.message
        else ""
    )
    return (
        f'<p style="border-left:6px solid {colour};padding:4px 12px;margin:0.6em 0;font-size:115%">'
        f"<b>{escape(verdict.label.upper())}</b> &nbsp;{escape(verdict.message)} &nbsp;"
        f'<span style="{_MONO}">{escape(verdict.code)}</span>{more}</p>'
    )


def _output(output: OutputVerdict, reference: str) -> Iterator[str]:
    yield f'<p style="margin:0.8em 0 0.2em"><b>{escape(words.output_title(output, reference))}</b></p>'
    yield _table("", words.output_rows(output))
    used = np.where(np.isnan(output.bound.lo), np.nan, output.bound.usage)  # no bound: nothing of it is used
    pictures = [svg.histogram(used)]
    if used.ndim == 2 and used.size:
        pictures.append(svg.heatmap(used))
    cells = "".join(
        f'<div style="display:inline-block;vertical-align:top;margin:6px 24px 6px 0">{picture}</div>'
        for picture in pictures
        if picture
    )
    yield f"<div>{cells}</div>"


def _budget(verdict: Verdict) -> Iterator[tuple[str, ...]]:
    for item in sorted(verdict.budget, key=lambda item: -item.share):
        yield words.budget_row(item)
    if said := words.budget_basis(verdict):
        yield "", said, ""


def _table(title: str, rows: Iterator[tuple[str, ...]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    if not body:
        return ""
    head = f'<p style="margin:0.8em 0 0.2em"><b>{escape(title)}</b></p>' if title else ""
    return f'{head}<table style="border-collapse:collapse;border:none">{body}</table>'


def _cell(text: str) -> str:
    return escape(text.strip()).replace("  ", " &nbsp;")


def _frame(verdict: Verdict) -> str:
    frame = code_frame(verdict.file, verdict.line, verdict.column, verdict.end_column)
    if not verdict.file:
        return ""
    where = escape(place(verdict.file, verdict.line or None, verdict.column or None))
    if frame is None:
        return f'<p style="{_MONO}">{where}</p>'
    gutter = len(str(frame.line))
    lines = [f"{n:>{gutter}} | {source}" for n, source in frame.lines]
    lines.append(f"{'':>{gutter}} | {' ' * frame.start}{'^' * max(1, frame.end - frame.start)}")
    text = escape("\n".join(line.rstrip() for line in lines))
    return f'<pre style="{_MONO};margin:0.8em 0;overflow-x:auto"><b>{where}</b>\n{text}</pre>'


def _growth(verdict: Verdict) -> str:
    text = escape("\n".join(growth(verdict.lines)).rstrip())
    return f'<pre style="{_MONO};margin:0.8em 0;overflow-x:auto">{text}</pre>' if text else ""


def _list(title: str, lines: tuple[str, ...]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<p style="margin:0.8em 0 0.2em"><b>{escape(title)}</b></p><ul style="margin:0">{items}</ul>'


def _versions(verdict: Verdict) -> str:
    return escape(", ".join(f"{name} {version}" for name, version in verdict.versions.items()))
