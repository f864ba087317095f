"""The console that commands print to."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 100


def console() -> Console:
    """stdout as a rich console: no colour under NO_COLOR or off a terminal, a fixed width where there is none."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            """The reader of `render ... | head` has gone: `exits.guarded` keeps the command's exit code."""
            raise BrokenPipeError

    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _PIPED_WIDTH
    return Pipe(width=width, highlight=False, markup=False, emoji=False)
