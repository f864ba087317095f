"""What the tags of an element tell, against a list of all accesses to it."""

from __future__ import annotations

from types import FunctionType

import pytest
from support import rng, trials

from render.interpreter.memory.atomic_kernels import atomic_tag, order, others
from render.interpreter.memory.registry import PROGRAM

SERIAL_SHIFT = 32

_FUNCTIONS = {f.__name__: getattr(f, "py_func", f) for f in (others, order, atomic_tag)}
PLAIN = {k: FunctionType(f.__code__, {**f.__globals__, **_FUNCTIONS}) for k, f in _FUNCTIONS.items()}
"""As Python runs them, their helper too: nothing is compiled for these tests."""


class Element:
    """The accesses since the launch began, and since the chunk did: (program, whether it is atomic)."""

    def __init__(self) -> None:
        self.launch: list[tuple[int, bool]] = []
        self.chunk: list[tuple[int, bool]] = []

    def begin_launch(self) -> None:
        self.launch, self.chunk = [], []

    def accessed(self, me: int, atomic: bool) -> None:
        self.launch.append((me, atomic))
        self.chunk.append((me, atomic))

    def wanted(self, me: int, readers: set[int], synced: bool) -> int:
        """-1: the chunk has to be split; 1: a race with a plain access; 0: fine."""
        theirs = any(p != me for p, _ in self.chunk)
        if (theirs and not all(a for _, a in self.chunk)) or readers - {me}:
            return -1
        theirs = any(p != me for p, _ in self.launch)
        return int(theirs and not synced and not all(a for _, a in self.launch))


@pytest.mark.parametrize("seed", range(3))
def test_an_order_is_what_all_accesses_say(seed: int) -> None:
    g = rng(seed)
    seen = set()
    for _ in range(trials(300)):
        serial, element, tag, read, readers = 1, Element(), 0, 0, set[int]()
        launch = chunk = 1 << SERIAL_SHIFT
        for _ in range(int(g.integers(1, 9))):
            serial += 1
            begins = g.random()
            if begins < 0.15:
                launch = chunk = serial << SERIAL_SHIFT
                element.begin_launch()
                read, readers = 0, set()
            elif begins < 0.4:
                chunk = serial << SERIAL_SHIFT
                element.chunk = []
                read, readers = 0, set()
            me, synced = int(g.integers(0, 3)), bool(g.random() < 0.3)
            if not readers and g.random() < 0.2:
                reader = int(g.integers(0, 3))
                read, readers = serial << SERIAL_SHIFT | reader, {reader}
            found = PLAIN["order"](tag, read, me, synced, launch, chunk)
            assert found == element.wanted(me, readers, synced), (element.launch, element.chunk, me)
            seen.add(found)
            assert PLAIN["others"](tag, me, chunk) == any(p != me for p, _ in element.chunk)
            plain = not element.launch and g.random() < 0.5
            now = serial << SERIAL_SHIFT
            tag = now | me if plain else PLAIN["atomic_tag"](tag, me, launch, chunk, now)
            assert tag & PROGRAM == me and tag >= now
            element.accessed(me, not plain)
    assert seen == {-1, 0, 1}
