"""`render classify-model TARGET --ref REFERENCE`: which layer of a model first differs by more than round-off?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from render.cli.exits import guarded
from render.cli.files import STDOUT
from render.cli.surroundings import width
from render.result.codes import combined
from render.result.errors import RenderError
from render.result.progress import progress

if TYPE_CHECKING:
    from render.network.records import NetworkVerdict


@guarded
def command(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="file.py::name of the model (default name: model).")],
    ref: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="file.py::name of the other model. Default: `reference` in TARGET's file."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="Inputs in order: .safetensors, .npz or .pt. Default: make_inputs() in TARGET's file."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="Profile of the target: torch-cpu, inductor-cpu, cuda-eager.")
    ] = "torch-cpu",
    match: Annotated[
        list[str] | None, typer.Option(metavar="LEAF=LEAF", help="A leaf of TARGET and its counterpart. Repeatable.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="First module to judge.")] = None,
    end: Annotated[str | None, typer.Option(help="Last module to judge.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the inputs and of the models' own random numbers.")] = 0,
    assume_exact: Annotated[
        list[str] | None,
        typer.Option(metavar="OP", help="Take this operation as exact; its results are marked. Repeatable."),
    ] = None,
    bounds: Annotated[
        str, typer.Option(help="all, or asked: only where exact values leave something open (half the cost).")
    ] = "all",
    json: Annotated[str | None, typer.Option(metavar="PATH", help="Write the result as JSON; - for stdout.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained web page.")] = None,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0, not 3, if Inconclusive.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every border.")] = False,
) -> int:
    """Compare two PyTorch models module by module, on the CPU."""
    pairs = dict(_pair(text) for text in match or ())
    if inputs is not None and not inputs.is_file():
        raise RenderError("RND901", f"no such file: {inputs}")
    with progress(lambda: "comparing the models"):
        from render.cli.models import classify_files

        verdict = classify_files(
            target, ref, inputs, seed, device=device, match=pairs or None, start=start, end=end,
            assume_exact=tuple(assume_exact or ()), bounds=bounds,
        )  # fmt: skip
    _write(verdict, json, html, verbose)
    return combined([verdict.exit_code], allow_inconclusive)


def _pair(text: str) -> tuple[str, str]:
    mine, sign, theirs = text.partition("=")
    if not sign:
        raise RenderError("RND902", f"--match {text!r} is not LEAF=LEAF", "e.g. --match blocks.0.q=layers.0.query")
    return mine, theirs


def _write(verdict: NetworkVerdict, json: str | None, html: Path | None, verbose: bool) -> None:
    from render.network import page

    try:
        if json == STDOUT:
            typer.echo(verdict.to_json())
        elif json is not None:
            verdict.save(json)
        if html is not None:
            page.write(verdict, html)
    except OSError as error:
        raise RenderError("RND901", f"cannot write {error.filename}: {error.strerror}") from None
    if json != STDOUT:
        for line in page.lines(verdict, width(sys.stdout) or page.WIDTH, verbose):
            typer.echo(line)
