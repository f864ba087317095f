"""`render accum [FILE]`: is an accumulator wide enough?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from render.cli.exits import guarded
from render.cli.options import EntryName, InputsFile, InputSpecs, JsonPath, Seed, TargetProfile
from render.cli.output import give
from render.result.errors import RenderError
from render.result.options import REPORT
from render.result.progress import progress

if TYPE_CHECKING:
    from render.companions.accumulation import Swamping

_INDEX = "Index (without FILE)"


@guarded
def command(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Python file with the kernel; without it, the index alone.")
    ] = None,
    entry: EntryName = None,
    device: TargetProfile = "any",
    inputs: InputsFile = None,
    input: InputSpecs = None,
    seed: Seed = 0,
    loss: Annotated[float, typer.Option(min=0, help="Relative rms error that an accumulator may have.")] = 1e-3,
    elements: Annotated[int, typer.Option(min=1, help="Elements of each output that are looked at.")] = 16,
    length: Annotated[float, typer.Option("--length", "-n", min=1, help="Terms.", rich_help_panel=_INDEX)] = 4096,
    operands: Annotated[
        str, typer.Option(help="Format whose products are summed: fp16, bf16, fp8e5, ...", rich_help_panel=_INDEX)
    ] = "fp16",
    products: Annotated[
        int | None, typer.Option(min=0, help="Mantissa bits of a term, instead.", rich_help_panel=_INDEX)
    ] = None,
    bits: Annotated[
        list[int] | None, typer.Option(min=1, max=64, help="AccumulatorModel bits. Repeatable.", rich_help_panel=_INDEX)
    ] = None,
    chunk: Annotated[int | None, typer.Option(min=1, help="Terms per chunk.", rich_help_panel=_INDEX)] = None,
    nonzero: Annotated[
        float, typer.Option(min=1e-12, max=1, help="Share of the terms that is not zero.", rich_help_panel=_INDEX)
    ] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Draw the index's curves.", rich_help_panel=REPORT)
    ] = None,
    json: JsonPath = None,
) -> int:
    """What the accumulators of a kernel lose on the terms that they really sum, and what width would do.

    Exit code 0; 1 where an accumulator of FILE loses more than --loss.
    """
    m_p = _bits_of(operands) if products is None else products
    if file is None:
        from render.companions.widths import table

        found = table(length, m_p, chunk, nonzero, tuple(bits or ()))
        give(found, json, lambda: _index(found))
    if plot is not None:
        from render.companions.widths import curves

        curves(plot, m_p, tuple(bits or (5, 6, 7, 8, 9, 10, 12)), chunk)
    return 0 if file is None else _kernel(file, entry, device, (inputs, input or [], seed), loss, elements, json)


def _bits_of(operands: str) -> int:
    from interval_ops.formats.model import FORMATS
    from render.companions.widths import product_bits

    if operands not in FORMATS:
        raise RenderError("RND902", f"no format {operands!r}", f"one of {', '.join(FORMATS)}")
    return product_bits(operands)


def _index(found: dict[str, Any]) -> list[str]:
    chunk = "" if found["chunk"] is None else f" in chunks of {found['chunk']}"
    lines = [f"index (VRR): {found['n']:g} terms of {found['m_p']} mantissa bits{chunk}, zero mean assumed", ""]
    lines += ["  bits  format          VRR       ln v  wide enough  safe length"]
    for w in found["widths"]:
        passes = "yes" if w["suitable"] else "no"
        lines.append(
            f"  {w['m_acc']:4}  {w['format']:7} {w['vrr']:12.9f} {w['ln_v']:10.3g}  {passes:11}  {w['safe_length']}"
        )
    least = "no width passes" if found["min_macc"] is None else f"narrowest: {found['min_macc']} bits (v(n) < 50)"
    return [*lines, "", least, "An index ranks widths; `render accum FILE` measures what a kernel's sums lose."]


def _kernel(
    file: Path, entry: str | None, device: str, given: tuple[Path | None, list[str], int], loss: float, elements: int,
    json: str | None,
) -> int:  # fmt: skip
    from render.companions.accumulation import of_run
    from render.companions.called import called
    from render.entry.execution import Entry

    inputs, specs, seed = given
    with progress(f"summing what {file.name} sums"):
        target = called(file, entry, inputs, specs)
        call = Entry(target.fn, target.inputs(seed), device, seed)
        found = of_run(call, call.run(), loss, elements)
    give({"reductions": [s.to_dict() for s in found]}, json, lambda: _reductions(found))
    return int(any(s.short for s in found))


def _reductions(found: list[Swamping]) -> list[str]:
    if not found:
        return ["no reduction of four terms or more stands behind the elements that were looked at"]
    lines = []
    for s in found:
        lines += [f"{Path(s.file).name}:{s.line}  {s.op}: {s.sentence}"]
        vrr = "terms of one sign, or of unknown width" if s.index is None else f"VRR {s.index:.6g}"
        how = f"{s.accumulator.rounding}, {'pairwise' if s.accumulator.tree else 'one by one'}"
        verdict = "" if s.wide_enough is None else ", wide enough" if s.wide_enough else ", too narrow"
        lines += [
            f"    measured  rms {s.measured:.2g}, worst {s.worst:.2g}, swamped {100 * s.swamped:.2g} % "
            f"({s.rows} sums, {how})",
            f"    proved    half width of the bound at most {s.proved:.2g} of the sum",
            f"    index     {vrr}{verdict}",
        ]
    return lines
