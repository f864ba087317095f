"""One meaning per class name across the packages."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _places() -> dict[str, list[str]]:
    found = defaultdict(list)
    for top in ("render", "interval_ops"):
        for path in sorted((ROOT / top).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_has_one_meaning() -> None:
    assert not {name: files for name, files in _places().items() if len(files) > 1}
