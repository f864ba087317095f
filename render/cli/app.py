"""The typer application: global options and the list of commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from render.cli import (
    accum,
    classify,
    classify_model,
    demote,
    doctor,
    dual_delta,
    evidence,
    explain,
    ops,
    record,
    replay,
    report,
    run,
    serve,
    suite,
    sweep,
)
from render.result.versions import VERSION

app = typer.Typer(
    name="render",
    help="Says whether a Triton kernel and its reference differ by round-off or by a bug, on a CPU, from the "
    "unedited kernel.",
    epilog="Exit codes: 0 Type-I (round-off), 1 Type-II (bug), 2 usage or input error, 3 Inconclusive, "
    "4 internal error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class OnceEach(TyperCommand):
    """A command whose options are given once each, those that take many values apart: of two, one would be ignored."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option in order:
            many = getattr(option, "multiple", True) or getattr(option, "is_flag", True)
            if not many and (times := order.count(option)) > 1:
                ctx.fail(f"{option.opts[0]} takes one value, and is given {times} times")
        return super().parse_args(ctx, args)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"render {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version  # handled by its callback


app.command("classify", cls=OnceEach)(classify.command)
app.command("run", cls=OnceEach, context_settings=run.SETTINGS)(run.command)
app.command("record", cls=OnceEach)(record.command)
app.command("classify-model", cls=OnceEach)(classify_model.command)
app.command("replay", cls=OnceEach)(replay.command)
app.command("suite", cls=OnceEach)(suite.command)
app.command("sweep", cls=OnceEach)(sweep.command)
app.command("explain", cls=OnceEach)(explain.command)
app.command("report", cls=OnceEach)(report.command)
app.command("ops", cls=OnceEach)(ops.command)
app.command("accum", cls=OnceEach)(accum.command)
app.command("dual-delta", cls=OnceEach)(dual_delta.command)
app.command("demote", cls=OnceEach)(demote.command)
app.command("evidence", cls=OnceEach)(evidence.command)
app.command("serve", cls=OnceEach)(serve.command)
app.command("doctor", cls=OnceEach)(doctor.command)
