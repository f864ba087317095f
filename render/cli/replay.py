"""`render replay [ID ...]`: the packaged corpus of triaged issues, with ground truth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from render.cli.exits import TYPE_I, TYPE_II, guarded
from render.cli.files import STDOUT
from render.cli.options import checked, given, taking
from render.result.errors import RenderError
from render.result.options import ASSUMED

if TYPE_CHECKING:
    from render.lab.replay.rows import ReplayRow
    from render.lab.replay.worker import ReplayPlan

FEW = 3
"""Up to so many cases are described in words below their lines."""


@guarded
@taking(*ASSUMED)
def command(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID ...]", help="Cases, or one of: all, issues, twins; network: models. Default: all."),
    ] = None,
    expression: Annotated[
        str, typer.Option("-k", metavar="EXPR", help='Only cases that match, e.g. -k "fp16 and not twin".')
    ] = "",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Cases at a time; 0: one per core.")] = 0,
    json: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Write the results as JSON; - for stdout (then the table goes to stderr)."),
    ] = None,
    lint: Annotated[bool, typer.Option("--lint", help="Only check the files of the cases; nothing is run.")] = False,
    no_baselines: Annotated[
        bool, typer.Option("--no-baselines", help="Leave out the simpler rules that the table compares with.")
    ] = False,
    stock: Annotated[
        bool, typer.Option("--stock", help="Also time Triton's own interpreter on each kernel (slow).")
    ] = False,
    stock_triton: Annotated[
        str,
        typer.Option(metavar="FOLDER", help="With --stock: an older Triton, for kernels that this one no longer runs."),
    ] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Ignore results of an earlier run, or reuse them (default).")
    ] = False,
    small: Annotated[bool, typer.Option("--small", help="Reduced sizes, for a quick look.")] = False,
    **assumed: Any,
) -> int:
    """Replay the packaged issues and their twins, and compare every answer with the ground truth.

    Exits 0 if all answers are the expected ones, 1 if not. Finished results are kept in .render/replay: after Ctrl-C
    the same command continues. The answers are those expected under the weakest assumptions, the defaults.
    """
    from render.lab.replay.select import select
    from render.lab.replay.worker import ReplayPlan

    folders = select(ids or [], expression)
    if not folders:
        raise RenderError("RND902", f"no case matches -k {expression!r}" if expression else "no cases")
    if lint:
        return _lint(folders)
    chosen = given(assumed)
    if chosen:  # else there is nothing to check, and this process, which only waits, needs not load Triton
        checked(chosen)
    older, known = _older(stock, stock_triton), tuple(sorted(chosen.items()))
    plan = ReplayPlan(not no_baselines, stock, small, stock_triton=older, assumed=known)
    rows = _run(folders, jobs, plan, fresh, err=json == STDOUT)
    _write(rows, json)
    return TYPE_I if all(row.ok for row in rows) else TYPE_II


def _older(stock: bool, folder: str) -> str:
    """The absolute path of a folder that holds a Triton; RenderError for another one."""
    if not folder:
        return ""
    if not stock:
        raise RenderError("RND902", "--stock-triton says where --stock finds an older Triton", "add --stock")
    if not (Path(folder) / "triton" / "__init__.py").is_file():
        raise RenderError("RND902", f"no Triton in {folder}", "fetch one with `make older`, into .venv/triton-3.6")
    return str(Path(folder).resolve())


def _lint(folders: list[Path]) -> int:
    from render.lab.replay.lint import check

    found = [(folder.name, text) for folder in folders for text in check(folder)]
    for name, text in found:
        typer.echo(f"{name}: {text}")
    typer.echo(f"{len(folders)} cases checked, {len(found)} problems")
    return TYPE_II if found else TYPE_I


def _run(folders: list[Path], jobs: int, plan: ReplayPlan, fresh: bool, err: bool) -> list[ReplayRow]:
    from render.lab.replay import table
    from render.lab.replay.pool import cores
    from render.lab.replay.runner import replay_all
    from render.lab.replay.store import Store

    jobs = jobs or cores()
    store = Store(plan)
    if fresh:
        store.forget(folders)
    _say(table.header(), err)
    order = {folder.name: i for i, folder in enumerate(folders)}
    rows: list[ReplayRow] = []
    try:
        for row, known in replay_all(folders, plan, jobs, store):
            rows.append(row)
            _say(f"{table.line(row)}{'  (from an earlier run)' if known else ''}", err)
            few = table.details(row) if len(folders) <= FEW else ()
            for text in (*table.complaints(row), *few):
                _say(text, err)
    except KeyboardInterrupt:
        typer.echo(f"{len(rows)} of {len(folders)} cases done; the same command continues", err=True)
        raise
    rows.sort(key=lambda row: order.get(row.id, len(order)))
    _say("", err)
    for text in table.summary(rows):
        _say(text, err)
    return rows


def _say(text: str, err: bool) -> None:
    typer.echo(text, err=err)
    (sys.stderr if err else sys.stdout).flush()


def _write(rows: list[ReplayRow], json: str | None) -> None:
    from render.lab.replay import report

    if json == STDOUT:
        typer.echo(report.dumps(rows), nl=False)
    elif json is not None:
        try:
            report.write(rows, json)
        except OSError as error:
            raise RenderError("RND901", f"cannot write {error.filename}: {error.strerror}") from None
