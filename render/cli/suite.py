"""`render suite PATHS...`: every test and case file that compares a kernel with a reference, in one warm process."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from render.cli.exits import guarded
from render.cli.files import STDOUT
from render.cli.output import put
from render.result.errors import RenderError

_REPORT = "Report"


@guarded
def command(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATHS...", help="Folders, test files (also file.py::test), case files.")
    ],
    device: Annotated[str, typer.Option(help="Profile: any, sm_80, a100, ...; `render doctor` lists them.")] = "any",
    configs: Annotated[
        str, typer.Option(metavar="first|all|N", help="Autotune configurations to judge; of all the worst counts.")
    ] = "first",
    expression: Annotated[str, typer.Option("-k", metavar="TEXT", help="Only tests whose name holds TEXT.")] = "",
    accept: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML of accepted findings: code, place, reason.")
    ] = None,
    comparator: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:FUNCTION", help="A function of the library that compares. Repeatable."),
    ] = None,
    causes: Annotated[bool, typer.Option("--causes", help="Also find the cause that owns each bound.")] = False,
    limit: Annotated[float, typer.Option(min=0, help="Seconds for one test; 0: no limit.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of torch, numpy and random in each test.")] = 0,
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="The table as JSON, - for stdout.", rich_help_panel=_REPORT)
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The table as JUnit XML.", rich_help_panel=_REPORT)
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only what is no Type-I, and the summary.", rich_help_panel=_REPORT)
    ] = False,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0 instead of 3.", rich_help_panel=_REPORT)
    ] = False,
) -> int:
    """Judge every test that compares a kernel with a reference, as it stands, in one warm process.

    A folder is searched for test_*.py (collected by pytest), files with cases(), and files with make_inputs() and
    reference(). The exit code is that of the worst row.
    """
    from render.lab.suite.accept import apply, load
    from render.lab.suite.find import find
    from render.lab.suite.options import SuiteOptions

    accepted = load(accept) if accept else ()
    found = find(paths)
    options = SuiteOptions(device, seed, causes, expression, limit, tuple(comparator or ()), configs)
    from render.lab.suite import report
    from render.lab.suite.rows import Row, exit_code
    from render.lab.suite.runner import run

    out = sys.stderr if json == STDOUT else sys.stdout

    def tell(row: Row) -> None:
        (shown,), _ = apply([row], accepted)
        if not quiet or shown.label != "Type-I":
            print(report.line(shown), file=out, flush=True)

    with contextlib.redirect_stdout(sys.stderr):  # what tests print goes there
        rows = run(found, options, tell)
    if not rows:
        raise RenderError("RND902", f"no test matches -k {expression!r}" if expression else "no tests")
    rows, unused = apply(rows, accepted)
    for text in report.summary(rows, unused):
        typer.echo(text, err=json == STDOUT)
    for path, write in ((json, report.dumps), (junit, report.junit)):
        if path is not None:
            put(write(rows), path)
    return exit_code(rows, allow_inconclusive)
