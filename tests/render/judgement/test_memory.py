"""The peak of a process, as Linux itself tells it; objects that are set aside while garbage is looked for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from render.judgement import memory

STATUS = Path("/proc/self/status")


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells it there")
def test_peak_in_megabytes() -> None:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    assert memory.peak_mb() == pytest.approx(int(line.split()[1]) / 1024, rel=0.2)


class Loop:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of the process, next one last, which nobody has looked through."""
    sizes = [1]
    monkeypatch.setattr(memory, "resident", lambda: sizes[-1])
    monkeypatch.setattr(memory._aside, "looked_through", 0)
    before = gc.isenabled()
    gc.disable()
    yield sizes
    gc.unfreeze()
    if before:
        gc.enable()


def made() -> weakref.ref[Loop]:
    return weakref.ref(Loop())


def test_only_what_was_made_inside_is_looked_through(looked: list[int]) -> None:
    older = made()
    with memory.older_left_alone():
        assert gc.get_freeze_count()
        with memory.older_left_alone():
            younger = made()
        gc.collect()
        assert older() is not None
        assert younger() is None
    assert not gc.get_freeze_count()
    gc.collect()
    assert older() is None


def test_what_somebody_set_aside_stays_so(looked: list[int]) -> None:
    gc.freeze()
    older = made()
    with memory.older_left_alone():
        gc.collect()
        assert older() is None
    assert gc.get_freeze_count()


def test_given_back_after_an_error(looked: list[int]) -> None:
    with pytest.raises(ValueError, match="inside"), memory.older_left_alone():
        raise ValueError("inside")
    assert not gc.get_freeze_count()
    assert memory._aside == memory._Aside(looked_through=memory._aside.looked_through)


def test_a_process_that_has_grown_is_looked_through(looked: list[int]) -> None:
    older = made()
    for size, found in ((memory.GROWN, False), (memory.GROWN + 1, True), (memory.GROWN + 2, False), (10, False)):
        looked.append(size)
        older = older if older() is not None else made()
        with memory.older_left_alone():
            assert (older() is None) == found
    looked.append(memory.GROWN + 11)  # it had shrunk in between
    with memory.older_left_alone():
        assert older() is None
