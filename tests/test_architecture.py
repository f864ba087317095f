"""The plan of the house: which package may import which, lazy and typing-only imports counted.

`FLOORS` lists the rooms from the ground up. A room imports rooms below it only; whoever wants another arrow changes the
plan here, where it is seen, and in docs/how-it-works.md.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = (
    "interval_ops",
    "render.result", "render.ops", "render.interpreter", "render.entry", "render.exact", "render.trace",
    "render.reference", "render.explain", "render.witness", "render.report", "render.judgement", "render.classify",
    "render.network", "render.companions", "render.front", "render", "render.lab", "render.sweep", "render.cli",
    "benchmarks",
)  # fmt: skip
ARROWS = 80
"""More arrows than this between the rooms of the tool, and the plan is no longer one. Benchmarks stand outside the
house, as tests do: their arrows must run down, and are not counted."""
LOOSE = {"__init__.py", "__main__.py", "classify.py"}
GROUND = {"interval_ops": {"torch", "triton", "render"}}
"""What a room must not import at all."""


def _modules() -> dict[str, Path]:
    found = {}
    for top in ("interval_ops", "render", "benchmarks"):
        for path in (ROOT / top).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = _modules()


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file names in an import statement, wherever the statement stands, with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}:{node.lineno}: imports are absolute here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in MODULES else node.module), node.lineno


def room(module: str) -> str:
    if module == "render.__main__":
        return "render.cli"
    parts = module.split(".")
    return parts[0] if parts[0] != "render" or len(parts) == 1 else ".".join(parts[:2])


def _arrows() -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        for target, line in imports(path):
            if target in MODULES and room(target) != room(module):
                found[room(module), room(target)].append(f"{path.relative_to(ROOT)}:{line} imports {target}")
    return found


def test_every_room_stands_on_a_floor():
    assert {room(module) for module in MODULES} <= set(FLOORS)


def test_arrows_run_down():
    rising = {pair: places for pair, places in _arrows().items() if FLOORS.index(pair[1]) >= FLOORS.index(pair[0])}
    assert not rising, "\n".join(place for places in rising.values() for place in places)


def test_there_are_few_arrows():
    assert len([pair for pair in _arrows() if pair[0] != "benchmarks"]) <= ARROWS


def test_no_loose_files_at_the_top():
    assert {path.name for path in (ROOT / "render").glob("*.py")} == LOOSE


@pytest.mark.parametrize("name", GROUND)
def test_what_a_room_must_not_import(name):
    wrong = [
        f"{path}:{line} imports {target}"
        for module, path in MODULES.items() if room(module) == name
        for target, line in imports(path) if target.split(".")[0] in GROUND[name]
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_a_rising_arrow_would_be_seen(tmp_path):
    """The test of the test: an import inside a function, for types only, or of a submodule is an arrow."""
    file = tmp_path / "lazy.py"
    file.write_text("def f():\n    from render.report import html\n\nif TYPE_CHECKING:\n    import render.cli.app\n")
    assert [target for target, _ in imports(file)] == ["render.report.html", "render.cli.app"]


LONGEST = 500
"""Lines of a source file. Half of the files have less than a quarter of that."""


def test_files_are_one_thing_each():
    inside = {path for name, path in MODULES.items() if not name.startswith("benchmarks")}
    assert not {str(path): n for path in inside if (n := len(path.read_text().splitlines())) > LONGEST}


PARAMETERS = 10
WIDE = {
    "render/cli/accum.py:command": "typer reads the options from the parameters",
    "render/cli/classify.py:command": "typer reads the options from the parameters",
    "render/cli/classify_model.py:command": "typer reads the options from the parameters",
    "render/cli/demote.py:command": "typer reads the options from the parameters",
    "render/cli/dual_delta.py:command": "typer reads the options from the parameters",
    "render/cli/suite.py:command": "typer reads the options from the parameters",
    "render/cli/sweep.py:command": "typer reads the options from the parameters",
    "render/interpreter/builder/scaled_dots.py:create_dot_scaled": "Triton's own signature",
}
"""Functions with more parameters than that, and why."""


def _wide() -> set[str]:
    found = set()
    for path in (path for name, path in MODULES.items() if not name.startswith("benchmarks")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = node.args
                if len(taken.posonlyargs) + len(taken.args) + len(taken.kwonlyargs) > PARAMETERS:
                    found.add(f"{path.relative_to(ROOT)}:{node.name}")
    return found


def test_functions_take_few_parameters():
    """What belongs together is a record; compiled kernels take NamedTuples."""
    assert _wide() == set(WIDE)


def test_no_dispatch_mode_brings_in_a_compiler():
    """A mode that does not say otherwise imports all of torch._dynamo when its first operation runs."""
    silent = []
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "TorchDispatchMode" in map(ast.unparse, node.bases):
                said = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
                silent += [] if "_should_skip_dynamo" in said else [f"{path.name}:{node.lineno} {node.name}"]
    assert not silent
