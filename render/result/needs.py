"""Packages that only some commands need, imported where they are used; one line says how to get what is missing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from render.result.errors import RenderError


def stats() -> Any:
    """scipy.stats."""
    return _imported("scipy.stats", "stats")


def pyplot() -> Any:
    """matplotlib.pyplot, drawing into files."""
    _imported("matplotlib", "plot").use("Agg")
    return import_module("matplotlib.pyplot")


_MARKS = {".png": {"Software": "RENDER"}, ".svg": {"Creator": "RENDER", "Date": None}, ".pdf": {"Creator": "RENDER"}}
"""What a picture of ours says of itself, by the suffix of its file."""


def drawable(path: Path) -> None:
    """Raises RenderError for a file that cannot be drawn into, and where matplotlib is not there."""
    if path.suffix.lower() not in _MARKS:
        raise RenderError("RND901", f"cannot draw into {path}", "name a .png, .svg or .pdf")
    pyplot()


def drawn(figure: Any, path: Any, dpi: int = 130) -> None:
    """Writes a figure to a file, or a stream as PNG, as one of RENDER's, and closes it."""
    if stream := hasattr(path, "write"):
        suffix = ".png"
    else:
        drawable(Path(path))
        suffix = Path(path).suffix.lower()
    try:
        figure.savefig(path, dpi=dpi, metadata=_MARKS[suffix], format="png" if stream else None)
    finally:
        pyplot().close(figure)


def _imported(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.split(".")[0]
        raise RenderError("RND902", f"this needs {package}", f"pip install 'render-triton[{extra}]'") from None
