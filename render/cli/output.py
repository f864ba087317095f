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

    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)
