"""One meaning per class name across the packages."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = {"Call"}
"""Names that still stand for several things: take one out when it is settled, put none in."""


def _shared() -> dict[str, list[str]]:
    found = defaultdict(list)
    for top in ("render", "interval_ops"):
        for path in sorted((ROOT / top).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return {name: files for name, files in found.items() if len(files) > 1}


def test_a_class_name_has_one_meaning() -> None:
    assert not {name: files for name, files in _shared().items() if name not in SHARED}


def test_there_are_few_exceptions() -> None:
    assert len(SHARED) <= 1
