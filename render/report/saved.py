"""The latest verdict, kept for `render explain last`, and a tally of what was caught inside RENDER."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render.result.errors import RenderError

if TYPE_CHECKING:
    from render.result.defects import Defect
    from render.result.verdict import Verdict

LAST = "last"


def folder() -> Path:
    """The platform's place for caches: $XDG_CACHE_HOME/render, or ~/.cache/render."""
    from platformdirs import user_cache_path

    return user_cache_path("render", appauthor=False)


def _latest() -> Path:
    """Where the latest verdict of this working directory is kept."""
    return folder() / "last" / f"{hashlib.sha256(os.getcwd().encode()).hexdigest()[:16]}.json"


def _call() -> Path:
    return _latest().with_suffix(".call.json")


def call_of_latest() -> dict[str, Any] | None:
    """What gave the latest verdict, if that can be asked again."""
    try:
        found = json.loads(_call().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def path_of(name: str) -> Path:
    """The file of a saved verdict; `last` is the latest one of this folder. Raises RenderError where there is none."""
    where = _latest() if name == LAST else Path(name)
    if not where.is_file():
        hint = "run `render classify FILE` in this folder first" if name == LAST else "write one with --json PATH"
        raise RenderError("RND901", f"no saved verdict: {where}", hint)
    return where


def read(name: str) -> dict[str, Any]:
    """The JSON of a saved verdict."""
    from render.result.loading import read

    return read(path_of(name))


def load(name: str) -> Verdict:
    from render.result.loading import load

    return load(path_of(name))


def keep(verdict: Verdict, call: Mapping[str, Any] | None = None) -> None:
    """Keeps a result, as far as it is, for `render explain last`; a read-only home is no reason to fail.

    `call`: what `render classify` was told, in JSON types, for what is explained only when it is asked for.
    """
    from render.result.verdict import written

    with contextlib.suppress(OSError):
        _latest().parent.mkdir(parents=True, exist_ok=True)
        with replacing(_latest()) as beside:
            beside.write_text(written(verdict.as_far()), encoding="utf-8")
        with replacing(_call()) as beside:
            beside.write_text(json.dumps(call), encoding="utf-8")
        if verdict.defects:
            tally(verdict.defects)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place at the end: readers never see half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def tally(defects: Iterable[Defect]) -> None:
    """Adds to the counts of what was caught, by its sentence."""
    counts = tallied()
    for defect in defects:
        key = f"{defect.doing}: {defect.error} at {defect.place}"
        counts[key] = counts.get(key, 0) + defect.count
    with replacing(folder() / "defects.json") as beside:
        beside.write_text(json.dumps(counts, indent=1), encoding="utf-8")


def tallied() -> dict[str, int]:
    """What was caught so far, with how often; nothing where no count was kept, or it cannot be read."""
    try:
        counts = json.loads((folder() / "defects.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return counts if isinstance(counts, dict) else {}
