"""Files that a command writes: looked at before the run, and never somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

from render.result.errors import RenderError

STDOUT = "-"
_MARKS = (
    b'{\n  "schema"', b'<meta name="generator" content="RENDER', b'"$schema": "https://json.schemastore.org/sarif',
    b"<testsuite", b"tEXtSoftware\0RENDER", b"<dc:title>RENDER</dc:title>",
)  # fmt: skip
"""What the files that we write have in their first bytes."""


def writable(*paths: Path | str | None, protected: tuple[Path | None, ...] = ()) -> None:
    """Raises RenderError (RND901) for a path that cannot be written, is one of the `protected` files or of the other
    paths, or holds something that is not a report of ours."""
    taken = [path.resolve() for path in protected if path is not None]
    for path in (Path(p) for p in paths if p is not None and str(p) != STDOUT):
        if path.resolve() in taken:
            raise RenderError("RND901", f"{path} is a file of this command: it is not overwritten", "name another file")
        taken.append(path.resolve())
        if path.is_dir():
            raise RenderError("RND901", f"cannot write {path}: it is a folder", "name a file in it")
        if not path.parent.is_dir():
            raise RenderError("RND901", f"cannot write {path}: there is no folder {path.parent}", "make it first")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise RenderError("RND901", f"cannot write {path}: permission denied", "name a file that you may write")
        if path.exists() and not _ours(path):
            hint = "name another file, or remove this one"
            raise RenderError("RND901", f"{path} exists and is no report of RENDER: it is not overwritten", hint)


def _ours(path: Path) -> bool:
    if not path.is_file():
        return path == Path(os.devnull)
    head = path.read_bytes()[:1200]
    return not head.strip() or any(mark in head for mark in _MARKS)
