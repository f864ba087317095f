"""`render report REPORT`: a saved verdict in another format."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from render.cli.exits import guarded
from render.cli.files import apart
from render.result.errors import RenderError

if TYPE_CHECKING:
    from render.result.verdict import Verdict


class ReportFormat(StrEnum):
    """How a verdict is written."""

    text = "text"
    html = "html"
    md = "md"
    json = "json"
    sarif = "sarif"
    junit = "junit"


_SUFFIXES = {f".{known.value}": known for known in ReportFormat} | {".xml": ReportFormat.junit}


@guarded
def command(
    reports: Annotated[
        list[str] | None,
        typer.Argument(metavar="[REPORT ...]", help="Saved verdicts (JSON), or `last`. Default: last."),
    ] = None,
    format: Annotated[
        ReportFormat | None, typer.Option(help="What to write. Default: by the suffix of --output, else text.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write. Default: stdout.")] = None,
) -> int:
    """Print saved verdicts as text, HTML, Markdown, JSON, SARIF or JUnit.

    Text and HTML put several verdicts side by side, SARIF and JUnit list them; the others take one.
    """
    from render.report import saved

    names = reports or [saved.LAST]
    chosen = format or _SUFFIXES.get(output.suffix if output else "", ReportFormat.text)
    apart(output, protected=names)
    text = written([saved.load(name) for name in names], chosen, names)
    if output is None:
        typer.echo(text, nl=False)
        return 0
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RenderError("RND901", f"cannot write {error.filename}: {error.strerror}") from None
    return 0


def written(verdicts: list[Verdict], format: ReportFormat, names: Sequence[str] = ()) -> str:
    """The text of the file; `names` of the verdicts."""
    if format is ReportFormat.sarif:
        from render.report import sarif

        return sarif.dumps(verdicts)
    if format is ReportFormat.junit:
        from render.report import junit

        return junit.dumps(map(junit.of_verdict, verdicts))
    if format is ReportFormat.html:
        from render.report import html

        return html.page(*verdicts, names=names)
    if format is ReportFormat.text and len(verdicts) > 1:
        from render.report.beside import columns

        return columns(verdicts, names)
    if len(verdicts) > 1:
        raise RenderError("RND902", f"--format {format.value} takes one verdict", "give them one after the other")
    return _one(verdicts[0], format)


def _one(verdict: Verdict, format: ReportFormat) -> str:
    from render.report import markdown, terminal

    if format is ReportFormat.json:
        return verdict.to_json()
    if format is ReportFormat.md:
        return markdown.page(verdict)
    return "".join(f"{line.plain}\n" for line in terminal.full(verdict, 100, verbose=True))
