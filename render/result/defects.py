"""Failures of RENDER's own code that were caught so that a verdict could still be given: counted in one place.

Whoever catches any exception at all and goes on hands it to `caught`. Within `collected`, which every classification
is, failures of our own files are kept and counted; what the user's code raised is none of ours. The verdict carries
them (`Verdict.defects`), `--verbose` and `render doctor` show them.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

from render.result.errors import KernelError, RenderError, UnsupportedOp

_HERE = Path(__file__).resolve().parents[2]
_OURS = (_HERE / "render", _HERE / "interval_ops")
FORWARDED = "# the user's call"
"""Marks such a line."""


@dataclass(frozen=True)
class Defect:
    """One kind of failure: while `doing` something, `error` was raised at `place` (file:line), `count` times."""

    doing: str
    error: str
    place: str
    count: int = 1

    @property
    def sentence(self) -> str:
        times = "" if self.count == 1 else f", {self.count} times"
        return f"{self.doing}: {self.error} at {self.place}{times}"


_open: ContextVar[dict[tuple[str, str, str], Defect] | None] = ContextVar("defects", default=None)


@contextmanager
def collected() -> Iterator[dict[tuple[str, str, str], Defect]]:
    """The failures that are caught while the body runs, by what, which and where; outer collections see them, too."""
    outer, found = _open.get(), dict[tuple[str, str, str], Defect]()
    token = _open.set(found)
    try:
        yield found
    finally:
        _open.reset(token)
        for defect in found.values():
            add(outer, defect)


def caught(error: BaseException, doing: str) -> None:
    """Count `error`, if one of our own files raised it, and not as an answer to the user."""
    place = inside(error)
    if place and not isinstance(error, RenderError | UnsupportedOp | KernelError):
        add(_open.get(), Defect(doing, f"{type(error).__name__}: {error}".strip(": "), place))


def forwarded(frame: traceback.FrameSummary) -> bool:
    """Whether the line does no more than what the user's code asked torch or Python for, with its arguments: what
    fails there would fail without us."""
    return FORWARDED in (frame.line or "")


def inside(error: BaseException) -> str:
    """file:line of the innermost frame if it is ours, else ""."""
    frames = traceback.extract_tb(error.__traceback__)
    if (
        not frames
        or forwarded(frames[-1])
        or not any(Path(frames[-1].filename).is_relative_to(folder) for folder in _OURS)
    ):
        return ""
    return f"{Path(frames[-1].filename).relative_to(_HERE)}:{frames[-1].lineno}"


def add(to: dict[tuple[str, str, str], Defect] | None, defect: Defect) -> None:
    """Counts one more failure, or several of a kind."""
    if to is not None:
        key = (defect.doing, defect.error, defect.place)
        known = to.get(key)
        to[key] = replace(known, count=known.count + defect.count) if known else defect
