"""The `render` command: one file per subcommand, heavy imports only inside the command that needs them.

`app` is the typer application, loaded on first use: a call that a running server answers needs none of it.
"""

from __future__ import annotations

import faulthandler
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from render.cli.leave import leave


def main() -> None:
    """Entry point of `render` and of `python -m render`."""
    from render.cli.serving.client import served
    from render.cli.surroundings import streams

    streams()
    faulthandler.enable()  # user code that ends the process by a signal is named with its line
    code = served(sys.argv[1:])
    if code is not None:
        leave(code)
    try:
        application()(prog_name="render")
    except SystemExit as stop:
        leave(stop.code)


class _KeepsApp(ModuleType):
    """Importing the submodule `render.cli.app` binds the module to the application's name; this keeps the latter."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.app if name == "app" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _KeepsApp


def application() -> Any:
    return import_module("render.cli.app").app


def __getattr__(name: str) -> Any:
    if name == "app":
        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["app", "main"]
