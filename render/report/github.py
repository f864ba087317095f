"""Annotations of GitHub's: a line of the log that a pull request shows at the guilty line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from render.result.places import relative

if TYPE_CHECKING:
    from render.result.verdict import Verdict

_LEVELS = {"Type-II": "error", "Inconclusive": "warning"}


def annotation(verdict: Verdict) -> str | None:
    """The workflow command, for what is no round-off and has a place."""
    level = _LEVELS.get(verdict.label)
    if level is None or not verdict.file:
        return None
    place = f"file={_escaped(relative(verdict.file), ':,')},line={verdict.line or 1}"
    return f"::{level} {place},title={verdict.label} {verdict.code}::{_escaped(verdict.message)}"


def annotate(verdict: Verdict) -> None:
    """Writes it to stderr where an action of GitHub's runs."""
    told = annotation(verdict) if os.environ.get("GITHUB_ACTIONS") == "true" else None
    if told is not None:
        print(told, file=sys.stderr, flush=True)


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text
