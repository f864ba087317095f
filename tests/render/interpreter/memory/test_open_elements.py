"""Integers whose value is open, in memory: ends and candidates, against a plain model, and what undoing leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from memory_driver import Driver

from render.interpreter.context import Site
from render.interpreter.memory import LaunchInfo, integers
from render.interpreter.memory.lanes import plan

DTYPES = {torch.int8: "int8", torch.int32: "int32", torch.int64: "int64"}
HERE = Site("kernel.py", 1)


class Model:
    """A tensor of eight integers and all that each may be, beside `note`."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.d, self.t = Driver(), torch.zeros(8, dtype=dtype)
        self.d.memory.begin_launch(LaunchInfo("kernel", (1, 1, 1)))
        self.may: dict[int, set[int]] = {k: {0} for k in range(8)}

    def store(self, index: np.ndarray, choices: np.ndarray, mask: np.ndarray, told: bool) -> None:
        """Row by row of `choices` a candidate of every lane; the value is the first. `told`: the rows are handed on."""
        e, ptr, storage = self.d.pointers(self.t, index[None])
        among = [c[None].astype(e.storage) for c in choices]
        where = np.where(mask)[0]
        self.t[torch.from_numpy(index[where])] = torch.from_numpy(choices[0][where]).to(self.t.dtype)
        ends = (choices.min(axis=0)[None].astype(np.float64), choices.max(axis=0)[None].astype(np.float64))
        integers.note(self.d.memory, storage, ptr, mask[None], ends, e, tuple(among) if told else None)
        for k in set(index[where].tolist()):
            mine = choices[:, where[index[where] == k]]
            self.may[k] = set(mine.ravel().tolist() if told else range(int(mine.min()), int(mine.max()) + 1))

    def seen(self) -> dict[int, set[int]]:
        e, ptr, storage = self.d.pointers(self.t, np.arange(8)[None])
        p, flat = plan([ptr, np.ones((1, 8), bool)])
        v = self.t.numpy().copy()
        found = integers.loaded(storage, p, flat, e, v)
        if found is None:
            return {k: {int(x)} for k, x in enumerate(v)}
        lo, hi, among = (*(end.ravel() for end in found[:2]), [a.ravel() for a in found[2]])
        made = {k: {int(a[k]) for a in among} for k in range(8)}
        assert all((min(s), max(s)) == (lo[k], hi[k]) for k, s in made.items() if s)
        return {k: s or set(range(int(lo[k]), int(hi[k]) + 1)) for k, s in made.items()}

    def state(self) -> list[Any]:
        shadows = self.d.pointers(self.t, np.zeros((1, 1)))[2].shadows
        return [(n, s.lo.tolist(), s.hi.tolist(), s.stamp.tolist(), dict(s.among)) for n, s in shadows.items()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_elements_are_what_was_stored_last_and_undoing_takes_it_back(dtype: torch.dtype, seed: int) -> None:
    g, model = np.random.default_rng(seed), Model(dtype)
    for turn in range(6):
        model.d.memory.begin_chunk()
        if turn == 0:  # the table that holds them is made
            e, ptr, storage = model.d.pointers(model.t, [[0]])
            integers.note(model.d.memory, storage, ptr, np.zeros((1, 1), bool), (np.zeros((1, 1)),) * 2, e)
            model.d.memory.commit()
            model.d.memory.begin_chunk()
        before, held, kept = model.state(), dict(model.may), model.t.clone()
        for _ in range(int(g.integers(1, 3))):
            count, rows = int(g.integers(1, 6)), int(g.integers(1, 4))
            index = g.permutation(8)[:count] if g.random() < 0.5 else g.integers(0, 8, count)
            wide = (
                g.integers(-3, 4, (rows, count)) if g.random() < 0.7 else np.tile(g.integers(-3, 4, count), (rows, 1))
            )
            model.store(index, wide, g.random(count) < 0.8, told=bool(g.random() < 0.7))
        assert {k: (min(s), max(s)) for k, s in model.seen().items()} == {
            k: (min(s), max(s)) for k, s in model.may.items()
        }
        assert all(model.may[k] <= s for k, s in model.seen().items())
        storage = model.d.pointers(model.t, [[0]])[2]
        assert integers.any_open(storage) is any(len(s) > 1 for s in model.may.values())
        if g.random() < 0.5:
            model.d.memory.undo()
            model.t.copy_(kept)
            model.may = held
            assert model.state() == before
        else:
            model.d.memory.commit()


@pytest.mark.parametrize("seed", range(6))
def test_an_addition_moves_the_ends_and_undoing_moves_them_back(seed: int) -> None:
    g, model = np.random.default_rng(seed), Model(torch.int32)
    model.d.memory.begin_chunk()
    model.store(np.arange(8), g.integers(-3, 4, (2, 8)), np.ones(8, bool), told=True)
    model.d.memory.commit()
    model.d.memory.begin_chunk()
    before, ends = model.state(), {k: (min(s), max(s)) for k, s in model.may.items()}
    index, mask, value = g.integers(0, 8, 5), g.random(5) < 0.8, g.integers(-9, 10, 5)
    e, ptr, storage = model.d.pointers(model.t, index[None])
    held = integers.offsets_of(model.d.memory, storage, ptr, mask[None], e)
    kept = model.t.clone()
    for k, x in zip(index[mask].tolist(), value[mask].tolist(), strict=True):
        model.t[k] += x
        ends[k] = ends[k][0] + x - 1, ends[k][1] + x + 2
    lanes = (ptr, mask[None], *(np.array([value + off], np.float64) for off in (0, -1, 2)))
    assert not integers.added(model.d.memory, held, lanes, HERE)
    assert {k: (min(s), max(s)) for k, s in model.seen().items()} == ends
    model.d.memory.undo()
    model.t.copy_(kept)
    assert model.state() == before


@pytest.mark.parametrize(("value", "out"), [(124, False), (126, True), (-128, True), (-126, False)])
def test_a_sum_whose_ends_leave_the_type_is_told(value: int, out: bool) -> None:
    model = Model(torch.int8)
    model.d.memory.begin_chunk()
    model.t[0] = value
    e, ptr, storage = model.d.pointers(model.t, [[0]])
    on = np.ones((1, 1), bool)
    held = integers.offsets_of(model.d.memory, storage, ptr, on, e)
    lanes = (ptr, on, *(np.array([[x]], np.float64) for x in (0.0, -2.0, 2.0)))
    assert bool(integers.added(model.d.memory, held, lanes, HERE)) is out


@pytest.mark.parametrize("width", [integers.CANDIDATES - 1, integers.CANDIDATES])
def test_as_many_as_may_be_are_candidates(width: int) -> None:
    model = Model(torch.int32)
    model.d.memory.begin_chunk()
    model.store(np.array([2]), np.array([[0], [width]]), np.ones(1, bool), told=False)
    shadow = model.d.pointers(model.t, [[0]])[2].shadows["int32"]
    found = integers.choices_at(shadow, 2, True, 0.0)
    assert found == (tuple(range(width + 1)) if width < integers.CANDIDATES else None)
    assert integers.choices_at(shadow, 2, False, 7.0) == (7,)
