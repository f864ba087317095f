"""The table of a suite: one row per test, and what all rows together mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from render.result.codes import EXIT_CODES
from render.result.errors import KernelError, RenderError, UnsupportedOp
from render.result.verdict import Verdict

SKIPPED, ERROR = "skipped", "error"
INTERNAL = "internal"
_PRECEDENCE = (4, 2, 1, 3, 0)


@dataclass(frozen=True)
class Row:
    """What one test gave. `label` is a verdict's, or `skipped` (nothing to judge), or `error` (no verdict came out).

    `code` is that of the verdict, an error's RND9xx, or empty; `place` is file:line, the kernel's where it is known.
    `seconds` is the wall time of the row, `interval_s` that of the interval run in it. `accepted` holds the reason for
    which the repository accepts this finding. `configurations`: how many
    autotune configurations were judged, `run of N` for each tuned kernel.
    """

    test: str
    label: str
    code: str = ""
    kernel: str = ""
    file: str = ""
    line: int = 0
    seconds: float = 0.0
    interval_s: float = 0.0
    message: str = ""
    outputs: int = 0
    accepted: str = ""
    configurations: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.file and self.line else self.file

    @property
    def exit_code(self) -> int:
        """0, where it is accepted or was skipped, else as `render classify` would end."""
        if self.accepted or self.label == SKIPPED:
            return 0
        if self.label == ERROR:
            return 4 if self.code == INTERNAL else 2
        return EXIT_CODES[self.label]

    def to_dict(self) -> dict[str, Any]:
        names = ("test", "label", "code", "kernel", "file", "line", "seconds", "interval_s", "message", "outputs",
                 "accepted", "configurations", "exit_code")  # fmt: skip
        return {name: getattr(self, name) for name in names}


def of_verdict(test: str, verdict: Verdict, seconds: float = 0.0) -> Row:
    notes: list[Any] = [*verdict.findings, *verdict.taints]
    where = [(verdict.file, verdict.line)] + [(note.file, note.line) for note in notes]
    file, line = next((place for place in where if place[0]), ("", 0))
    interval = verdict.timing.get("interval_s") or 0.0
    tuned = "; ".join(c.sentence for c in verdict.scope.configurations)
    return Row(test, verdict.label, verdict.code, ", ".join(dict.fromkeys(verdict.kernels)), file or "", line, seconds,
               interval, verdict.message, len(verdict.outputs), configurations=tuned)  # fmt: skip


def of_error(test: str, error: BaseException, seconds: float = 0.0) -> Row:
    """A user's mistake, a kernel that raises, an operation without a rule, or a defect of ours."""
    text = str(error).strip().split("\n")[0] or type(error).__name__
    if isinstance(error, UnsupportedOp):
        found = Row(test, "Inconclusive", "RND302", file=error.file or "", line=error.line or 0, message=text)
    elif isinstance(error, KernelError):
        file, line = error.frames[-1][:2] if error.frames else ("", 0)
        found = Row(test, ERROR, "", file=file, line=line, message=text)
    elif isinstance(error, RenderError):
        found = Row(test, ERROR, error.code, message=f"{error.message}{f' ({error.hint})' if error.hint else ''}")
    else:
        found = Row(test, ERROR, INTERNAL, message=f"{type(error).__name__}: {text}")
    return replace(found, seconds=seconds)


def worst(rows: Iterable[Row]) -> Row:
    """The first of those that decide the exit code."""
    return min(rows, key=lambda row: _PRECEDENCE.index(row.exit_code))


def exit_code(rows: Iterable[Row], allow_inconclusive: bool = False) -> int:
    """The worst of all rows: 4 before 2 before 1 before 3 before 0."""
    seen = {0 if allow_inconclusive and row.exit_code == 3 else row.exit_code for row in rows}
    return next((code for code in _PRECEDENCE if code in seen), 0)


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows each label has, the accepted ones apart."""
    return dict(Counter("accepted" if row.accepted else row.label for row in rows))
