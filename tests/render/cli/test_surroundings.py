"""Streams, folders and variables that a command finds around it."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import pytest

from render.cli.surroundings import fitting, unwritable, width
from render.result.errors import RenderError


def test_a_folder_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError(errno.ENOENT, "gone")

    fitting()
    monkeypatch.setattr(os, "getcwd", gone)
    with pytest.raises(RenderError, match="working folder"):
        fitting()


@pytest.mark.parametrize(("columns", "wide"), [("0", 100), ("-3", 100), ("x", 100), ("", 100), ("72", 72)])
def test_a_width_that_is_none_is_not_taken(columns: str, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width(io.StringIO()) == wide


def test_what_is_no_stream_is_another_error() -> None:
    assert (
        unwritable(OSError(errno.ENOSPC, "full", "a file")) is None and unwritable(OSError(errno.ENOENT, "x")) is None
    )
    assert "cannot be written: full" in str(unwritable(OSError(errno.ENOSPC, "full")))


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed_lead_nowhere(closed: str) -> None:
    code = "import sys; from render.cli.surroundings import streams; streams(); print(1); print(2, file=sys.stderr)"
    taken = f"kept = open({__file__!r}); {code}; sys.stdout.flush()"  # its number may be that of a file
    for text in (code, taken):
        line = ["bash", "-c", f'"$0" -c "$1" {closed}', sys.executable, text]
        assert subprocess.run(line, capture_output=True, check=False).returncode == 0
