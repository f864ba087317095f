"""`render explain RND101`: prose, mathematics and an example for a rule code; `render explain last`: a verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from render.cli.exits import guarded
from render.report import saved
from render.result import codes


@guarded
def command(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE|REPORT|last]",
            help="A rule code such as RND101, a saved verdict (JSON), or `last`; without it, all codes are listed.",
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(metavar="REPORT", help="Evaluate the witness of a saved verdict (JSON, or `last`) again."),
    ] = None,
) -> int:
    """Explain a rule code, or a saved verdict: its error budget, what would change it, its growth per line."""
    if check is not None:
        from render.report.witnessed import recheck

        holds, text = recheck(saved.load(check))
        typer.echo(text)
        return 0 if holds else 1
    if code is None:
        typer.echo(_list())
        return 0
    if code == saved.LAST or code.endswith(".json"):
        for line in saved.lines(saved.load(code)):
            typer.echo(line)
        return 0
    try:
        entry = codes.find(code)
    except codes.UnknownCode as error:
        raise typer.BadParameter(f"{error}; `render explain` lists them all") from None
    typer.echo(_page(entry))
    return 0


def _list() -> str:
    lines = []
    for family, entries in codes.by_family():
        lines += [family, *(f"  {entry.code}  {entry.title}" for entry in entries), ""]
    return "\n".join([*lines, "render explain CODE says more."])


def _page(entry: codes.Code) -> str:
    import textwrap

    def paragraph(text: str) -> str:
        return textwrap.fill(text, width=88, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)

    return "\n\n".join(
        [
            f"{entry.code}  {entry.title}\n{entry.family}",
            paragraph(entry.prose),
            "maths\n" + textwrap.indent(entry.maths, "  "),
            "example\n" + textwrap.indent(entry.example, "  "),
            "what to do\n" + paragraph(entry.help),
        ]
    )
