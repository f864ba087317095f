"""`render explain RND101`: prose, mathematics and an example for a rule code; `render explain last`: a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from render.cli.exits import guarded
from render.cli.output import console
from render.report import codes_page, saved
from render.result import codes
from render.result.errors import RenderError

if TYPE_CHECKING:
    from render.result.verdict import Verdict


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
    page: Annotated[bool, typer.Option("--page", help="Print the page docs/codes.md, of all codes.")] = False,
) -> int:
    """Explain a rule code, or a saved verdict: its error budget, what would change it, its growth per line."""
    if check is not None:
        from render.report.witnessed import recheck

        holds, text = recheck(saved.read(check))
        typer.echo(text)
        return 0 if holds else 1
    if page:
        typer.echo(codes_page.page(), nl=False)
        return 0
    if code is None:
        typer.echo(codes_page.listing())
        return 0
    if code == saved.LAST or code.endswith(".json"):
        _tell(_explained(saved.load(code)) if code == saved.LAST else saved.load(code))
        return 0
    try:
        entry = codes.find(code)
    except codes.UnknownCode as error:
        raise typer.BadParameter(f"{error}; `render explain` lists them all") from None
    typer.echo(codes_page.of_code(entry))
    return 0


def _explained(verdict: Verdict) -> Verdict:
    """The latest verdict with what was left to be told of it, by running it again; as it was where that is not it."""
    call = saved.call_of_latest() if verdict.stage == "checked" else None
    if call is None:
        return verdict
    from render.cli.classify import again

    try:
        found = again(call)
    except RenderError:
        found = verdict
    same = (found.scope.source, found.scope.inputs, found.code) == (
        verdict.scope.source,
        verdict.scope.inputs,
        verdict.code,
    )
    if not same or found.stage != "explained":
        typer.echo("  its file or inputs are not what was judged any more: this is what was known then", err=True)
        return verdict
    saved.keep(found, call)
    return found


def _tell(verdict: Verdict) -> None:
    """Everything that the terminal showed when it was judged, and what a short report leaves out."""
    from render.report.terminal import full

    out = console()
    for line in full(verdict, out.width, verbose=True):
        out.print(line, soft_wrap=True)
