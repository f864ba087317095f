"""The second evaluation shares data with the first, and no code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import render.witness

ROOM = Path(render.witness.__file__).parent
FORMULAS = sorted(p for p in ROOM.glob("*.py") if p.name not in ("make.py", "second.py"))
ALLOWED = {"interval_ops.formats.model"}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", FORMULAS, ids=lambda p: p.stem)
def test_formulas_import_nothing_of_the_engine(path: Path) -> None:
    for name in imported(path):
        root = name.split(".")[0]
        assert root not in ("numba", "torch", "triton"), name
        assert root != "interval_ops" or name in ALLOWED, name
        assert root != "render" or name.startswith("render.witness"), name
