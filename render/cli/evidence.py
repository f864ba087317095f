"""`render evidence FILE`: one verdict from the bound, many inputs and the accumulators together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from render.cli.exits import guarded
from render.cli.files import STDOUT
from render.cli.options import EntryName, InputSpecs, JsonPath, KernelFile, Seed, TargetProfile
from render.cli.output import console
from render.result.options import INPUTS, TARGET
from render.result.progress import progress

if TYPE_CHECKING:
    from render.result.verdict import Verdict


@guarded
def command(
    file: KernelFile,
    entry: EntryName = None,
    ref: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Reference, as in `render classify`.", rich_help_panel=TARGET)
    ] = None,
    device: TargetProfile = "any",
    input: InputSpecs = None,
    seed: Seed = 0,
    count: Annotated[int, typer.Option("-n", min=2, help="Inputs for the statistics.", rich_help_panel=INPUTS)] = 30,
    json: JsonPath = None,
) -> int:
    """Classify a kernel, and weigh its accuracy over many inputs and its accumulators with the bound.

    The exit code is that of the verdict.
    """
    from render.result.needs import stats

    stats()
    with progress(f"weighing {file.name}"):
        verdict = _weighed(file, (entry, ref), device, input or [], seed, count)
    if json == STDOUT:
        typer.echo(verdict.to_json(), nl=False)
        return verdict.exit_code
    if json is not None:
        verdict.save(json)
    out = console()
    out.print(f"{verdict.headline}  {verdict.code}  {verdict.message}", soft_wrap=True)
    for fact in verdict.evidence:
        value = f"{fact.value:.4g}" if isinstance(fact.value, float) else str(fact.value)
        told = fact.text if any(c.isdigit() for c in fact.text) or value in fact.text else f"{fact.text}: {value}"
        out.print(f"  {fact.kind:12} {told}", soft_wrap=True)
    return verdict.exit_code


def _weighed(
    file: Path, names: tuple[str | None, str | None], device: str, specs: list[str], seed: int, count: int
) -> Verdict:
    from render.classify import classify
    from render.companions.called import called
    from render.companions.combined import combined
    from render.companions.dual_delta.experiment import Trials, experiment
    from render.entry.resolve import resolve

    entry, ref = names
    target = called(file, entry, None, specs, ref)
    given = target.inputs(seed)
    reference = resolve(ref, target.module).fn
    verdict = classify(target.fn, *given.args, ref=reference, device=device, seed=seed, **given.kwargs)
    plan = Trials(n=count, seed=seed, device=device, early=count >= 100)
    return combined(verdict, experiment(target.fn, reference, "fp64", target.inputs, plan))
