"""Progress appears late, on a terminal only, and leaves nothing behind."""

from __future__ import annotations

import io
import time

import pytest

from render.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_short_work_shows_nothing() -> None:
    out = Terminal()
    with progress("working", stream=out):
        pass
    assert out.getvalue() == ""


def test_long_work_shows_and_erases() -> None:
    out = Terminal()
    with progress("working", after=0.0, every=0.01, stream=out):
        while "working" not in out.getvalue():
            time.sleep(0.01)
    assert out.getvalue().endswith("\r")
    assert "\n" not in out.getvalue()


def test_not_on_a_pipe_or_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    with progress("working", after=0.0, stream=pipe):
        time.sleep(0.05)
    assert pipe.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    dumb = Terminal()
    with progress("working", after=0.0, stream=dumb):
        time.sleep(0.05)
    assert dumb.getvalue() == ""


def test_exception_stops_the_line() -> None:
    out = Terminal()
    with pytest.raises(ValueError, match="boom"), progress("working", after=0.0, stream=out):
        raise ValueError("boom")
