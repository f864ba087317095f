"""A chunk that is undone leaves nothing behind; programs that depend on each other within a chunk are noticed."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from memory_driver import Driver, run_one_by_one
from support import rng, trials

from render.interpreter.memory import Hazard, LaunchInfo, Memory, Retry, undo
from render.interpreter.memory.envelope import read
from render.interpreter.memory.registry import address, span
from render.interpreter.memory.sums import settle


def state_of(memory: Memory, *tensors: torch.Tensor) -> list[Any]:
    """Everything that a chunk may change and the outside can see; what nothing has written has no contents."""
    out: list[Any] = [
        [(f.code, f.kind, f.count) for f in memory.findings], {k: t.count for k, t in memory.taints.all.items()},
    ]  # fmt: skip
    for t in tensors:
        storage = memory.register(t)
        settle(memory, storage)
        env = read(memory, storage, t)
        size = t.element_size()
        out.append(np.where(env.written[:, None], t.clone().view(torch.uint8).reshape(-1, size).numpy(), 0).tolist())
        out.append([repr(x) for x in (env.lo, env.hi, env.written)])
        out.append(sorted(env.taints))
        # Tags of this launch only: what an older launch left behind means nothing.
        tags = np.zeros(1, np.int64) if storage.tags is None else storage.tags
        out.append(tags[tags >= memory.tag_bounds[0]].tolist())
        acc = storage.acc
        out.append([] if acc is None or not acc.count.any() else [repr(a[acc.count > 0]) for a in acc.arrays])
    return [[] if not np.array(part, dtype=object).size else part for part in out]


def messy(d: Driver, tensors: list[torch.Tensor], seed: int, pids: Any) -> None:
    """Random stores, atomics, misses and taints by programs on their own rows."""
    g = rng(seed)
    rows = np.asarray(pids)[:, None] * 10
    for _ in range(8):
        out = tensors[int(g.integers(len(tensors)))]
        index = rows + g.permutation(10)[:6]
        mask = g.random(index.shape) < 0.8
        v = g.integers(1, 9, index.shape).astype(np.float32)
        kind = g.integers(4)
        if kind == 0 and out.dtype != torch.int32:
            d.atomic("add", out, index, v, radius=0.25 if out.is_floating_point() else None, mask=mask, pids=pids)
        elif kind == 1:
            t = d.memory.taint("RND302", "op", d._site(), f"taint {seed}")
            d.store(out, index, v, mask=mask, pids=pids, taint=frozenset((t,)))
        elif kind == 2:
            d.store(out, index + 10_000 * (g.random(index.shape) < 0.1), v, mask=mask, pids=pids)
        else:
            radius = g.random(index.shape) if out.is_floating_point() else None
            d.store(out, index, v, radius, mask, pids=pids)


@pytest.fixture(params=[undo.AT_FIRST, 3])
def room(request, monkeypatch):
    """As at first, and so little that nearly every store begins new columns."""
    monkeypatch.setattr(undo, "AT_FIRST", request.param)
    monkeypatch.setattr(undo, "KEEP_ELEMENTS", request.param)


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("seed", range(trials(20)))
def test_undo_restores_everything(seed):
    tensors = [torch.zeros(40), torch.randn(40).half(), torch.zeros(40, dtype=torch.int32), torch.randn(40).double()]
    d = Driver(4)
    d.memory.mark_unwritten(tensors[0])
    d.memory.interval = True
    d.memory.begin_launch(LaunchInfo("kernel", (4, 1, 1)))
    for k in range(3):
        d.memory.begin_chunk()
        before = state_of(d.memory, *tensors)
        fresh = [set(d.memory.register(t).shadows) for t in tensors]
        with contextlib.suppress(Hazard, Retry):
            messy(d, tensors, 100 * seed + k, d.pids)
        d.memory.undo()
        assert state_of(d.memory, *tensors) == before
        assert [set(d.memory.register(t).shadows) for t in tensors] == fresh
        d.memory.begin_chunk()
        messy(d, tensors, 100 * seed + k, d.pids[k : k + 1])
        d.memory.commit()


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("seed", range(trials(20)))
def test_undoing_a_part_of_a_chunk(seed):
    tensors = [torch.randn(40), torch.zeros(40).half()]
    d = Driver(4)
    d.memory.begin_launch(LaunchInfo("kernel", (4, 1, 1)))
    d.memory.begin_chunk()
    start = state_of(d.memory, *tensors)
    messy(d, tensors, seed, d.pids[:1])
    mark = d.memory.mark()
    middle = state_of(d.memory, *tensors)
    for k in range(2):
        messy(d, tensors, 1000 + 10 * seed + k, d.pids[:1])
        d.memory.undo_to(mark)
        assert state_of(d.memory, *tensors) == middle
    messy(d, tensors, 1000 + 10 * seed, d.pids[:1])
    second = d.memory.mark()
    later = state_of(d.memory, *tensors)
    messy(d, tensors, 2000 + seed, d.pids[:1])
    d.memory.undo_to(second)
    assert state_of(d.memory, *tensors) == later
    d.memory.undo()
    assert state_of(d.memory, *tensors) == start


def test_mixed_element_sizes_are_undone_too():
    out = torch.arange(4.0)
    d = Driver(1)
    with d:
        d.store(out, np.array([[1]]), [[5.0]], radius=0.5)
        d.memory.commit()
        d.memory.begin_chunk()
        before = state_of(d.memory, out)[2:5]
        d.store(out, np.array([[0]]), [[6.0]], radius=0.5)
        d.store(out.view(torch.int16), np.array([[3, 4]]), [[7, 8]])
        d.store(out.view(torch.int64), np.array([[0]]), [[9]])
        d.atomic("add", out, np.array([[2]]), 1.0, radius=0.0)
        d.memory.undo()
        assert state_of(d.memory, out)[2:5] == before
        d.memory.begin_chunk()


def test_findings_of_an_undone_chunk_are_dropped():
    x = torch.ones(4)
    d = Driver()
    with d:
        d.load(x, np.array([[9]]))
        d.memory.undo()
        assert not d.memory.findings and not d.memory.taints.all
        d.memory.begin_chunk()
        d.load(x, np.array([[9]]))
    assert d.memory.findings[0].count == 1


def test_an_exception_in_the_kernel_leaves_memory_usable():
    out = torch.zeros(4)
    memory = Memory()

    def fails() -> None:
        with Driver(memory=memory) as d:
            d.store(out, np.array([[1]]), [[5.0]], radius=1.0)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert out.tolist() == [0, 0, 0, 0]
    with Driver(memory=memory) as d:
        assert d.load(out, np.array([[1]])).lo is None


# hazards between programs of a chunk
def test_reading_what_another_program_of_the_chunk_wrote():
    """A running sum through memory: program p reads element p and writes element p + 1."""
    x = torch.zeros(6)

    def body(d: Driver, pids: np.ndarray) -> None:
        got = d.load(x, pids[:, None], pids=pids)
        d.store(x, pids[:, None] + 1, got.v + 1, pids=pids)

    driver = Driver(5)
    assert run_one_by_one(driver, body) == "one by one"
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert {t.code for t in driver.memory.taints.all.values()} == {"RND305"}


def test_overwriting_what_another_program_of_the_chunk_read():
    """Program p reads element p + 1 and writes element p: right only in program order."""
    x = torch.arange(6.0)

    def body(d: Driver, pids: np.ndarray) -> None:
        got = d.load(x, pids[:, None] + 1, pids=pids)
        d.store(x, pids[:, None], got.v * 2, pids=pids)

    driver = Driver(5)
    # Read p + 1, then write p: the write of program p + 1 comes after the read of program p in every order here.
    assert run_one_by_one(driver, body) == "one by one"
    assert x.tolist() == [2, 4, 6, 8, 10, 5]


def test_a_program_may_update_its_own_data_in_place():
    x = torch.arange(8.0)

    def body(d: Driver, pids: np.ndarray) -> None:
        got = d.load(x, pids[:, None], pids=pids)
        d.store(x, pids[:, None], got.v * 2, pids=pids)
        got = d.load(x, pids[:, None], pids=pids)
        d.store(x, pids[:, None], got.v + 1, pids=pids)

    driver = Driver(8)
    assert run_one_by_one(driver, body) == "together"
    assert x.tolist() == [2 * i + 1 for i in range(8)] and not driver.memory.taints.all


def test_readers_are_tracked_after_one_retry_and_from_then_on_at_once():
    x = torch.arange(8.0)
    memory = Memory()
    memory.register(x, "x")
    retries = []
    for _ in range(2):
        d = Driver(8, memory)
        memory.begin_launch(LaunchInfo("kernel", (8, 1, 1)))
        for _ in range(3):
            memory.begin_chunk()
            try:
                got = d.load(x, d.pids[:, None])
                d.store(x, d.pids[:, None], got.v + 1)
            except Retry:
                memory.undo()
                retries.append(x.tolist())
                continue
            memory.commit()
            break
        memory.end_launch()
    assert retries == [list(range(8))]
    assert x.tolist() == [i + 2 for i in range(8)]


def test_groups_of_a_diverged_chunk_see_each_other():
    """Programs 1 and 3 run first and write; program 2 of the same chunk reads it, although it comes before 3."""
    x = torch.zeros(4)
    with Driver(4) as d:
        d.memory.mark()
        d.store(x, np.array([[1], [3]]), [[1.0], [3.0]], pids=[1, 3])
        d.memory.mark()
        with pytest.raises(Hazard):
            d.load(x, np.array([[3]]), pids=[2])


def test_a_read_across_chunks_without_an_atomic_is_a_race():
    x = torch.zeros(4)
    d = Driver(3)
    with d:
        d.store(x, np.array([[0]]), [[1.0]], pids=[0])
        d.memory.commit()
        d.memory.begin_chunk()
        own = d.load(x, np.array([[1]]), pids=[1])
        racy = d.load(x, np.array([[0]]), pids=[1])
        d.atomic("add", x, np.array([[3]]), 1.0, radius=0.0, pids=[1])
        after = d.load(x, np.array([[0]]), pids=[1])
    assert not own.taint and not after.taint and racy.v.item() == 1
    assert [d.memory.taints.get(t).code for t in racy.taint] == ["RND305"]


def test_a_shared_read_counts_for_all_programs():
    """All programs read element 0, then program 0 alone writes it."""
    x = torch.zeros(4)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.load(x, np.zeros((1, 1)), pids=pids)
        d.store(x, np.zeros((len(pids), 1)), np.full((len(pids), 1), 3.0), mask=pids[:, None] == 0, pids=pids)

    driver = Driver(3)
    assert run_one_by_one(driver, body) == "one by one"
    assert {t.code for t in driver.memory.taints.all.values()} == {"RND305"}


def test_a_part_that_no_kernel_wrote_has_no_envelope():
    """What is known of a tensor's memory counts where kernels wrote, up to its first and from its last byte."""
    x, memory = torch.zeros(12), Memory()
    with Driver(memory=memory) as d:
        d.store(x, np.arange(4, 8)[None], np.ones((1, 4)), 0.25)
    for start, stop, known in ((0, 4, False), (8, 12, False), (0, 5, True), (7, 12, True), (4, 8, True), (5, 6, True)):
        assert (memory.envelope(x[start:stop]) is not None) == known
        assert memory.is_known(x[start:stop]) == known


@pytest.mark.parametrize("seed", range(trials(20)))
def test_the_span_of_a_view_ends_behind_its_last_element(seed):
    g = rng(seed)
    x = torch.zeros(tuple(int(n) for n in g.integers(1, 5, 3)), dtype=torch.float16)
    view = x.permute(*g.permutation(3).tolist())[:: int(g.integers(1, 3)), int(g.integers(0, 3)) :]
    places = [address(view[tuple(i)]) for i in np.ndindex(*view.shape)]
    assert span(view) == (max(places) + 2 - address(view) if places else 0)


def test_bounds_of_host_code_are_no_work_of_a_chunk() -> None:
    """An undone chunk leaves them, and once their tensor is gone nothing holds them."""
    memory, t = Memory(), torch.ones(4)
    memory.begin_chunk()
    memory.carry(t, np.zeros(4), np.full(4, 2.0), frozenset())
    memory.undo()
    found = memory.envelope(t)
    assert found is not None and found.hi.tolist() == [2.0] * 4
    storage = weakref.ref(memory.register(t))
    memory.registry.room = 0
    del t, found
    gc.disable()  # nor any cycle
    try:
        memory.registry.prune()
        assert storage() is None
    finally:
        gc.enable()


def test_readers_fit_the_tags_that_a_snapshot_puts_back() -> None:
    """Stores of smaller elements make tags and readers finer; undone, both are as coarse as before, and no reader of
    the finer ones stays. Where nothing became finer, readers stay; where none were kept, none are made."""
    memory, x = Memory(), torch.zeros(8)
    storage = memory.register(x)
    memory.prepare_tags(storage, 4)
    assert storage.tags is not None
    back = undo.snapshot(storage)
    back()
    assert storage.reads is None
    storage.reads = np.arange(len(storage.tags), dtype=np.int64)
    undo.snapshot(storage)()
    assert storage.reads.tolist() == list(range(8))
    back = undo.snapshot(storage)
    memory.prepare_tags(storage, 1)
    assert len(storage.tags) == len(storage.reads) == 32
    back()
    assert storage.grain == 4 and len(storage.tags) == 8
    assert storage.reads.tolist() == [0] * 8
