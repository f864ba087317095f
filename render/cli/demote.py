"""`render demote FILE`: which values of an fp32 kernel may be kept in fewer bits?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from render.cli.exits import guarded
from render.cli.files import apart
from render.cli.options import EntryName, InputsFile, InputSpecs, JsonPath, Seed, TargetProfile
from render.cli.output import console, give
from render.result.errors import RenderError
from render.result.options import INPUTS, REPORT
from render.result.progress import progress

if TYPE_CHECKING:
    from render.companions.called import Called
    from render.entry.inputs import Inputs


@guarded
def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Python file with an fp32 kernel and its launcher.")],
    atol: Annotated[float, typer.Option(min=0, help="Absolute error that is allowed.")] = 1e-3,
    rtol: Annotated[float, typer.Option(min=0, help="Relative error that is allowed.")] = 1e-3,
    formats: Annotated[
        str, typer.Option(metavar="LIST", help="fp16, bf16, tf32 (dots), fp8e4nv, fp8e5 (loads, dots).")
    ] = "fp16,bf16",
    entry: EntryName = None,
    device: TargetProfile = "any",
    inputs: InputsFile = None,
    input: InputSpecs = None,
    box: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LO:HI",
            help="Certify for all values of an input in LO..HI. Repeatable.",
            rich_help_panel=INPUTS,
        ),
    ] = None,
    seed: Seed = 0,
    evaluations: Annotated[int, typer.Option(min=1, help="Rewritten kernels that are run at most.")] = 100,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Write the demoted file.", rich_help_panel=REPORT),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Instead: which single change makes the kernel more accurate.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Draw the choices.", rich_help_panel=REPORT)] = None,
    json: JsonPath = None,
) -> int:
    """Values of a kernel that may be fp16, bf16, tf32 or fp8, with the error of the rewritten kernel certified.

    Exit code 0; 1 where the kernel as it is breaks the tolerance.
    """
    if not atol and not rtol:
        raise RenderError("RND902", "no tolerance", "give --atol or --rtol above zero")
    apart(output, protected=(file, inputs))
    chosen = tuple(dict.fromkeys(name.strip() for name in formats.split(",") if name.strip()))
    with progress(f"demoting {file.name}"):
        from render.companions.called import called
        from render.companions.demotion.proposal import propose

        target = called(file, entry, inputs, input or [])
        given = target.inputs(seed)
        if repair:
            return _repaired(target, given, device, output)
        certificate, scope = None, "these inputs"
        if box:
            from render.companions.demotion.boxes import box as read

            certificate, scope = read(given, box), f"all inputs in {', '.join(box)}, elements that were followed"
            given = certificate.draw(given, seed)
        found = propose(target, given, atol, rtol, chosen, device, evaluations, certificate, scope)
    give(found.to_dict(), json, lambda: [found.report()], [(output, found.save), (plot, found.plot)])
    return 0 if found.base.certified.passes else 1


def _repaired(target: Called, given: Inputs, device: str, output: Path | None) -> int:
    from render.companions.demotion.promotion import promotions

    found = promotions(target, given, device)
    if output is not None and found:
        output.write_text(found[0].source, encoding="utf-8")
    for each in found:
        console().print(each.sentence, soft_wrap=True)
    if not found:
        console().print("no single change that is known here shrinks both the bound and the error", soft_wrap=True)
    return 0
