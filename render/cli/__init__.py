"""The `render` command: one file per subcommand, heavy imports only inside the command that needs them."""

from __future__ import annotations

from render.cli.app import app


def main() -> None:
    """Entry point of `render` and of `python -m render`."""
    app(prog_name="render")


__all__ = ["app", "main"]
