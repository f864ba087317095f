"""Spans of stores: they may name a program that did not write, and never leave one out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from render.interpreter.writers import Writers


def noted(addresses: np.ndarray, programs: list[int], name: str | None = "out", base: int = 0) -> Writers:
    writers = Writers()
    origin = None if name is None else SimpleNamespace(name=name, base=base)
    ptr: Any = SimpleNamespace(v=addresses, origin=origin)
    writers.note(ptr, np.array(programs))
    return writers


def programs_at(writers: Writers, address: int) -> set[int]:
    return {int(p) for _, programs in writers.of(address) for p in programs}


def test_tiles_beside_each_other_are_told_apart() -> None:
    rows, columns = np.arange(4)[:, None], np.arange(4)[None, :]
    tiles = np.stack([1000 + 4 * (rows * 16 + columns + 4 * p) for p in range(3)])
    writers = noted(tiles, [0, 1, 2])
    for p in range(3):
        for address in tiles[p].ravel():
            assert programs_at(writers, int(address)) == {p}, "spans run along the line of the tile"
    assert programs_at(writers, 999) == programs_at(writers, int(tiles.max()) + 4) == set()


def test_every_writer_is_named() -> None:
    g = np.random.default_rng(0)
    addresses = 4 * g.integers(0, 200, (5, 3, 7))
    writers = noted(addresses, [3, 4, 5, 6, 7])
    for i, program in enumerate([3, 4, 5, 6, 7]):
        assert all(program in programs_at(writers, int(a)) for a in addresses[i].ravel())


def test_one_line_of_addresses_belongs_to_all_programs() -> None:
    writers = noted(np.arange(100, 116, 4).reshape(1, 4), [0, 1, 2], None)
    assert programs_at(writers, 108) == {0, 1, 2}
    ((span, _),) = writers.of(100)
    assert (span.name, span.base, span.whole) == (None, 0, (100, 112))
