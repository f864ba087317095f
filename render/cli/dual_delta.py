"""`render dual-delta FILE`: is a kernel as accurate as its reference, over many inputs?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from render.cli.exits import guarded
from render.cli.options import EntryName, InputSpecs, JsonPath, KernelFile, Seed, TargetProfile
from render.cli.output import give
from render.result.options import INPUTS, REPORT, TARGET
from render.result.progress import progress

if TYPE_CHECKING:
    from render.companions.dual_delta.experiment import DualDelta

_METHOD = "Method"


@guarded
def command(
    file: KernelFile,
    entry: EntryName = None,
    ref: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="f2, as in `render classify`. Default: reference().", rich_help_panel=TARGET),
    ] = None,
    oracle: Annotated[
        str,
        typer.Option(
            metavar="fp64|bits|SPEC", help="f2 in float64, in more bits, or another function.", rich_help_panel=_METHOD
        ),
    ] = "fp64",
    device: TargetProfile = "any",
    count: Annotated[int, typer.Option("-n", min=1, help="Inputs.", rich_help_panel=_METHOD)] = 200,
    metric: Annotated[str, typer.Option(help="hybrid, norm or ulp.", rich_help_panel=_METHOD)] = "hybrid",
    generate: Annotated[
        str,
        typer.Option(
            help="own (make_inputs, --input), normal, uniform, lognormal, sparse, wide, cancelling.",
            rich_help_panel=INPUTS,
        ),
    ] = "own",
    inputs: Annotated[
        Path | None, typer.Option(help="An example for --generate: .safetensors, .npz, .pt.", rich_help_panel=INPUTS)
    ] = None,
    input: InputSpecs = None,
    seed: Seed = 0,
    gate: Annotated[
        list[str] | None,
        typer.Option(help="ks, dynamo, flash-attn, titan, helion, matched-ratio. Repeatable.", rich_help_panel=_METHOD),
    ] = None,
    margin: Annotated[float, typer.Option(help="Ratio of errors that counts as equal.", rich_help_panel=_METHOD)] = 1.1,
    alpha: Annotated[float, typer.Option(help="Level of the tests.", rich_help_panel=_METHOD)] = 0.05,
    early: Annotated[
        bool, typer.Option("--early", help="Stop when decided, at alpha / looks.", rich_help_panel=_METHOD)
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one per core.", rich_help_panel=_METHOD)] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Draw a figure.", rich_help_panel=REPORT)] = None,
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Write a page.", rich_help_panel=REPORT)] = None,
    json: JsonPath = None,
) -> int:
    """Errors of a kernel and of its reference against an oracle, over many inputs, compared as distributions.

    Exit code 1 where the kernel is less accurate or a gate fails, 3 where nothing is decided, else 0.
    """
    from render.result.needs import stats

    stats()
    options = {
        "metric": metric, "n": count, "seed": seed, "device": device, "alpha": alpha, "margin": margin, "jobs": jobs,
        "early": early, "gates": tuple(gate or ()),
    }  # fmt: skip
    found = _run(file, (entry, ref, oracle), (generate, inputs, input or []), options)
    give(found.to_dict(), json, lambda: [found.report()], [(html, found.html), (plot, found.plot)])
    if any(not g.ok for g in found.gates) or found.outcome == "worse":
        return 1
    return 3 if found.outcome == "undecided" else 0


def _run(
    file: Path, names: tuple[str | None, str | None, str], given: tuple[str, Path | None, list[str]], options: Any
) -> DualDelta:
    done = [0]
    with progress(lambda: f"{done[0]} of {options['n']} inputs"):
        from render.companions.called import called
        from render.companions.dual_delta.experiment import Trials, experiment
        from render.entry.resolve import resolve

        entry, ref, oracle = names
        generate, inputs, specs = given
        target = called(file, entry, inputs, specs, ref)
        other = resolve(ref, target.module).fn
        exact = oracle if oracle in ("fp64", "bits") else resolve(oracle, target.module).fn
        draw: str | Callable[..., Any] = target.inputs if generate == "own" else generate
        like = None if generate == "own" else target.inputs(options["seed"])

        def tell(now: int, of: int) -> None:
            done[0] = now

        return experiment(target.fn, other, exact, draw, Trials(**options, like=like, progress=tell))
