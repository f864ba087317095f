"""Findings that a repository has accepted: a TOML file with a code, a place and a reason for each.

    [[accept]]
    code = "RND206"
    place = "kernels/softmax.py:41"     # a file, or a file with a line; paths are matched from their end
    test = "test_softmax*"              # optional, a pattern over the test's name
    reason = "the two-pass form is asked for by the hardware team"

An entry that matches nothing is told: what was accepted has gone, so the entry can go.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path, PurePath

from render.lab.suite.rows import Row
from render.result.errors import RenderError

_FIELDS = {"code", "place", "reason", "test"}


@dataclass(frozen=True)
class Accepted:
    """One entry; an empty `place` or `test` matches every one."""

    code: str
    reason: str
    place: str = ""
    test: str = "*"

    def covers(self, row: Row) -> bool:
        return row.code == self.code and fnmatch(row.test, self.test) and self._at(row)

    def _at(self, row: Row) -> bool:
        if not self.place:
            return True
        file, _, line = self.place.rpartition(":") if ":" in self.place else (self.place, "", "")
        wanted = PurePath(file).parts
        return PurePath(row.file).parts[-len(wanted) :] == wanted and (not line or line == str(row.line))


def load(path: Path) -> tuple[Accepted, ...]:
    """The entries of the file; RenderError RND901 for what is no such file."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("accept", [])
    except OSError as error:
        raise RenderError("RND901", f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise RenderError("RND901", f"{path} is not valid TOML: {error}") from None
    for i, entry in enumerate(entries, 1):
        unknown, missing = set(entry) - _FIELDS, {"code", "reason"} - {k for k, v in entry.items() if v}
        if unknown or missing or not all(isinstance(v, str) for v in entry.values()):
            wrong = (
                f"has no {', '.join(sorted(missing))}" if missing else f"has an unknown {', '.join(sorted(unknown))}"
            )
            raise RenderError(
                "RND901", f"{path}: entry {i} {wrong}", "each needs code and reason; place and test may be"
            )
    return tuple(Accepted(**entry) for entry in entries)


def apply(rows: Sequence[Row], accepted: Sequence[Accepted]) -> tuple[list[Row], list[Accepted]]:
    """(rows with the reasons of those that are accepted, entries that matched nothing)."""
    used: set[Accepted] = set()
    found = []
    for row in rows:
        entry = next((a for a in accepted if a.covers(row)), None) if row.exit_code else None
        if entry is not None:
            used.add(entry)
            row = replace(row, accepted=entry.reason)
        found.append(row)
    return found, [a for a in accepted if a not in used]
