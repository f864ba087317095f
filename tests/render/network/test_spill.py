"""Copies in a scratch file are what was copied, and nothing of them stays in memory."""

from __future__ import annotations

import errno
import gc

import numpy as np
import pytest
import torch

import render
from render.network import spill
from render.network.spill import Spill

from .models import build, inputs


def tensors():
    torch.manual_seed(0)
    x = torch.randn(6, 5, 4)
    yield from (
        x,
        x.transpose(0, 2),
        x[:, 1:3],
        x[..., ::2],
        x[:1].expand(3, 5, 4),
        x.to(memory_format=torch.contiguous_format)[2, 1, 3],
    )
    yield from (
        x.bfloat16(),
        x.half(),
        x.double(),
        x > 0,
        x.to(torch.int8),
        torch.complex(x, -x),
        torch.complex(x, x).conj(),
    )
    yield from (torch.empty(0, 3), torch.tensor(float("nan")), torch.nn.Parameter(x), x[0].t())


@pytest.mark.parametrize("room", [0, spill.ROOM])
def test_a_held_tensor_is_a_clone(monkeypatch, room):
    monkeypatch.setattr(spill, "ROOM", room)
    mine = Spill()
    for t in tensors():
        held, clone = mine.hold(t), t.detach().clone()
        found = held.tensor()
        assert found is held.tensor()
        assert (found.dtype, found.shape, found.stride()) == (clone.dtype, clone.shape, clone.stride())
        assert torch.equal(found.isnan(), clone.isnan()) and torch.equal(found.nan_to_num(), clone.nan_to_num())
        t.detach().resolve_conj().zero_() if t.numel() and 0 not in t.stride() else None
        assert torch.equal(found.nan_to_num(), clone.nan_to_num())


@pytest.mark.parametrize("room", [0, spill.ROOM])
def test_an_array_is_a_copy(monkeypatch, room):
    monkeypatch.setattr(spill, "ROOM", room)
    mine = Spill()
    for x in (np.arange(24.0).reshape(4, 6), np.arange(24, dtype=np.float32).reshape(4, 6).T, np.zeros((0, 2))):
        found, before = mine.array(x), x.copy()
        x += 1
        assert found.dtype == before.dtype and np.array_equal(found, before)


def test_what_is_read_leaves_memory_and_the_file_goes_with_the_last_tensor(monkeypatch):
    monkeypatch.setattr(spill, "ROOM", 0)
    before = len(spill._MAPPED)
    mine = Spill()
    held = [mine.hold(torch.full((1 << 20,), float(i))) for i in range(20)]
    assert len(spill._MAPPED) == before + 2  # 80 MB in parts of 64
    kept = [h.tensor() for h in held]
    for i, t in enumerate(kept):
        assert float(t.sum()) == i * 2.0**20
    spill.rest(spill.READ)
    assert _mapped_kilobytes() < 4096
    assert float(kept[7].sum()) == 7 * 2.0**20
    del held, kept, mine, t
    gc.collect()
    assert len(spill._MAPPED) == before


def _mapped_kilobytes():
    """What of nameless files is in memory."""
    size, ours = 0, False
    with open("/proc/self/smaps", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                ours = line.rstrip().endswith("(deleted)") and " rw-s " in line
            elif ours and words[0] == "Rss:":
                size += int(words[1])
    return size


def test_without_room_on_the_disk_copies_are_made(monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(spill, "ROOM", 0)
    monkeypatch.setattr(spill.os, "pwrite", full)
    mine, x = Spill(), torch.randn(9)
    held = mine.hold(x)
    assert torch.equal(held.tensor(), x) and held.tensor() is not x
    assert np.array_equal(mine.array(x.numpy()), x.numpy())


def test_a_comparison_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr("render.network.spill.ROOM", 0)  # all that is held lies in the file
    sides = build("decoder", "plain"), build("decoder")
    gc.collect()
    gc.disable()
    try:
        before = len(spill._MAPPED)
        verdict = render.compare_models(*sides, inputs("decoder"))
        assert verdict.leaves and len(spill._MAPPED) == before
    finally:
        gc.enable()
