"""Runs what a guide shows. `python -m tests.docs.guides [PAGE ...]` writes what is printed into the pages.

A python block whose first line is `# NAME.py` is a file; one with `>>>` is a doctest, all of a page in one namespace.
In a console block, `$ ` stands before a command, and below it what it prints. Each page has a folder of its own.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CUT = "..."
QUIET = {"RENDER_PROGRESS": "0"}
"""How long a command took decides whether progress is shown."""
LONGEST = 16


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands of a console block with the lines below each."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        first, *rest = part.rstrip("\n").split("\n")
        yield first, rest


def run(page: Path) -> Iterator[tuple[str, str, list[str], str]]:
    """(kind, what is run, what the page prints, what was printed) of a page, in the present folder."""
    names: dict[str, object] = {}
    for kind, text in BLOCK.findall(page.read_text()):
        name = re.match(r"# (\S+\.py)\n", text)
        if kind == "python" and name:
            Path(name[1]).write_text(text)
            sys.modules.pop(Path(name[1]).stem, None)
        elif kind == "python" and ">>>" in text:
            test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
            said: list[str] = []
            doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(
                test, out=said.append, clear_globs=False
            )
            names = test.globs
            yield "python", text, [], "".join(said)
        elif kind == "console":
            for command, printed in commands(text):
                yield "console", command, printed, execute(command)


def execute(command: str) -> str:
    """What a command prints; those of render run in this process."""
    words = _split(command)
    if words[0] != "render" or "pytest" in words:
        plugin = ["-p", "render.front.plugin"] if words[0] == "pytest" and not _installed() else []
        words = [sys.executable, "-m", words[0], *plugin, *words[1:]] if words[0] in ("pytest", "render") else words
        env = {**os.environ, **QUIET, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, capture_output=True, text=True, env=env)
        return done.stdout + done.stderr
    from render.cli import app

    found = CliRunner(env=QUIET).invoke(app, words[1:])
    assert found.exit_code != 4 and (found.exception is None or isinstance(found.exception, SystemExit)), found.output
    return found.output


def _installed() -> bool:
    """Whether pytest finds the plugin by itself."""
    return any(found.value.startswith("render") for found in entry_points(group="pytest11"))


def _split(command: str) -> list[str]:
    import shlex

    return shlex.split(command)


def plain(text: str) -> str:
    """On one line, without what another processor, folder or day may change: numbers that are no line, and folders."""
    text = re.sub(r"[^\s(`]*/(?=[\w.-]+\.\w+)", "", " ".join(text.split()))
    return re.sub(r"(?<![\w:.])-?\d[\d.]*(e[-+]?\d+)?", "#", text)


def missing(printed: list[str], got: str) -> list[str]:
    """Lines of the page that do not follow each other in the output, however that is wrapped."""
    whole, lost = plain(got), []
    for line in printed:
        if line.strip() in ("", CUT):
            continue
        _, found, rest = whole.partition(plain(line))
        lost += [] if found else [line]
        whole = rest if found else whole
    return lost


def _steady(lines: list[str]) -> Iterator[str]:
    """Without the sentence on how many elements differ: processors sum in other orders."""
    skipping = False
    for line in lines:
        if "elements differ" in line or "element differs" in line:
            skipping = True
            yield f"    {CUT}"
        skipping = skipping and line.startswith("    ")
        if not skipping:
            yield line


def write(page: Path) -> None:
    """Puts what commands print below them, at most `LONGEST` lines each."""
    found = iter([got for kind, _, _, got in run(page) if kind == "console"])

    def filled(block: re.Match[str]) -> str:
        if block[1] != "console":
            return block[0]
        lines = []
        for command, shown in commands(block[2]):
            got = next(found)
            if shown and not missing(shown, got):  # it is right as it stands
                lines += [f"$ {command}", *shown]
                continue
            said = [line.rstrip() for line in got.splitlines() if "warn" not in line.lower()]
            said = list(_steady([re.sub(r"\S*/(?=(kernels/|\w+\.py\b))", "", line) for line in said]))
            lines += [f"$ {command}", *(said if len(said) <= LONGEST else [*said[: LONGEST - 1], CUT])]
        return "```console\n" + "\n".join(lines) + "\n```"

    page.write_text(BLOCK.sub(filled, page.read_text()))


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:] or sorted(str(p) for p in GUIDES.glob("*.md")):
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            sys.path.insert(0, str(ROOT))
            for note in GUIDES.glob("*.ipynb"):
                Path(note.name).write_bytes(note.read_bytes())
            write(page)
        os.chdir(ROOT)
