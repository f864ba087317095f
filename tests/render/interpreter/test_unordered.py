"""Stores that other threads of the program need not see yet: told without a barrier, silent with one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter import unordered
from render.interpreter.session import Session
from render.interpreter.unordered import LANES, MOST, STORES, _Access, _Past, apart, strangers

N = 64


@triton.jit
def through_memory(X, Y, N: tl.constexpr, KIND: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    back = tl.program_id(0) * N + N - 1 - tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(Y + i, x * 2)
    if BARRIER:
        tl.debug_barrier()
    if KIND == "reversed":
        x = tl.load(Y + back)
    elif KIND == "neighbour":
        x = tl.load(Y + i - 1, mask=i > tl.program_id(0) * N, other=0.0)
    elif KIND == "narrower":
        half = tl.program_id(0) * N + tl.arange(0, N // 2)
        x = x + tl.sum(tl.load(Y + half), 0)
    elif KIND == "scalar":
        tl.debug_barrier()
        tl.store(Y + tl.program_id(0) * N, 3.0)
        if BARRIER:
            tl.debug_barrier()
        x = x + tl.load(Y + tl.program_id(0) * N)
    elif KIND == "same lanes":
        x = tl.load(Y + i)
    elif KIND == "after a reduction":
        s = tl.sum(x, 0)
        x = tl.load(Y + back) + s
    elif KIND == "elsewhere":
        x = tl.load(X + back)
    tl.debug_barrier()
    tl.store(Y + i, x)


def told(kind: str, barrier: bool, warps: int = 4) -> list[str]:
    x, y = torch.arange(2.0 * N), torch.zeros(2 * N)
    with Session(device="any") as session:
        through_memory[(2,)](x, y, N=N, KIND=kind, BARRIER=barrier, num_warps=warps)
    return [session.taints[i].message for i in session.envelope(y).taints]


@pytest.mark.parametrize("kind", ["reversed", "neighbour", "narrower", "scalar"])
def test_a_missing_barrier_is_told(kind):
    (message,) = told(kind, False)
    assert "barrier" in message
    assert not told(kind, True)


@pytest.mark.parametrize("kind", ["same lanes", "after a reduction", "elsewhere"])
def test_what_is_ordered_is_not(kind):
    assert not told(kind, False)


def test_one_warp_runs_in_step():
    assert not told("reversed", False, warps=1)


@triton.jit
def in_place(X, Y, N: tl.constexpr, KIND: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    back = tl.program_id(0) * N + N - 1 - tl.arange(0, N)
    if KIND == "reversed":
        x = tl.load(X + back)
    elif KIND == "shifted":
        x = tl.load(X + i + 1, mask=i + 1 < (tl.program_id(0) + 1) * N, other=0.0)
    elif KIND == "spread":
        x = tl.load(X + tl.program_id(0) * N + tl.arange(0, N) // 2)
    elif KIND == "summed":
        x = tl.load(X + back)
        x = x + tl.sum(x, 0)
    elif KIND == "other half":
        x = tl.load(X + back, mask=i % N < N // 2, other=0.0)
    elif KIND == "two parts":
        x = tl.load(X + i, mask=i % N < N // 2, other=0.0) + tl.load(X + i, mask=i % N >= N // 2, other=0.0)
    elif KIND == "one number":
        x = tl.load(X + i) + tl.load(X + tl.program_id(0) * N)
    else:
        x = tl.load(X + i)
    if BARRIER:
        tl.debug_barrier()
    tl.store(X + i, x * 0.5, mask=(i % N < N // 2) | (KIND != "other half"))
    tl.store(Y + i, x)


def late(kind: str, barrier: bool = False, warps: int = 4) -> tuple[list[str], list[str]]:
    x, y = torch.arange(2.0 * N), torch.zeros(2 * N)
    with Session(device="any") as session:
        in_place[(2,)](x, y, N=N, KIND=kind, BARRIER=barrier, num_warps=warps)
    first, second = ([session.taints[i].message for i in session.envelope(t).taints] for t in (x, y))
    return first, second


@pytest.mark.parametrize("kind", ["reversed", "shifted", "spread"])
def test_a_late_warp_may_load_what_is_overwritten(kind):
    """In what it overwrites and in what is stored of the load afterwards."""
    for messages in late(kind):
        assert len(messages) == 1 and "overwritten" in messages[0] and "barrier" in messages[0]
    assert late(kind, barrier=True) == ([], [])
    assert late(kind, warps=1) == ([], [])


@pytest.mark.parametrize("kind", ["summed", "other half", "two parts", "one number", "own"])
def test_lanes_that_overwrite_their_own_loads_are_in_order(kind):
    assert late(kind) == ([], [])


@triton.jit
def past_the_end(X, Y, D, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i))
    tl.store(Y + i, tl.load(X + D + i))


def test_a_lane_outside_its_tensor_says_nothing_about_its_neighbour():
    both = torch.arange(4.0 * N)
    x, y = torch.arange(float(N)), torch.zeros(N)
    apart = (y.data_ptr() - x.data_ptr()) // 4  # wherever the allocator put them, `X + D` hits Y one lane further
    assert (y.data_ptr() - x.data_ptr()) % 4 == 0
    with Session(device="any") as session:
        past_the_end[(1,)](x, y, apart + 1, N=N)
        past_the_end[(1,)](both, both[2 * N :], 2 * N + 1, N=N)  # the same distance within one tensor
    assert any(f.code == "RND207" for f in session.memory.findings)
    assert not session.envelope(y).taints
    assert {session.taints[i].code for i in session.envelope(both).taints} == {"RND305"}


@triton.jit
def tiles_of_its_own(X, Y, n, N: tl.constexpr):
    """The turns load what the program stored before a barrier: at first they run at once, then the program again."""
    at = tl.arange(0, N)
    tl.store(X + at, at * 0.5)
    tl.debug_barrier()
    for i in range(n):
        tl.store(Y + i * N + at, tl.load(X + N - 1 - at) + i)


def test_what_a_program_did_before_it_ran_again_is_not_before_it():
    x, y = torch.zeros(N), torch.zeros(20 * N)
    with Session(device="any") as session:
        tiles_of_its_own[(1,)](x, y, 20, N=N, num_warps=4)
    assert session.launches[0].rollbacks
    assert not session.envelope(x).taints
    assert not session.envelope(y).taints


@triton.jit
def stored_twice(X, Y, n, N: tl.constexpr, KIND: tl.constexpr, BARRIER: tl.constexpr):
    start = tl.program_id(0) * N * n
    at = start + tl.arange(0, N)
    back = start + N - 1 - tl.arange(0, N)
    if KIND == "many tiles before":
        for i in range(n):
            tl.store(Y + at + i * N, tl.load(X + at + i * N))
    else:
        tl.store(Y + at, tl.load(X + at))
    if BARRIER:
        tl.debug_barrier()
    if KIND == "reversed" or KIND == "many tiles before":
        tl.store(Y + back, 1.0)
    elif KIND == "one number":
        tl.store(Y + start + N // 2, 1.0)
    elif KIND == "the same numbers":
        tl.store(Y + back, tl.load(X + back))
    elif KIND == "own lanes":
        tl.store(Y + at, 1.0)
    elif KIND == "pairs":
        tl.store(Y + start + tl.arange(0, N) // 2, 1.0)


def either(kind: str, barrier: bool = False, warps: int = 4) -> list[str]:
    x, y = torch.arange(2.0 * N * 20), torch.zeros(2 * N * 20)
    with Session(device="any") as session:
        stored_twice[(2,)](x, y, 20, N=N, KIND=kind, BARRIER=barrier, num_warps=warps)
    return [session.taints[i].message for i in session.envelope(y).taints]


@pytest.mark.parametrize("kind", ["reversed", "one number", "pairs", "many tiles before"])
def test_of_two_stores_of_an_element_by_two_threads_either_may_stay(kind):
    (message,) = either(kind)
    assert "stored another value" in message
    assert not either(kind, barrier=True)
    assert not either(kind, warps=1)


@pytest.mark.parametrize("kind", ["the same numbers", "own lanes"])
def test_two_stores_of_one_thread_or_of_one_number_are_in_order(kind):
    assert not either(kind)


@triton.jit
def long_ago(X, Y, Z, n, N: tl.constexpr, KIND: tl.constexpr, TILE: tl.constexpr):
    at = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for i in range(n):
        x = tl.load(X + i * N + at)
        total += x
        if KIND == "stored":
            tl.store(Y + i * N + at, x)
    if KIND == "stored":
        tl.store(Z + at, tl.load(Y + TILE * N + N - 1 - at))
    else:
        tl.store(X + TILE * N + N - 1 - at, total)


@pytest.mark.parametrize("kind", ["stored", "loaded"])
@pytest.mark.parametrize("tile", [0, 40, 199])
def test_what_is_long_ago_in_a_loop_is_remembered(kind, tile):
    x, y, z = torch.arange(200.0 * N), torch.zeros(200 * N), torch.zeros(N)
    with Session(device="any") as session:
        long_ago[(1,)](x, y, z, 200, N=N, KIND=kind, TILE=tile)
    tainted = session.envelope(z if kind == "stored" else x).taints
    assert [session.taints[i].code for i in tainted] == ["RND305"]


def test_turns_that_run_at_once_stand_against_what_was_before_the_loop():
    x, y = torch.arange(20.0 * N), torch.zeros(20 * N)
    with Session(device="any") as session:
        tiles_over_a_load[(1,)](x, y, 20, N=N, num_warps=4)
    assert {session.taints[i].code for i in session.envelope(y).taints} == {"RND305"}


@triton.jit
def tiles_over_a_load(X, Y, n, N: tl.constexpr):
    at = tl.arange(0, N)
    before = tl.load(Y + 10 * N + N - 1 - at)
    for i in range(n):
        tl.store(Y + i * N + at, tl.load(X + i * N + at))
    tl.store(X + at, before)


SHAPES = [(), (4,), (2, 3), (8,)]


def some_access(
    rng: np.random.Generator, linear: np.ndarray, turns: int, shape: tuple[int, ...], places: int
) -> _Access:
    """Addresses at random, of one row that all share, or tiles whose rows interleave; a mask of as many rows or one."""
    rows = int(rng.choice([1, turns]))
    start = rng.integers(0, places, (rows, *(1,) * len(shape))) * 4
    tile = np.arange(int(np.prod(shape))).reshape(shape) * int(rng.choice([4, 8, 256]))
    ptr = [rng.integers(0, places, (rows, *shape)) * 4, np.broadcast_to(start, (rows, *shape)), start + tile]
    mask = None if rng.random() < 0.4 else rng.random((int(rng.choice([1, turns])), *shape)) < 0.7
    return _Access(linear, ptr[rng.integers(3)].astype(np.int64), mask, None)


def test_accesses_that_share_an_address_are_those_of_all_pairs_of_lanes():
    rng, met, told = np.random.default_rng(0), 0, 0
    for _ in range(1500):
        linear = np.arange(int(rng.choice([1, 1, 2, 5])))
        turns, shape = len(linear) if len(linear) > 1 else int(rng.choice([1, 4])), SHAPES[rng.integers(4)]
        other = shape if rng.random() < 0.6 else SHAPES[rng.integers(4)]
        places = int(rng.choice([8, 60, 300, 1 << 21]))
        two = some_access(rng, linear, turns, shape, places), some_access(rng, linear, turns, other, places)
        lanes = []
        for pointers, active in (a.lanes for a in two):
            each = [set(p[a].tolist()) for p, a in zip(pointers, active, strict=True)]
            lanes.append([set().union(*each)] if len(linear) == 1 else each * (turns if len(each) == 1 else 1))
        shared = any(a & b for a, b in zip(*lanes, strict=True))
        assert (strangers(*two, own=False) is not None) == shared
        assert not (shared and apart(*two))
        told += apart(*two)
        met += shared
    assert met > 200
    assert told > 300


def of_lanes(start: int, lanes: int) -> _Access:
    return _Access(np.arange(1), start + 4 * np.arange(lanes)[None], None, None)


def test_the_last_accesses_are_remembered_and_some_however_large() -> None:
    past = _Past(STORES)
    for k in range(MOST + 20):
        past.add(of_lanes(k * 1000, 8))
        assert len(past.accesses) == min(k + 1, MOST) and past.size == 8 * len(past.accesses)
    assert past.accesses[0].span[0] == 20 * 1000
    large = _Past(STORES)
    for k in range(STORES + 5):
        large.add(of_lanes(k, LANES // 4))
        assert len(large.accesses) == min(k + 1, STORES)
    exact = _Past(2)
    for k in range(8):
        exact.add(of_lanes(k, LANES // 4))
    assert len(exact.accesses) == 4  # as many lanes as there may be, and no more


def test_those_that_lie_near_are_found_also_after_others_were_forgotten() -> None:
    past, linear = _Past(2), np.arange(1)
    for k in range(MOST + 9):
        past.add(_Access(linear, np.array([[k * 64, k * 64 + 32]]), None, None))
        other = _Access(linear, np.array([[k * 64 + 32, k * 64 + 40]]), None, None)
        assert list(past.near(other)) == [past.accesses[-1]]
        if k > 3:
            assert len(list(past.near(_Access(linear, np.array([[(k - 2) * 64, k * 64]]), None, None)))) == 3
    assert not list(past.near(_Access(linear, np.array([[10**6, 10**6]]), None, None)))
    assert not list(past.near(_Access(np.arange(1), np.array([[(MOST + 8) * 64] * 2]), None, None)))  # another pass


def test_what_comes_again_counts_once_as_the_newest() -> None:
    past, linear = _Past(2), np.arange(2)

    def access(at: int, mask: np.ndarray | None = None, of: np.ndarray = linear) -> _Access:
        return _Access(of, at + np.array([[0, 8, 4], [64, 72, 68]]), mask, None)

    def starts() -> list[int]:
        return [int(a.ptr.item(0)) for a in past.accesses]

    for at in (0, 256, 512, 0, 256):
        past.add(access(at))
        assert list(past.near(access(at)))[-1] is past.accesses[-1]
    assert starts() == [512, 0, 256] and past.size == 18
    on = np.array([[True, True, False]])
    past.add(access(0, on))  # other lanes
    past.add(access(0, on.copy()))
    past.add(access(0, of=np.arange(2)))  # another pass
    permuted = _Access(linear, np.array([[0, 4, 4], [64, 68, 68]]), None, None)  # it begins and ends as another does
    past.add(permuted)
    assert starts() == [512, 0, 256, 0, 0, 0] and len(list(past.near(access(0)))) == 3
    for k in range(MOST):  # whatever is forgotten is no longer known
        past.add(access(1024 + 256 * k))
    assert starts()[0] == 1024 and len(past.accesses) == MOST
    past.add(access(0))
    assert starts()[0] == 1280 and past.size == 6 * MOST


def test_accesses_that_are_counted_once_meet_what_all_of_them_do() -> None:
    rng, linear = np.random.default_rng(5), np.arange(2)
    places = [rng.permutation(6) for _ in range(3)] + [rng.integers(0, 9, 6) for _ in range(3)]
    for _ in range(12):
        past, every = _Past(STORES), []
        for _ in range(12):
            masks = [None, rng.random((2, 6)) < 0.7]
            ptr = 4 * (places[rng.integers(6)] + 16 * np.arange(2)[:, None])
            every.append(_Access(linear, ptr, masks[rng.integers(2)], None))
            past.add(every[-1])
            for own in (True, False):
                load = _Access(linear, 4 * (places[rng.integers(6)] + 16 * np.arange(2)[:, None]), None, None)
                found = [strangers(a, load, own) for a in past.near(load)]
                plain = [strangers(a, load, own) for a in every]
                lanes, expected = (sum((f for f in each if f is not None), np.zeros(1)) > 0 for each in (found, plain))
                assert np.array_equal(*np.broadcast_arrays(lanes, expected))


@triton.jit
def again_and_again(X, Out, turns, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + i)
    for _ in range(turns):
        x = x + tl.load(Out + i)
        tl.store(Out + i, x)


def test_a_loop_that_stores_to_one_place_compares_each_turn_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    plain = unordered.strangers
    monkeypatch.setattr(unordered, "strangers", lambda *a: (asked.append(a), plain(*a))[1])
    x, out = torch.ones(2 * N), torch.zeros(2 * N)
    with Session("any") as session:
        again_and_again[(2,)](x, out, 12, N)
    assert torch.equal(out, torch.full((2 * N,), 2048.0)) and not session.envelope(out).taints
    assert 0 < len(asked) < 12 * 10
