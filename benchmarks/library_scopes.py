"""Every library of datasets/libraries under `render.no_gpu()`: imported, and its first kernel called, in four ways.

python benchmarks/library_scopes.py [LIBRARY ...] [--way WAY ...] [--kept FOLDER]

In plain Python, in workers of pytest-xdist, in a notebook, and on the command line, where its first case is judged.
Results are kept as FOLDER/scopes.json as they come, beside what is there; the page of libraries tells them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CASES = Path(__file__).resolve().parent.parent / "datasets" / "libraries"
SECONDS = 600
WAYS = ("plain Python", "pytest-xdist", "a notebook", "the command line")
CALL = """
import importlib.util, torch, render
with render.no_gpu():
    spec = importlib.util.spec_from_file_location("cases_of_{name}", {path!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    case = next(iter(module.cases()))
    torch.manual_seed(0)
    given = case.inputs()
    out = case.fn(**given) if isinstance(given, dict) else case.fn(*given)
    assert out is not None or given
"""


def call(name: str) -> str:
    return CALL.format(name=name, path=str(CASES / name / "cases.py"))


def run(command: list[str]) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        print((done.stdout + done.stderr)[-1500:], file=sys.stderr)
    return done.returncode == 0


def plainly(names: list[str]) -> Iterator[bool]:
    for name in names:
        yield run([sys.executable, "-W", "ignore", "-c", call(name)])


def under_xdist(names: list[str]) -> Iterator[bool]:
    """One run of all; libraries share the two workers."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            body = "".join(f"    {line}\n" for line in call(name).splitlines())
            Path(folder, f"test_{name}.py").write_text(f"def test_{name}():\n{body}")
        report = Path(folder, "report.xml")
        run([sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", f"--junitxml={report}", folder])
        cases = report.read_text().split("<testcase ")[1:] if report.exists() else []
    passed = {text.split('name="test_', 1)[1].split('"')[0] for text in cases if "<failure" not in text
              and "<error" not in text}  # fmt: skip
    yield from (name in passed for name in names)


def in_notebooks(names: list[str]) -> Iterator[bool]:
    import nbclient
    import nbformat

    for name in names:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(call(name))])
        try:
            nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3").execute()
        except nbclient.exceptions.CellExecutionError as error:
            print(str(error)[-1500:], file=sys.stderr)
            yield False
        else:
            yield True


def on_the_command_line(names: list[str]) -> Iterator[bool]:
    """Judged: the exit code is that of the worst case, so what counts is that a label is given."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            script, table = Path(folder, f"first_of_{name}.py"), Path(folder, f"{name}.json")
            script.write_text(f"import sys\nsys.path.insert(0, {str(CASES / name)!r})\n"
                              "import cases as every\ndef cases():\n    yield next(iter(every.cases()))\n")  # fmt: skip
            subprocess.run([sys.executable, "-m", "render", "suite", str(script), "--json", str(table)],
                           capture_output=True, timeout=SECONDS, check=False)  # fmt: skip
            told = table.read_text() if table.exists() else ""
            yield any(label in told for label in ('"Type-I"', '"Type-II"', '"Inconclusive"'))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--kept", type=Path, default=Path(".render/libraries"))
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    names = options.libraries or sorted(path.parent.name for path in CASES.glob("*/cases.py"))
    ways = dict(zip(WAYS, (plainly, under_xdist, in_notebooks, on_the_command_line), strict=True))
    options.kept.mkdir(parents=True, exist_ok=True)
    kept = options.kept / "scopes.json"
    found: dict[str, dict[str, bool]] = json.loads(kept.read_text()) if kept.is_file() else {}
    for way in options.way or WAYS:
        for name, worked in zip(names, ways[way](names), strict=True):
            found.setdefault(name, {})[way] = worked
            kept.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{name:<20} {way:<18} {'runs' if worked else 'FAILS'}", flush=True)


if __name__ == "__main__":
    main()
