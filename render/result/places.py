"""Names of files as people know them: relative paths, and cells of notebooks."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_CELL = re.compile(r"<ipython-input-(\d+)-|#cell(\d+)$")


def relative(file: str) -> str:
    """The file relative to the working directory where it lies below it; `cell [3]` for a cell of a notebook."""
    if named := cell(file):
        return named
    try:
        short = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if short.startswith("..") else Path(short).as_posix()


def cell(file: str) -> str:
    """What a cell of a notebook is called; "" for any other file."""
    if found := _CELL.search(file):
        return f"{file[: found.start()]} cell [{found[1] or found[2]}]".strip()
    number = _number(file) if f"ipykernel_{os.getpid()}" in file else 0
    return f"cell [{number}]" if number else ""


def _number(file: str) -> int:
    """The last cell that was compiled under this name, 0 if there is none: the name is a digest of its text."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(file)  # ("Cell", "In[3]")
    found = re.search(r"\d+", named[1]) if named else None
    return int(found[0]) if found else 0
