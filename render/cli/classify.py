"""`render classify FILE`: is the difference between a kernel and its reference round-off or a bug?"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from render.cli import classify_many
from render.cli.exits import decided, guarded
from render.cli.files import STDOUT, writable
from render.cli.limits import MEMORY, TIMEOUT, limited
from render.cli.options import given, taking, words
from render.cli.output import console
from render.cli.surroundings import streams
from render.result.codes import combined
from render.result.errors import RenderError
from render.result.footing import stand
from render.result.options import ASSUMED, INPUTS, REPORT, TARGET
from render.result.progress import Doing, progress

if TYPE_CHECKING:
    from render.result.verdict import Verdict


@guarded
@taking("device", "configs", "programs", *ASSUMED, "ref_precision", "threads", "seed", "budget", "assume_exact",
        "explain_seconds", explanations=True)  # fmt: skip
def command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Python file with the kernel and its launcher, unedited.")
    ],
    entry: Annotated[
        str | None,
        typer.Option(help="Function that launches the kernel. Default: the only one in FILE.", rich_help_panel=TARGET),
    ] = None,
    ref: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Reference: dotted.path, module:attr, file.py::fn, a name in FILE, or an expression of the inputs, as "
            '"torch.softmax(x, 1)". Default: reference() in FILE.',
            rich_help_panel=TARGET,
        ),
    ] = None,
    ref_args: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A keyword for the reference. Repeatable.", rich_help_panel=TARGET),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="Inputs by argument name: .safetensors, .npz or .pt.", rich_help_panel=INPUTS),
    ] = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SPEC", help='One input, e.g. "a=randn(512,512):fp16". Repeatable.', rich_help_panel=INPUTS
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Output recorded on a device: .safetensors, .npz or .pt.", rich_help_panel=INPUTS),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(help="Inputs and output of a call on a device, by `render record`.", rich_help_panel=INPUTS),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Write the result as JSON; - for stdout (then nothing else is printed there).",
            rich_help_panel=REPORT,
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained web page.", rich_help_panel=REPORT)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw errors against their bounds, element by element (.png, .svg, .pdf).", rich_help_panel=REPORT
        ),
    ] = None,
    save_repro: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write FILE, the inputs shrunk to the least that keeps the verdict, and the command to a new folder.",
            rich_help_panel=REPORT,
        ),
    ] = None,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0, not 3, if Inconclusive.", rich_help_panel=REPORT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Verdict and summary only.", rich_help_panel=REPORT)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show everything.", rich_help_panel=REPORT)] = False,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            min=0,
            help="Processes for several files or profiles; 0: one per core.",
            rich_help_panel=REPORT,
        ),
    ] = 0,
    timeout: Annotated[float, typer.Option(help=TIMEOUT, metavar="SECONDS", rich_help_panel=REPORT)] = 900,
    memory_limit: Annotated[float, typer.Option(help=MEMORY, metavar="GIB", rich_help_panel=REPORT)] = 0,
    **options: Any,
) -> int:
    """Classify the difference between a Triton kernel and its reference.

    Inputs come from --inputs, else --input, else make_inputs() in FILE. Several files, and several profiles (--device
    all, or sm_80,sm_90), give a table, and the worst exit code.
    """
    found = [_found(file) for file in files]
    file = found[0]
    if recording is not None and output is not None:
        raise RenderError("RND902", "--recording has an output already", "leave --output out")
    output = recording or output
    _check(inputs, output)
    if recording is not None:
        from render.entry.recording import is_recording

        if not is_recording(recording):
            raise RenderError("RND901", f"{recording} is no recording", "an output alone goes to --output")
    if save_repro is not None and save_repro.exists() and (not save_repro.is_dir() or any(save_repro.iterdir())):
        raise RenderError("RND901", f"{save_repro} exists and is not empty", "name a new folder for the reproduction")
    many = classify_many.is_many(files, str(options["device"]))
    if many and (html or plot or save_repro or verbose):
        raise RenderError("RND902", "--html, --plot, --save-repro and --verbose are for one file under one profile",
                          "--json writes all results")  # fmt: skip
    writable(json, html, plot, protected=(*found, inputs, output))
    if plot is not None:
        from render.result.needs import drawable

        drawable(plot)
    chosen = given(options)
    options = chosen | {"entry": entry, "ref": ref, "inputs": inputs, "output": output}
    options["specs"], options["ref_args"] = tuple(input or ()), tuple(ref_args or ())
    if many:
        devices = classify_many.devices_of(options.pop("device", "any"))
        return classify_many.command(
            found, devices, options, jobs, (timeout, memory_limit), json, quiet, allow_inconclusive
        )
    doing = Doing(f"running {file.name} on the CPU", memory_limit)
    call = {"file": str(file.resolve()), "options": _plain(options)}
    options["progress"] = lambda done, total, what: setattr(doing, "text", f"{done + 1}/{total} re-run: {what}")
    options["session"] = {"progress": doing.launched}
    options["on_stage"] = partial(_told, doing)
    with _own_stdout(json == STDOUT), progress(doing), limited(timeout, memory_limit):
        verdict = _classify(file, **options)
        if json is not None or html is not None or (verbose and not quiet):
            verdict = verdict.wait()
    code = decided(combined([verdict.exit_code], allow_inconclusive))
    _write(verdict, json, html, plot, call)
    if json != STDOUT:
        _show(verdict, code, quiet, verbose)
    if save_repro is not None:
        _reproduce(save_repro, file, verdict, chosen, (entry, ref, tuple(ref_args or ()), output))
    return code


def _reproduce(folder: Path, file: Path, verdict: Verdict, chosen: dict[str, Any], named: tuple[Any, ...]) -> None:
    from render.front.repro import save
    from render.result.options import Options

    entry, ref, ref_args, output = named
    with progress(f"shrinking the inputs of {file.name}"), _own_stdout(True):
        repro = save(folder, file, verdict, Options(**chosen), entry=entry, ref=ref, ref_args=ref_args, output=output,
                     extra=words(chosen))  # fmt: skip
        verified = repro.verified
    for line in (f"repro  {repro.line}", f"       {repro.told}; {verified}"):
        typer.echo(line, err=True)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """In JSON types; paths from where the command ran."""
    return {k: str(v.resolve()) if isinstance(v, Path) else v for k, v in options.items()}


def _told(doing: Doing, verdict: Verdict) -> None:
    """The first label at once, where somebody looks on; the checks that follow may change it, and then it says so."""
    if verdict.stage != "provisional":
        return
    doing.text = f"{verdict.label} so far, checking"
    streams()  # the file may have closed them
    if sys.stderr.isatty():
        print(f"  {verdict.label.upper()}  so far ({verdict.code}); checks that can change it follow", file=sys.stderr)


def again(call: Mapping[str, Any]) -> Verdict:
    """The verdict of what was told to an earlier command, explained."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in call["options"].items()}
    file = Path(call["file"])
    doing = f"running {file.name} on the CPU again, to explain it"
    with _own_stdout(True), progress(doing):
        return _classify(file, **options).wait()


def _classify(file: Path, **options: Any) -> Verdict:
    from render.classify import classify_file

    stand()
    try:
        return classify_file(file, **options)
    except RenderError as error:
        given = [name for name in ("inputs", "specs", "output") if options.get(name)]
        if given or error.code not in ("RND901", "RND902"):
            raise
        from render.front.found import in_script

        verdict = in_script(file, options, error)
        if verdict is None:
            raise
        return verdict


def _found(file: Path) -> Path:
    """FILE as it is, else the packaged example of that name (`kernels/matmul.py`)."""
    from render.result.packaged import find

    path = find(file)
    if path is None or not path.is_file():
        raise RenderError("RND902", f"no such file: {file}", "FILE is the Python file that launches the kernel")
    return path


def _check(*others: Path | None) -> None:
    """Name what is missing before torch is imported."""
    for path in others:
        if path is not None and not path.is_file():
            raise RenderError("RND901", f"no such file: {path}")


@contextlib.contextmanager
def _own_stdout(wanted: bool):  # type: ignore[no-untyped-def]
    """While the user's code runs, what it prints goes to stderr: stdout belongs to the JSON."""
    if not wanted:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _write(verdict: Verdict, json: str | None, html: Path | None, plot: Path | None, call: dict[str, Any]) -> None:
    from render.report.saved import keep

    keep(verdict, call)
    try:
        if json == STDOUT:
            typer.echo(verdict.to_json(), nl=False)
        elif json is not None:
            verdict.save(json)
        if html is not None:
            from render.report.html import write

            write(verdict, html)
        if plot is not None:
            verdict.plot(plot)
    except OSError as error:
        raise RenderError("RND901", f"cannot write {error.filename}: {error.strerror}") from None


def _show(verdict: Verdict, code: int, quiet: bool, verbose: bool) -> None:
    from render.report import terminal
    from render.report.github import annotate

    annotate(verdict)
    out = console()
    if quiet:
        lines = terminal.brief(verdict, out.width, code)
    else:
        lines = terminal.full(verdict, out.width, True, code) if verbose else terminal.short(verdict, out.width, code)
    for line in lines:
        out.print(line, soft_wrap=True)
