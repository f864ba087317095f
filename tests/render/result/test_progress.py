"""Progress appears late; a terminal's line leaves nothing behind, logs get a line now and then."""

from __future__ import annotations

import io
import time

import pytest

from render.result.errors import RenderError
from render.result.progress import Doing, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("RENDER_PROGRESS", "1")


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


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_lines_off_terminals(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, or a terminal that cannot redraw a line."""
    monkeypatch.setenv("TERM", "dumb")
    out, doing = kind(), Doing("working")
    with progress(doing, after=0.01, stream=out):
        doing.launched(1, 100)
        while "left" not in out.getvalue():
            time.sleep(0.01)
            doing.launched(51, 100)
    lines = out.getvalue().splitlines()
    assert all(line.startswith("render: working") and " so far" in line and "GiB" in line for line in lines)
    assert "51 of 100 programs of a launch, about 1.0 s left" in lines[-1] and "\r" not in out.getvalue()


def test_nothing_is_said_while_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    with progress(Doing(), after=0.0, every=0.001, stream=pipe):
        time.sleep(0.05)
    monkeypatch.setenv("RENDER_PROGRESS", "0")
    with progress("working", after=0.0, every=0.001, stream=pipe):
        time.sleep(0.05)
    assert pipe.getvalue() == ""


def test_what_is_left_of_a_launch() -> None:
    doing = Doing()
    doing.launched(1, 8)
    assert doing() == "1 of 8 programs of a launch"
    doing.launched(4, 8)
    assert doing().startswith("4 of 8 programs of a launch, about ")
    doing.launched(8, 8)
    assert doing() == ""


def test_exception_stops_the_line() -> None:
    out = Terminal()
    with pytest.raises(ValueError, match="boom"), progress("working", after=0.0, stream=out):
        raise ValueError("boom")


def test_a_big_launch_is_announced_once_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("render.result.progress.time.monotonic", lambda: now[0])
    doing, out = Doing("running k.py", limit=4), io.StringIO()
    monkeypatch.setenv("RENDER_PROGRESS", "1")
    with progress(doing, stream=out, after=1e9):
        doing.launched(1, 10_001)
        assert not out.getvalue()
        now[0] += 0.5
        doing.launched(101, 10_001)  # 100 programs in half a second
        said = out.getvalue()
        assert "a launch of 10001 programs will take about 49.5 s and need about" in said
        assert said.endswith("GiB of memory, of at most 4 more\n")
        now[0] += 0.5
        doing.launched(201, 10_001)
        doing.launched(10_001, 10_001)
        doing.launched(1, 300)
        now[0] += 0.5
        doing.launched(101, 300)  # a second more
    assert out.getvalue().strip() == said.strip()


def test_a_launch_that_begins_with_many_programs_is_announced_after_these(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("render.result.progress.time.monotonic", lambda: now[0])
    doing, out = Doing("running k.py"), io.StringIO()
    monkeypatch.setenv("RENDER_PROGRESS", "1")
    with progress(doing, stream=out, after=1e9):
        doing.launched(0, 512)
        now[0] += 3.0
        doing.launched(48, 512)
    assert "a launch of 512 programs will take about 29.0 s and need" in out.getvalue()


def test_the_memory_of_a_big_launch_is_announced_however_few_its_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    doing, out = Doing("running k.py"), io.StringIO()
    monkeypatch.setenv("RENDER_PROGRESS", "1")
    with progress(doing, stream=out, after=1e9):
        doing.launched(4, 4, 10**6)
        assert not out.getvalue()
        doing.launched(1, 1, 10**8)
        said = out.getvalue()
        assert "a launch of 1 programs will need about" in said and float(said.split()[-4]) > 5
        doing.launched(8, 8, 10**8)  # which it was told of
    assert out.getvalue() == said


def test_more_memory_than_there_may_be_is_refused_before_the_rest_runs() -> None:
    doing = Doing(limit=2)
    doing.launched(1, 100, 10**7)
    with pytest.raises(RenderError) as refused:
        doing.launched(1, 100, 10**8)
    assert refused.value.code == "RND906" and "about 7.5 GiB of memory are needed" in refused.value.message
