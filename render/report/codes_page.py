"""The table of codes as text: one code for a terminal, the list, and the page docs/codes.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from render.result import codes

_WIDTH = 88

_HEAD = """\
# Codes

Written by `make docs` from the table in `render/result/codes`; `render explain CODE` prints one. A code is never used
for something else. The label follows from the first digit: 1 Type-I (exit code 0), 2 Type-II (exit code 1),
3 Inconclusive (exit code 3), 9 an error of usage (exit code 2; there is no verdict). An error inside RENDER exits
with 4. Of several results 4 beats 2 beats 1 beats 3 beats 0.

T is the envelope of one output element, [lo, hi]; y_ref what the reference returned; E the reference recomputed in
float64 from the same inputs; y_dev a recorded device output; u the unit roundoff of a format (2^-24 fp32, 2^-11 fp16,
2^-8 bf16).
"""


def listing() -> str:
    """Every code with its title."""
    lines = []
    for name, rows in codes.by_hundred():
        lines += [name, *(f"  {row.code}  {row.title}" for row in rows), ""]
    return "\n".join([*lines, "render explain CODE says more."])


def of_code(row: codes.Code) -> str:
    """One code for a terminal."""
    parts = [f"{row.code}  {row.title}\n{row.hundred.name}", _paragraph(row.prose)]
    parts += ["maths\n" + textwrap.indent(row.maths, "  "), "example\n" + textwrap.indent(row.example, "  ")]
    parts += ["what to do\n" + "\n".join(_paragraph(line) for line in _steps(row))]
    return "\n\n".join(parts)


def page() -> str:
    """docs/codes.md."""
    return "\n".join([_HEAD, *_table(), *(part for row in codes.ROWS for part in _section(row))]).rstrip() + "\n"


def _steps(row: codes.Code) -> list[str]:
    return [line for line in (*(f"{step[0].upper()}{step[1:]}." for step in row.steps), row.more) if line]


def _paragraph(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _table() -> Iterator[str]:
    yield from ("| code | label | title |", "|---|---|---|")
    for row in codes.ROWS:
        yield f"| [{row.code}](#{row.code.lower()}) | {row.label or 'error'} | {row.title} |"
    yield ""


def _section(row: codes.Code) -> Iterator[str]:
    yield from (f"## {row.code}", "", f"**{row.title}** ({row.hundred.name})", "", textwrap.fill(row.prose, 118), "")
    yield from ("```text", row.maths, "```", "", "```text", row.example, "```", "")
    yield from (*(f"- {line}" for line in _steps(row)), "")
