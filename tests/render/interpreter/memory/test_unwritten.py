"""Writes out of sight: bytes of fresh memory that have changed, whole words, parts of them, and what is left behind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.interpreter.memory import unwritten
from render.interpreter.memory.registry import Storage


def fresh(count: int) -> tuple[Storage, torch.Tensor]:
    t = torch.zeros(count, dtype=torch.uint8)
    keep = t.untyped_storage()
    storage = Storage(keep.data_ptr(), keep.nbytes(), keep)
    unwritten.forget_contents(storage)
    return storage, t


@pytest.mark.parametrize("count", [3, 8, 29, 64])
@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_changed_are_written(count: int, seed: int) -> None:
    """In several turns: a word that was written in part before is looked at byte by byte."""
    storage, t = fresh(count)
    assert storage.written is not None and storage.filled and not storage.written.any()
    g, told = np.random.default_rng(seed), np.zeros(count, bool)
    before = t.numpy().copy()
    for _ in range(3):
        at = np.unique(g.integers(0, count, g.integers(0, 5)))
        t.numpy()[at] = ~before[at]
        unwritten.notice_writes(storage)
        told[at] = True
        whole = count // 8 * 8
        words = told[:whole].reshape(-1, 8)
        seen = storage.written != 0
        assert seen[told].all() and np.array_equal(seen[whole:], told[whole:])
        assert not seen[:whole].reshape(-1, 8)[~words.any(axis=1)].any()


def test_a_word_that_is_known_in_part_is_looked_at_by_bytes() -> None:
    storage, t = fresh(24)
    storage.written[8:10] = 255
    t.numpy()[10] ^= 255
    unwritten.notice_writes(storage)
    assert np.flatnonzero(storage.written).tolist() == [8, 9, 10]
    t.numpy()[17] ^= 255
    unwritten.notice_writes(storage)
    assert np.flatnonzero(storage.written).tolist() == [8, 9, 10, *range(16, 24)]


def test_what_is_too_large_is_neither_filled_nor_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, filled in ((64, True), (63, False)):
        monkeypatch.setattr(unwritten, "FILL_LIMIT", limit)
        storage, t = fresh(64)
        assert storage.filled is filled
        t.numpy()[5] ^= 255
        unwritten.notice_writes(storage)
        assert bool(storage.written.any()) is filled
