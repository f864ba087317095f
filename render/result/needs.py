"""Packages that only some commands need, imported where they are used; one line says how to get what is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from render.result.errors import RenderError


def stats() -> Any:
    """scipy.stats."""
    return _imported("scipy.stats", "stats")


def pyplot() -> Any:
    """matplotlib.pyplot, drawing into files."""
    _imported("matplotlib", "plot").use("Agg")
    return import_module("matplotlib.pyplot")


def _imported(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.split(".")[0]
        raise RenderError("RND902", f"this needs {package}", f"pip install 'render-triton[{extra}]'") from None
