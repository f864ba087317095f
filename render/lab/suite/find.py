"""Which files of a suite hold something to judge: tables of cases, kernels with their reference, tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from render.result.errors import RenderError


class SourceKind(Enum):
    """`cases()` of a case file; `make_inputs()` and `reference()` beside a kernel; tests for pytest."""

    CASES = "cases"
    SINGLE = "single"
    TESTS = "tests"


@dataclass(frozen=True)
class Found:
    """A file, or for pytest a file with the tests in it that were asked for (`test_x.py::test_name`)."""

    path: Path
    kind: SourceKind
    tests: str = ""

    @property
    def argument(self) -> str:
        return f"{self.path}::{self.tests}" if self.tests else str(self.path)


def find(paths: Sequence[str]) -> list[Found]:
    """What the paths name, in their order; folders are searched. RenderError where one holds nothing."""
    found: list[Found] = []
    for given in paths:
        name, _, tests = given.partition("::")
        path = Path(name)
        if not path.exists():
            raise RenderError("RND902", f"no such file or folder: {name}", "give test files, case files or folders")
        if not (path.is_file() or path.is_dir()):  # a pipe would be waited for
            raise RenderError(
                "RND902", f"neither a file nor a folder: {name}", "give test files, case files or folders"
            )
        here = list(_search(path)) if path.is_dir() else [Found(path, _kind(path) or SourceKind.TESTS, tests)]
        if not here:
            hint = "a suite holds test_*.py, files with cases(), or files with make_inputs() and reference()"
            raise RenderError("RND902", f"nothing to judge in {name}", hint)
        found += [f for f in here if f not in found]
    return found


def _search(folder: Path) -> Iterator[Found]:
    for path in sorted(folder.rglob("*.py")):
        if any(part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts):
            continue
        kind = _kind(path) if path.is_file() else None
        if kind is not None:
            yield Found(path, kind)


def _kind(path: Path) -> SourceKind | None:
    """By what the file defines at its top level, then by its name; None for neither."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "cases" in functions:
        return SourceKind.CASES
    if path.name.startswith("test_") or path.stem.endswith("_test"):
        return SourceKind.TESTS
    return SourceKind.SINGLE if {"make_inputs", "reference"} <= functions else None
