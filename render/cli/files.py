"""Files that a command writes: looked at before the run, and never somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from render.result.errors import RenderError
from render.result.needs import drawable

STDOUT = "-"
_REPORTS = ("json", "html", "plot", "junit")
"""Options whose value is a file that the command writes."""
_MARKS = (
    b'{\n  "schema"', b'<meta name="generator" content="RENDER', b'"$schema": "https://json.schemastore.org/sarif',
    b"<testsuite", b"tEXtSoftware\0RENDER", b"<dc:title>RENDER</dc:title>",
)  # fmt: skip
"""What the files that we write have in their first bytes."""
_PDF, _PDF_MARK = b"%PDF", b"/Creator (RENDER)"
"""A document of that kind has it near its end."""


def writable(*paths: Path | str | None, protected: Iterable[Path | str | None] = ()) -> None:
    """Raises RenderError (RND901) for a path that cannot be written, is one of the `protected` files or of the other
    paths, or holds something that is not a report of ours."""
    apart(*paths, protected=protected)
    for path in _named(paths):
        if path.exists() and not _ours(path):
            hint = "name another file, or remove this one"
            raise RenderError("RND901", f"{path} exists and is no report of RENDER: it is not overwritten", hint)


def apart(*paths: Path | str | None, protected: Iterable[Path | str | None] = ()) -> None:
    """`writable` for what need not look like a report of ours: a kernel, a recording."""
    taken = [os.path.realpath(path) for path in protected if path is not None]
    for path in _named(paths):
        real = os.path.realpath(path)
        if real in taken:
            raise RenderError("RND901", f"{path} is a file of this command: it is not overwritten", "name another file")
        taken.append(real)
        if os.path.islink(real):
            raise RenderError("RND901", f"cannot write {path}: it is a link to itself", "name another file")
        if path.is_dir():
            raise RenderError("RND901", f"cannot write {path}: it is a folder", "name a file in it")
        if not path.parent.is_dir():
            raise RenderError("RND901", f"cannot write {path}: there is no folder {path.parent}", "make it first")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise RenderError("RND901", f"cannot write {path}: permission denied", "name a file that you may write")


def spared(arguments: Mapping[str, object]) -> None:
    """`writable` for the reports among a command's arguments, which are apart from all that the others name."""
    given = {name: tuple(_texts(value)) for name, value in arguments.items()}
    for name in _REPORTS[1:]:
        if STDOUT in given.get(name, ()):
            raise RenderError("RND901", f"--{name} - : only --json writes to stdout", "name a file")
    for text in given.get("plot", ()):
        drawable(Path(text))
    others = (text.partition("::")[0] for name, texts in given.items() if name not in _REPORTS for text in texts)
    writable(*(text for name in _REPORTS for text in given.get(name, ())), protected=others)


def _named(paths: Iterable[Path | str | None]) -> Iterator[Path]:
    return (Path(path) for path in paths if path is not None and str(path) != STDOUT)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str | Path):
        yield str(value)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _ours(path: Path) -> bool:
    if not path.is_file():
        return path == Path(os.devnull)
    text = path.read_bytes()
    head = text[:1200]
    pdf = head.startswith(_PDF) and _PDF_MARK in text
    return pdf or not head.strip() or any(mark in head for mark in _MARKS)
