"""The second evaluation and its arithmetic share data with the first, and no code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import render.exact
import render.witness

ROOM, NUMBERS = (Path(package.__file__).parent for package in (render.witness, render.exact))
FORMULAS = sorted(p for p in ROOM.glob("*.py") if p.name != "make.py")
ALLOWED = {"interval_ops.formats.model"}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", [*FORMULAS, *sorted(NUMBERS.glob("*.py"))], ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_formulas_import_nothing_of_the_engine(path: Path) -> None:
    rooms = ("render.exact", "render.witness") if path.parent == ROOM else ("render.exact",)
    for name in imported(path):
        root = name.split(".")[0]
        assert root not in ("numba", "torch", "triton"), name
        assert root != "interval_ops" or name in ALLOWED, name
        assert root != "render" or name.startswith(rooms), name
