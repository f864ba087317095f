"""`render sweep PATHS...`: files x devices x seeds x shapes x configurations, on every core or a Ray cluster."""

from __future__ import annotations

import contextlib
import json as jsons
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from render.cli.exits import guarded
from render.cli.files import STDOUT
from render.result.codes import combined
from render.result.errors import RenderError

if TYPE_CHECKING:
    from render.lab.units import SweepAxes, SweepUnit
    from render.sweep.store import KeptUnit

STORE = Path(".render") / "sweep.sqlite"
_REPORT = "Report"
_VARIED = "What is varied"


@guarded
def command(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATHS...", help="Kernel files, test files, case files, folders of them."),
    ] = None,
    device: Annotated[str, typer.Option(help="all, or names as sm_80,sm_90.", rich_help_panel=_VARIED)] = "any",
    seeds: Annotated[str, typer.Option(metavar="A:B|A,B", help="0:4 is 0,1,2,3.", rich_help_panel=_VARIED)] = "0",
    configs: Annotated[
        str, typer.Option(metavar="first|all|N,...", help="Autotune configurations.", rich_help_panel=_VARIED)
    ] = "first",
    input: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SPEC", help='Inputs: "x=randn({n},64)".', rich_help_panel=_VARIED),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=V1,V2", help="Values of such a name. Repeatable.", rich_help_panel=_VARIED),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", metavar="KEY=VALUE", help="The same for all: entry, ref, inputs (a file)."),
    ] = None,
    corpus: Annotated[str, typer.Option(metavar="IDS", help="Also cases of the corpus: issues, twins, all, ids.")] = "",
    small: Annotated[bool, typer.Option("--small", help="Cases of the corpus at reduced sizes.")] = False,
    programs: Annotated[
        str,
        typer.Option(metavar="all|P%|N", help="Of kernel files: only this part of each launch's programs."),
    ] = "all",
    power: Annotated[bool, typer.Option("--power", help="Also mutants of each kernel: what is noticed.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one per core.")] = 0,
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A Ray cluster: its address, auto, or local for processes here.")
    ] = "",
    store: Annotated[Path, typer.Option(help="The file that keeps results: an interrupted sweep goes on.")] = STORE,
    fresh: Annotated[bool, typer.Option("--fresh/--resume", help="Do again what is kept, or reuse it.")] = False,
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="All rows as JSON, - for stdout.", rich_help_panel=_REPORT)
    ] = None,
    html: Annotated[Path | None, typer.Option(help="A summary page with plots.", rich_help_panel=_REPORT)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The summary only.", rich_help_panel=_REPORT)] = False,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0 instead of 3.", rich_help_panel=_REPORT)
    ] = False,
) -> int:
    """Judge many files under many devices, seeds, shapes and configurations; the exit code is the worst.

    Each unit runs in a process of its own. One that dies is tried again; results are kept as they come.
    """
    from render.result.document import document
    from render.sweep.engine import sweep
    from render.sweep.page import page
    from render.sweep.store import SweepStore

    pyplot = _pyplot() if html is not None else None
    units = _units(paths or [], _axes(device, seeds, configs, vary or []), given or [], input or [], power, programs)
    if corpus:
        from render.lab.units import of_cases

        units += of_cases([] if corpus == "all" else corpus.split(","), small)
    if programs != "all" and any(unit.kind != "file" for unit in units):
        raise RenderError("RND902", "--programs is for kernel files alone", "leave tests and the corpus out of it")
    if not units:
        raise RenderError("RND902", "nothing to sweep", "name files or folders, or --corpus issues")
    kept = SweepStore(store)
    if fresh:
        kept.forget(unit.key for unit in units)
    out = sys.stderr if json == STDOUT else sys.stdout
    entries: list[KeptUnit] = []
    with contextlib.closing(kept), _executing(ray, jobs) as execute, _shown(len(units)) as advance:
        for entry, known in sweep(units, kept, execute):
            entries.append(entry)
            advance(entry)
            if not quiet:
                for text in _lines(entry, known):
                    print(text, file=out, flush=True)
    order = {unit.key: n for n, unit in enumerate(units)}
    entries.sort(key=lambda entry: order[entry.key])
    code = _summary(entries, allow_inconclusive, out)
    if html is not None:
        html.write_text(page(entries, f"render sweep: {len(units)} units", pyplot, document), encoding="utf-8")
    _write(entries, code, json)
    return code


def _pyplot() -> Any:
    from render.result.needs import pyplot

    return pyplot()


def _axes(device: str, seeds: str, configs: str, vary: Sequence[str]) -> SweepAxes:
    from render.cli.classify_many import devices_of
    from render.lab.units import SweepAxes

    try:
        low, colon, high = seeds.partition(":")
        numbers = range(int(low), int(high)) if colon else [int(n) for n in seeds.split(",")]
    except ValueError:
        raise RenderError("RND902", f"--seeds {seeds!r}", "numbers as 0,1,2, or a range as 0:3") from None
    varied = []
    for one in vary:
        name, equal, values = one.partition("=")
        if not equal or not values:
            raise RenderError("RND902", f"--vary {one!r}", "name and values: --vary n=32,64")
        varied.append((name.strip(), tuple(values.split(","))))
    return SweepAxes(tuple(devices_of(device)), tuple(numbers), tuple(configs.split(",")), tuple(varied))


def _units(
    paths: list[str], axes: SweepAxes, given: list[str], specs: list[str], power: bool, programs: str
) -> list[SweepUnit]:
    from render.lab.units import SweepUnit, of_files
    from render.result.options import Options
    from render.result.packaged import find

    same: dict[str, Any] = {}
    for one in given:
        name, _, value = one.partition("=")
        if name not in ("entry", "ref", "inputs") or not value:
            raise RenderError("RND902", f"--given {one!r}", "entry=NAME, ref=SPEC or inputs=FILE")
        same[name] = value
    Options(programs=programs)  # raises where that is no part
    like = SweepUnit("file", "", programs=programs, specs=tuple(specs), explain=("power",) if power else (), **same)
    return of_files([str(find(path) or path) for path in paths], axes, like) if paths else []


@contextlib.contextmanager
def _executing(ray: str, jobs: int) -> Iterator[Any]:
    """What works through units: local processes, or a cluster."""
    if not ray:
        from render.lab.replay.pool import cores
        from render.lab.units import judge
        from render.lab.workers import run

        yield lambda units: run(judge, units, jobs or cores(), per_process=1)
        return
    from render.lab.units import isolated
    from render.sweep import cluster

    library = _ray()
    where = {"num_cpus": jobs or None} if ray == "local" else {"address": ray}
    library.init(**where, include_dashboard=False, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    try:
        yield lambda units: cluster.execute(library, isolated, units)
    finally:
        library.shutdown()


def _ray() -> Any:
    try:
        from ray import init  # noqa: F401  a folder called ray is no Ray
    except ImportError:
        raise RenderError("RND902", "this needs ray", "pip install 'render-triton[ray]'") from None
    return import_module("ray")


@contextlib.contextmanager
def _shown(total: int) -> Iterator[Any]:
    """A bar with counts on a terminal's stderr; nothing elsewhere."""
    from render.sweep.page import label_of

    if not sys.stderr.isatty():
        yield lambda entry: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    counts: Counter[str] = Counter()
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def advance(entry: KeptUnit) -> None:
            counts.update([label_of(row) for row in entry.rows] or ["error"])
            bar.update(task, advance=1, description=", ".join(f"{n} {label}" for label, n in counts.items()))

        yield advance


def _lines(entry: KeptUnit, known: bool) -> Iterator[str]:
    from render.sweep.page import rows_of

    for row in rows_of([entry]):
        where = " ".join(str(row[name]) for name in ("device", "seed", "configs") if name in row)
        specs = " ".join(entry.unit.get("specs", ()))
        again = "  (kept)" if known else ""
        message = str(row.get("message", "")).splitlines() or [""]
        yield f"{row['test']}  {where}  {specs}  {row['label']}  {row.get('code', '')}  {message[0]}{again}"


def _summary(entries: Sequence[KeptUnit], allow_inconclusive: bool, out: Any) -> int:
    from render.sweep.page import LABELS, label_of, rows_of

    rows = rows_of(entries)
    counts = Counter(map(label_of, rows))
    code = combined([int(row.get("exit_code", 4)) for row in rows], allow_inconclusive)
    told = ", ".join(f"{counts[label]} {label}" for label in LABELS if counts[label])
    print(f"{len(entries)} units, {len(rows)} results: {told}    exit {code}", file=out)
    return code


def _write(entries: Iterable[KeptUnit], code: int, path: str | None) -> None:
    if path is None:
        return
    units = [{"unit": e.unit, "rows": e.rows, "error": e.error, "attempts": e.attempts} for e in entries]
    text = jsons.dumps({"schema": 1, "units": units, "exit_code": code}, indent=2) + "\n"
    if path == STDOUT:
        typer.echo(text, nl=False)
    else:
        Path(path).write_text(text, encoding="utf-8")
