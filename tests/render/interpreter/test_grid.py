"""Chunks of programs: divergence, rollback, hazards, locks; results never depend on the chunk size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import zoo
from triton.compiler.errors import CompilationError

from render.interpreter.context import Site
from render.interpreter.grid import TARGET
from render.interpreter.session import Session

CHUNKS = [1, 3, 16, None]


def ragged(seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 40, (30,), generator=g)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).int()
    return torch.randn(int(offsets[-1]), generator=g), offsets, torch.zeros(30)


def test_divergent_loops_equal_the_plain_result():
    x, offsets, out = ragged()
    with Session("ieee") as s:
        zoo.ragged_kernel[(30,)](x, offsets, out, 8)
    expected = torch.stack([x[a:b].double().sum() * (2 if b - a > 5 else 1) for a, b in itertools.pairwise(offsets)])
    assert s.launches[0].rollbacks > 0 and not s.launches[0].sequential
    env = s.envelope(out)
    assert (env.lo <= expected.numpy()).all() and (expected.numpy() <= env.hi).all()
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_undone_work_does_not_count_its_taints(chunk):
    """A chunk that diverges is undone and run again in two parts: one taint per pass that stays."""
    x, out = torch.linspace(1, 2, 8), torch.zeros(8, dtype=torch.int32)
    with Session("ieee", chunk=chunk) as s:
        zoo.parting_kernel[(8,)](x, out)
    stats = s.launches[0].stats
    assert (stats.rollbacks > 0) == (chunk != 1)
    assert [(t.code, t.count) for t in s.taints.values()] == [("RND302", stats.passes - stats.rollbacks)]
    assert s.envelope(out).taints == s.taints.keys()


def test_taints_between_launches_outlive_an_undone_chunk():
    """What was met outside any chunk is not undone with the next one."""
    x, out = torch.linspace(1, 2, 8), torch.zeros(8, dtype=torch.int32)
    with Session("ieee") as s:
        early = s.add_taint("RND302", "host", Site("a.py", 1), "met between launches")
        zoo.parting_kernel[(8,)](x, out)
    assert s.taints[early].count == 1


def test_bounds_do_not_depend_on_the_chunk():
    seen = []
    for chunk in CHUNKS:
        x, offsets, out = ragged()
        with Session("any", chunk=chunk) as s:
            zoo.ragged_kernel[(30,)](x, offsets, out, 8)
        env = s.envelope(out)
        seen.append((env.lo.tobytes(), env.hi.tobytes(), out.numpy().tobytes()))
    assert len(set(seen)) == 1


@pytest.mark.parametrize("together", [2, 7, 30, 1000])
def test_programs_that_are_known_to_run_together_do_so_from_the_first_on(together):
    seen = []
    for known in ({}, {0: together}):
        x, offsets, out = ragged()
        with Session("any", together=known) as s:
            zoo.ragged_kernel[(30,)](x, offsets, out, 8)
        env = s.envelope(out)
        seen.append((env.lo.tobytes(), env.hi.tobytes(), out.numpy().tobytes()))
    assert seen[0] == seen[1] and s.launches[0].programs == 30
    assert (s.launches[0].chunks == 1) == (together >= 30)


def test_runs_of_programs_that_agree_are_not_cut_up():
    """Runs of 40 programs with a loop of its own length each: only chunks that span two of them split."""
    runs, length, n = 8, 40, 32
    lengths = torch.arange(1, runs + 1).repeat_interleave(length) * 4
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).int()
    x, programs = torch.randn(int(offsets[-1])), runs * length
    seen = []
    for chunk in (n, 1, None):
        out = torch.zeros(programs)
        with Session("any", chunk=chunk) as s:
            zoo.ragged_kernel[(programs,)](x, offsets, out, 8)
        env = s.envelope(out)
        seen.append((env.lo.tobytes(), env.hi.tobytes(), out.numpy().tobytes()))
        assert s.launches[0].programs == programs
        if chunk == n:  # two parts per run, and no chunk that was split is followed by another split one
            assert s.launches[0].stats.passes - s.launches[0].rollbacks <= 2 * runs + 2
    assert len(set(seen)) == 1


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_program_reads_what_another_wrote(chunk):
    x, out = torch.randn(20), torch.zeros(20)
    with Session("ieee", chunk=chunk) as s:
        zoo.prefix_chain_kernel[(20,)](x, out)
    expected = np.add.accumulate(x.numpy())
    assert np.array_equal(out.numpy(), expected)
    assert s.launches[0].sequential or chunk == 1


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_program_overwrites_what_another_read(chunk):
    x = torch.arange(21.0)
    with Session("ieee", chunk=chunk):
        zoo.shift_left_kernel[(20,)](x, 20)
    assert x.tolist() == [*range(1, 21), 20]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_in_place_scan_of_own_rows_needs_no_fall_back(chunk):
    x = torch.randn(12, 32)
    expected = np.add.accumulate(x.numpy(), axis=1)
    exact = x.double().cumsum(1).numpy()
    with Session("ieee", chunk=chunk) as s:
        zoo.in_place_scan_kernel[(12,)](x, 32, 32)
    assert np.array_equal(x.numpy(), expected) and not s.launches[0].sequential
    env = s.envelope(x)
    assert (env.lo <= exact).all() and (exact <= env.hi).all()


@triton.jit
def locks_kernel(x_ptr, sum_ptr, most_ptr, lock_ptr, LOCKS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at, group = tl.arange(0, BLOCK), pid % LOCKS
    x = tl.load(x_ptr + pid * BLOCK + at) / 3
    lock, count = lock_ptr + group, lock_ptr + LOCKS + group
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.store(most_ptr + group * BLOCK + at, x)
    else:
        tl.store(most_ptr + group * BLOCK + at, tl.maximum(x, tl.load(most_ptr + group * BLOCK + at)))
    total = tl.load(sum_ptr + group * BLOCK + at)
    tl.store(sum_ptr + group * BLOCK + at, total + x)
    tl.store(count, tl.load(count) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("locks", [1, 3, 8, 50])
def test_programs_that_take_different_locks_run_together(locks):
    """So many as there are locks, or nearly; bounds and bits are those of one program after the other."""
    n, block, seen = 64, 4, []
    x = torch.randn(n * block, generator=torch.Generator().manual_seed(1))
    for chunk in (None, 1):
        total, most = torch.zeros(locks, block), torch.full((locks, block), -torch.inf)
        lock = torch.zeros(2 * locks, dtype=torch.int32)
        with Session("any", chunk=chunk) as s:
            locks_kernel[(n,)](x, total, most, lock, locks, block)
        ends = [end.tobytes() for out in (total, most) for e in [s.envelope(out)] for end in (e.lo, e.hi)]
        seen.append((total.numpy().tobytes(), most.numpy().tobytes(), lock.tolist(), ends))
        assert not s.findings and not any(s.envelope(out).taints for out in (total, most))
        if chunk is None:
            stats = s.launches[0].stats
            assert stats.sequential and stats.passes - stats.rollbacks <= 2 * n / min(locks, 32) + (locks < 4) * n + 8
    assert seen[0] == seen[1]
    assert lock.tolist() == [0] * locks + [len(range(k, n, locks)) for k in range(locks)]


@triton.jit
def passed_on_kernel(slot_ptr, out_ptr, n):
    pid = tl.program_id(0)
    tl.atomic_xchg(slot_ptr + pid, pid + 10)
    tl.atomic_add(slot_ptr + (pid + 1) % n, 100)
    tl.store(out_ptr + pid, tl.atomic_cas(slot_ptr + (pid + 2) % n, 0, 7))


@pytest.mark.parametrize("n", [3, 5, 24])
def test_what_follows_an_exchange_at_its_address_keeps_its_place(n):
    """Each program exchanges one element and updates the next ones, which others exchange: all in order, as alone."""
    slots, slot, expected = torch.zeros(n, dtype=torch.int32), [0] * n, []
    for pid in range(n):
        slot[pid] = pid + 10
        slot[(pid + 1) % n] += 100
        expected.append(slot[(pid + 2) % n])
        slot[(pid + 2) % n] = slot[(pid + 2) % n] or 7
    out = torch.zeros(n, dtype=torch.int32)
    with Session("any") as s:
        passed_on_kernel[(n,)](slots, out, n)
    assert slots.tolist() == slot and out.tolist() == expected and s.launches[0].sequential


@pytest.mark.parametrize("chunk", CHUNKS)
def test_lock(chunk):
    x = torch.randn(32 * 16)
    out, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    with Session("ieee", chunk=chunk) as s:
        zoo.lock_kernel[(32,)](x, out, lock, 16)
    env = s.envelope(out)
    exact = x.double().sum().item()
    assert env.lo[0] <= exact <= env.hi[0] and lock.item() == 0
    assert not s.findings and not env.taints
    assert abs(out.item() - exact) < 1e-4


def test_order_of_programs_is_the_stock_one():
    from render.interpreter.grid import program_ids

    assert program_ids((2, 1, 3)).tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0], [1, 0, 1], [1, 0, 2]]


def test_empty_grid_runs_nothing():
    out = torch.zeros(1, dtype=torch.int32)
    with Session("ieee") as s:
        zoo.double_assign_kernel[(0,)](out)
    assert s.launches[0].programs == 0


def test_autotuned_split_sum_encloses_the_exact_sum():
    x, out = torch.randn(100), torch.zeros(1)
    with Session("any") as s:
        zoo.tuned_kernel[lambda meta: (triton.cdiv(100, meta["B"]),)](x, out, 100)
    env = s.envelope(out)
    assert env.lo[0] <= x.double().sum().item() <= env.hi[0]


def test_sums_under_a_lock_hold_for_every_order_of_programs():
    x = torch.randn(32 * 16) * 1e3
    out, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    with Session("ieee") as s:
        zoo.lock_kernel[(32,)](x, out, lock, 16)
    env = s.envelope(out)
    parts = x.reshape(32, 16).sum(1).numpy()
    generator = np.random.default_rng(0)
    orders = [generator.permutation(32) for _ in range(200)] + [np.argsort(parts), np.argsort(-parts)]
    for order in orders:
        total = np.float32(0)
        for i in order:
            total = np.float32(total + parts[i])
        assert env.lo[0] <= total <= env.hi[0]


@triton.jit
def speaking(p, out, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.device_print("at", pid)
    x = tl.load(p + pid * B + tl.arange(0, B))
    if pid % 3 == 0:
        x = x * 2
    tl.store(out + pid * B + tl.arange(0, B), x)


@pytest.mark.parametrize(("programs", "block"), [(7, 16), (300, 2048)])
def test_a_program_prints_once(programs, block):
    """Also where its chunk was too long, or split, and ran again."""
    said, x = [], torch.ones(programs * block)
    with Session("ieee", printer=said.append) as s:
        speaking[(programs,)](x, torch.empty_like(x), B=block)
    assert s.launches[0].rollbacks > 0
    assert sorted(said) == sorted(f"pid ({i}, 0, 0) at: {i}" for i in range(programs))


@triton.jit
def failing(out):
    tl.device_print("at", tl.program_id(0))
    tl.store(out, tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((32, 16), tl.float32)))


def test_what_was_printed_before_a_failure_is_heard():
    said = []
    with pytest.raises(CompilationError), Session("ieee", printer=said.append):
        failing[(2,)](torch.empty(1))
    assert said == ["pid (0, 0, 0) at: 0", "pid (1, 0, 0) at: 1"]


@triton.jit
def two_axes(p, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.load(p + at) + tl.zeros((M, N), tl.float32))


@pytest.mark.parametrize(("programs", "m", "n", "chunks"), [(200, 2, 4, 1), (200, 8, 512, 3), (300, 64, 64, 4)])
def test_small_programs_run_at_once_and_large_ones_do_not(programs, m, n, chunks):
    """The first chunk is cut before a block that is too large for it is made."""
    x = torch.randn(programs * m * n)
    out = torch.empty_like(x)
    with Session("ieee") as s:
        two_axes[(programs,)](x, out, M=m, N=n)
    assert torch.equal(out, x)
    assert (s.launches[0].chunks, s.launches[0].stats.chunk_size * m * n <= TARGET) == (chunks, True)


@triton.jit
def telling(x, out, N: tl.constexpr):
    i = tl.program_id(0)
    v = tl.load(x + i)
    if v > 2:
        tl.device_print("large", v)
        v = v * 2
    else:
        if i % 2 == 0:
            tl.device_print("small and even")
    tl.store(out + i, v)


def test_programs_that_part_print_for_themselves():
    """Who does not come there is not heard; what all have in common is said by each."""
    said, x = [], torch.tensor([1.0, 3.0, 1.0, 5.0, 2.0, 4.0])
    with Session("ieee", printer=said.append):
        telling[(6,)](x, torch.empty(6), N=6)
    large = [f"pid ({i}, 0, 0) large: {x[i]}" for i in (1, 3, 5)]
    assert sorted(s for s in said if "pid" in s) == large and all("small" in s for s in said if "pid" not in s)
