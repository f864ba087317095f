"""Which tests run which lines of the interpreter, and what each of them costs.

    python benchmarks/executed.py [--map PATH] [TESTS ...]

Runs the tests that are not slow in one process, with a mark set before every statement of `render/interpreter`, and
writes a line of JSON for each: its name, its seconds of CPU time, and for each file the first lines of the statements
that it ran. `benchmarks/mutation.py` tries a mutant against the tests that run its statement, the cheapest first, where
its file is the one that the map was made with, else against those that run anything in the file, and for compiled
functions against those of the folder. What ran when modules were imported, and in other processes, is in no test's
row. The default of --map is a file in the user's cache, which mutation.py makes where it is not there; delete it to
have it made anew.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.abc
import importlib.machinery
import json
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, TextIO

import pytest
from platformdirs import user_cache_path

ROOT = Path(__file__).resolve().parent.parent
PART = ROOT / "render" / "interpreter"
MARKS = "_executed_marks"
DEFAULT = tuple(f"tests/render/{name}" for name in (
    "interpreter", "explain", "judgement", "reference", "test_classify.py", "test_arguments.py", "exact", "report",
    "witness", "trace", "network", "result", "entry", "front", "companions", "ops"))  # fmt: skip
"""Those that have to do with the interpreter and run it in their own process, the nearest first."""
_BLOCKS = "body", "orelse", "finalbody"


def statements(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements below a node, but for those of modules and classes."""
    for node in ast.walk(tree):
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, ast.Module | ast.ClassDef):
                yield block


def first_line(text: str, line: int) -> int:
    """The first line of the innermost statement of a function in Python that holds this line; 0: there is none."""
    return max((s.lineno for b in _inside(text) for s in b if s.lineno <= line <= (s.end_lineno or 0)), default=0)


def in_python(path: Path, line: int) -> bool:
    """Whether a line is one of a function that Python runs."""
    return first_line(path.read_text(), line) > 0


@cache
def _inside(text: str) -> list[list[ast.stmt]]:
    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and not _compiled(n))
    return [b for f in functions for b in statements(f)]


class Marked(importlib.machinery.SourceFileLoader):
    """Loads a module with a mark before each statement of its functions."""

    seen: dict[str, tuple[bytearray, list[int]]] = {}  # noqa: RUF012  of all modules

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        tree, lines = ast.parse(data), list[int]()
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and not _compiled(n)]
        blocks = {id(b): b for f in functions for b in statements(f)}
        for block in blocks.values():
            block[:] = [s for old in block for s in (*_mark(old, len(lines), lines), old)]
        self.seen[str(Path(path).relative_to(ROOT))] = (bytearray(len(lines)), lines)
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: Any) -> None:
        code = self.get_code(module.__name__)
        module.__dict__[MARKS] = self.seen[str(Path(self.path).relative_to(ROOT))][0]
        exec(code, module.__dict__)


def _mark(before: ast.stmt, place: int, lines: list[int]) -> list[ast.stmt]:
    if isinstance(before, ast.Global | ast.Nonlocal) or (
        isinstance(before, ast.Expr) and isinstance(before.value, ast.Constant)
    ):
        return []
    lines.append(before.lineno)
    target = ast.Subscript(ast.Name(MARKS, ast.Load()), ast.Constant(place), ast.Store())
    return [ast.copy_location(ast.Assign([target], ast.Constant(1)), before)]


def _compiled(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(d) in ("compiled", "inlined") for d in function.decorator_list)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("render.interpreter"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Marked(name, spec.loader.path)
        return spec


class Recorder:
    """A plugin of pytest that writes a row for each test."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.failed = out, False

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for marks, _ in Marked.seen.values():
            marks[:] = bytes(len(marks))
        self.failed, start = False, time.process_time()
        yield
        spent = time.process_time() - start
        ran = {p: sorted({n for hit, n in zip(m, lines, strict=True) if hit}) for p, (m, lines) in Marked.seen.items()}
        row = {"test": item.nodeid, "seconds": round(spent, 3), "passed": not self.failed}
        print(json.dumps(row | {"lines": {p: n for p, n in ran.items() if n}}), file=self.out, flush=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= not report.passed


def make(out: Path, tests: list[str]) -> None:
    """Writes the map of these tests; the files that it was made with stand in its first line."""
    out.parent.mkdir(parents=True, exist_ok=True)
    held = {str(p.relative_to(ROOT)): digest(p) for p in sorted(PART.rglob("*.py"))}
    sys.meta_path.insert(0, _Finder())
    with out.open("w") as f:
        print(json.dumps({"files": held}), file=f)
        pytest.main(
            ["-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no", "--assert=plain", *tests],
            plugins=[Recorder(f)],
        )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Map:
    """What `make` wrote."""

    def __init__(self, path: Path) -> None:
        head, *rows = [json.loads(line) for line in path.open()]
        self.files: dict[str, str] = head["files"]
        self.rows = sorted((r for r in rows if r["passed"]), key=lambda r: r["seconds"])

    def tests(self, path: str, line: int) -> list[tuple[str, float]]:
        """(test, seconds) of those that run the statement of this line and are still there, the cheapest first; of
        compiled functions, which have no marks, those of the folder."""
        whole = ROOT / path
        at = first_line(whole.read_text(), line)
        folder = "" if at else f"tests/{Path(path).parent}/"
        if self.files.get(path) != digest(whole):
            at = 0
        ran = [
            r for r in self.rows
            if (path in r["lines"] and (not at or at in r["lines"][path])) or (folder and r["test"].startswith(folder))
        ]  # fmt: skip
        return [(r["test"], r["seconds"]) for r in ran if _there(r["test"].partition("[")[0])]


@cache
def _there(test: str) -> bool:
    path, _, name = test.partition("::")
    return (ROOT / path).exists() and f"def {name.rpartition('::')[2]}(" in (ROOT / path).read_text()


def cached() -> Path:
    return user_cache_path("render", appauthor=False) / "executed.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", type=Path, default=cached())
    parser.add_argument("tests", nargs="*", default=list(DEFAULT))
    args = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    make(args.map, args.tests)


if __name__ == "__main__":
    main()
