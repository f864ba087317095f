"""The `render` command: one file per subcommand, heavy imports only inside the command that needs them."""

from __future__ import annotations

from render.cli.app import app
from render.cli.leave import leave


def main() -> None:
    """Entry point of `render` and of `python -m render`."""
    try:
        app(prog_name="render")
    except SystemExit as stop:
        leave(stop.code)


__all__ = ["app", "main"]
