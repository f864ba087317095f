"""`render record FILE -o run.safetensors`: call the entry function on this machine's device and write it down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from render.cli.exits import guarded
from render.cli.files import apart
from render.cli.options import EntryName, InputsFile, InputSpecs, KernelFile
from render.result.errors import RenderError
from render.result.options import INPUTS


@guarded
def command(
    file: KernelFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="The recording, a .safetensors file.")],
    entry: EntryName = None,
    inputs: InputsFile = None,
    input: InputSpecs = None,
    modules: Annotated[
        bool,
        typer.Option("--modules", help="FILE holds a model (FILE::NAME, default model): record every module's border."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the inputs and of the call.", rich_help_panel=INPUTS)] = 0,
) -> int:
    """Run the entry function as it is, on this machine's GPU, and record inputs, output, versions and device.

    The file goes to render classify FILE --recording PATH, on any machine.
    """
    from render.entry.recording import record_file

    if modules:
        from render.cli.models import record_model

        path, _, name = str(file).partition("::")
        apart(output, protected=(Path(path), inputs))
        typer.echo(record_model(f"{path}::{entry or name or 'model'}", output, inputs, seed))
        return 0
    apart(output, protected=(file, inputs))
    if not file.is_file():
        raise RenderError("RND902", f"no such file: {file}", "FILE is the Python file that launches the kernel")
    typer.echo(record_file(output, file, entry, inputs, tuple(input or ()), seed))
    return 0
