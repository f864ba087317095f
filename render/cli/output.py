"""What a command hands out: the console it prints to, and its result as JSON and as further files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from render.cli.files import STDOUT
from render.cli.surroundings import streams, width
from render.result.errors import RenderError

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """stdout as a rich console: no colour under NO_COLOR or off a terminal, a fixed width where there is none."""
    from rich.console import Console

    streams()

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            """The reader of `render ... | head` has gone: `exits.guarded` keeps the command's exit code."""
            raise BrokenPipeError

    return Pipe(width=width(sys.stdout), highlight=False, markup=False, emoji=False)


def give(
    found: Mapping[str, Any], to: str | None, lines: Callable[[], Iterable[str]],
    files: Iterable[tuple[Path | None, Callable[[Path], object]]] = (),
) -> None:  # fmt: skip
    """`found` as JSON in the file `to` (- for stdout, then nothing else is printed there), the other files that have a
    path, and `lines` on the console. Raises RenderError (RND901) for a file that cannot be written."""
    text = json.dumps({"schema": 1, **found}, indent=2) + "\n"
    try:
        if to is not None and to != STDOUT:
            Path(to).write_text(text, encoding="utf-8")
        for path, write in files:
            if path is not None:
                write(path)
    except OSError as error:
        raise RenderError("RND901", f"cannot write {error.filename}: {error.strerror}") from None
    if to == STDOUT:
        typer.echo(text, nl=False)
        return
    out = console()
    for line in lines():
        out.print(line, soft_wrap=True)


def put(text: str, to: str | Path) -> None:
    """A text into a file, or to stdout for -. Raises RenderError (RND901) for a file that cannot be written."""
    if to == STDOUT:
        typer.echo(text, nl=False)
        return
    try:
        Path(to).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RenderError("RND901", f"cannot write {to}: {error.strerror}") from None
