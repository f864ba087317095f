"""The typer application: global options and the list of commands."""

from __future__ import annotations

from typing import Annotated

import typer

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


app.command("classify")(classify.command)
app.command("run", context_settings=run.SETTINGS)(run.command)
app.command("record")(record.command)
app.command("classify-model")(classify_model.command)
app.command("replay")(replay.command)
app.command("suite")(suite.command)
app.command("sweep")(sweep.command)
app.command("explain")(explain.command)
app.command("report")(report.command)
app.command("ops")(ops.command)
app.command("accum")(accum.command)
app.command("dual-delta")(dual_delta.command)
app.command("demote")(demote.command)
app.command("evidence")(evidence.command)
app.command("serve")(serve.command)
app.command("doctor")(doctor.command)
