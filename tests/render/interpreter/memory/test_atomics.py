"""Atomics: the value lane in program order, bounds for every order, integers and exchanges in order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from memory_driver import Driver, run_one_by_one
from support import rng, trials

from interval_ops.profiles.profile import load_profile
from render.interpreter.memory import Hazard, LaunchInfo, Memory, Retry

NUMPY = {
    torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16,
    torch.bfloat16: ml_dtypes.bfloat16,
}  # fmt: skip


def driver(programs: int) -> Driver:
    return Driver(programs, Memory(profile=load_profile("ieee")))


def column(pids: np.ndarray, value: int = 0) -> np.ndarray:
    return np.full((len(pids), 1), value)


@pytest.mark.parametrize("dtype", list(NUMPY), ids=str)
@pytest.mark.parametrize("seed", range(trials(4)))
def test_float_sums(dtype, seed):
    """Twelve programs add to five elements; every order of adds, rounded one by one, stays inside."""
    g = rng(seed)
    kind = NUMPY[dtype]
    out = torch.randn(5).to(dtype)
    start = out.double().numpy().copy()
    index = g.integers(0, 5, (12, 7))
    v = (g.standard_normal(index.shape) * 2.0 ** g.integers(-6, 6, index.shape)).astype(kind)
    mask = g.random(index.shape) < 0.8
    d = driver(12)
    with d:
        got = d.atomic("add", out, index, v.astype(np.float64), radius=0.0, mask=mask)
    acc = start.astype(kind)
    for i, x, m, old in zip(index.flat, v.flat, mask.flat, got.v.flat, strict=True):
        if m:
            assert old == acc[i]
            acc[i] = acc[i] + x
    np.testing.assert_array_equal(out.double().numpy(), acc.astype(np.float64))
    assert np.isneginf(got.lo).all() and np.isposinf(got.hi).all() and got.ordered
    env = d.memory.envelope(out)
    exact = start + [sum(float(x) for x in v[mask & (index == i)]) for i in range(5)]
    assert (env.lo <= exact).all() and (exact <= env.hi).all()
    lanes = [(i, x) for i, x, m in zip(index.flat, v.flat, mask.flat, strict=True) if m]
    for _ in range(20):
        acc = start.astype(kind)
        for k in g.permutation(len(lanes)):
            acc[lanes[k][0]] = acc[lanes[k][0]] + lanes[k][1]
        assert (env.lo <= acc.astype(np.float64)).all() and (acc.astype(np.float64) <= env.hi).all()
    u = 2.0 ** -{torch.float32: 24, torch.float64: 53, torch.float16: 11, torch.bfloat16: 8}[dtype]
    total = np.abs(start) + [sum(abs(float(x)) for x in v[mask & (index == i)]) for i in range(5)]
    assert (env.hi - env.lo <= 2.5 * 84 * u * total).all()
    assert not d.memory.findings and not d.memory.taints.all


def test_special_values_of_half_atomics():
    values = [0.0, -0.0, 6e-8, -6e-8, 6.1e-5, 65504.0, np.inf, -np.inf, np.nan, 1.0009765625]
    out = torch.tensor(values, dtype=torch.float16)
    expected = out.clone()
    with driver(1) as d:
        d.atomic("add", out, np.arange(10)[None], np.zeros((1, 10)), radius=0.0)
        d.atomic("max", out, np.arange(10)[None], np.full((1, 10), -np.inf), radius=0.0)
    # -0 + 0 is +0.
    expected[1] = 0.0
    np.testing.assert_array_equal(out.view(torch.int16).numpy(), expected.view(torch.int16).numpy())


def test_bounds_of_addends_and_of_the_old_contents_count():
    out = torch.zeros(2)
    with driver(3) as d:
        d.store(out, np.array([[0, 1]]), [[1.0, 1.0]], radius=0.5, pids=[0])
        d.memory.commit()
        d.memory.begin_chunk()
        d.atomic("add", out, column(d.pids), np.ones((3, 1)), radius=0.25)
    env = d.memory.envelope(out)
    np.testing.assert_allclose([env.lo[0], env.hi[0]], [1.0 + 3 - 0.5 - 0.75, 4 + 1.25], rtol=1e-6)
    assert [env.lo[1], env.hi[1]] == [0.5, 1.5]


def test_sums_are_closed_over_all_chunks_of_a_launch():
    """One rounding per add, whatever the chunks: eight chunks give the bound of one."""
    v = rng(1).standard_normal(64)
    widths = []
    for size in (8, 64):
        out = torch.zeros(1)
        d = driver(64)
        d.memory.begin_launch(LaunchInfo("kernel", (64, 1, 1)))
        for first in range(0, 64, size):
            d.memory.begin_chunk()
            pids = d.pids[first : first + size]
            d.atomic("add", out, column(pids), v[first : first + size, None], radius=0.0, pids=pids)
            d.memory.commit()
        d.memory.end_launch()
        env = d.memory.envelope(out)
        widths.append((env.lo.item(), env.hi.item(), out.item()))
    assert widths[0] == widths[1] and widths[0][0] < widths[0][2] < widths[0][1]


def test_a_read_in_between_sees_the_open_sum_and_does_not_narrow_the_rest():
    out = torch.zeros(1)
    d = driver(3)
    d.memory.begin_launch(LaunchInfo("kernel", (3, 1, 1)))
    seen = []
    for pid in range(3):
        pids = d.pids[pid : pid + 1]
        d.memory.begin_chunk()
        d.atomic("add", out, column(pids), [[1.0]], radius=0.5, pids=pids)
        seen.append(d.load(out, column(pids), pids=pids))
        d.memory.commit()
    d.memory.end_launch()
    for n, got in enumerate(seen, 1):
        np.testing.assert_allclose([got.lo.item(), got.hi.item()], [0.5 * n, 1.5 * n], rtol=1e-6)
    env = d.memory.envelope(out)
    np.testing.assert_allclose([env.lo.item(), env.hi.item()], [1.5, 4.5], rtol=1e-6)


def test_a_plain_store_ends_a_sum():
    out = torch.zeros(2)
    with driver(1) as d:
        d.atomic("add", out, np.array([[0, 1]]), [[1.0, 1.0]], radius=0.5)
        d.store(out, np.array([[0]]), [[7.0]])
        d.atomic("add", out, np.array([[0]]), [[1.0]], radius=0.0)
    env = d.memory.envelope(out)
    assert out.tolist() == [8, 1] and env.hi[0] - env.lo[0] < 1e-5 and env.hi[1] >= 1.5


@pytest.mark.parametrize("kind", ["max", "min"])
def test_float_extrema_are_exact_in_every_order(kind):
    g = rng(2)
    out = torch.zeros(4)
    index = g.integers(0, 4, (6, 9))
    v = g.standard_normal(index.shape).astype(np.float32)
    radius = g.random(index.shape) / 4
    with driver(6) as d:
        d.atomic(kind, out, index, v, radius=radius)
    f = {"max": np.max, "min": np.min}[kind]
    for k in range(4):
        here = index == k
        assert out[k] == f([0, *v[here]])
        env = d.memory.envelope(out)
        assert env.lo[k] == f([0, *(v.astype(float) - radius)[here]])
        assert env.hi[k] == f([0, *(v.astype(float) + radius)[here]])


def test_nan_in_a_maximum():
    out = torch.zeros(2)
    with driver(1) as d:
        d.atomic("max", out, np.array([[0, 1]]), [[np.nan, 2.0]], radius=0.0)
    env = d.memory.envelope(out)
    assert np.isnan(out[0].item()) and np.isnan(env.lo[0]) and env.hi[1] == 2


INTEGER_OPS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "umax": np.maximum, "umin": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint32], ids=str)
@pytest.mark.parametrize("kind", INTEGER_OPS)
def test_integer_operations_run_in_order(kind, dtype):
    g = rng(3)
    info = torch.iinfo(dtype)
    out = torch.from_numpy(g.integers(info.min, info.max, 5, dtype=out_type(dtype)))
    model = out.numpy().copy()
    index = g.integers(0, 5, (4, 6))
    v = g.integers(info.min, info.max, index.shape, dtype=out_type(dtype))
    with driver(4) as d:
        got = d.atomic(kind, out, index, v)
    unsigned = kind.startswith("u")
    for i, x, old in zip(index.flat, v.flat, got.v.flat, strict=True):
        assert old == model[i]
        a, b = (model[i : i + 1], np.array([x]))
        if unsigned:
            a, b = (t.view(f"u{t.itemsize}") for t in (a, b))
        model[i : i + 1] = INTEGER_OPS[kind](a, b).view(model.dtype)
    np.testing.assert_array_equal(out.numpy(), model)
    assert got.lo is None and got.ordered


def out_type(dtype: torch.dtype) -> type:
    return {torch.int32: np.int32, torch.int64: np.int64, torch.uint32: np.uint32}[dtype]


def test_own_addresses_do_not_depend_on_the_order():
    out = torch.zeros(4, dtype=torch.int32)
    with driver(4) as d:
        got = d.atomic("add", out, d.pids[:, None], 1)
    assert not got.ordered and out.tolist() == [1] * 4


@pytest.mark.parametrize("kind", ["cas", "xchg"])
def test_exchanges_run_one_program_at_a_time(kind):
    out = torch.zeros(1, dtype=torch.int32)
    old = {}

    def body(d: Driver, pids: np.ndarray) -> None:
        got = d.atomic(kind, out, column(pids), pids[:, None] + 1, cmp=0, pids=pids)
        old[int(pids[0])] = int(got.v[0, 0])

    d = driver(4)
    assert run_one_by_one(d, body) == "one by one"
    assert old == ({0: 0, 1: 1, 2: 1, 3: 1} if kind == "cas" else {0: 0, 1: 1, 2: 2, 3: 3})
    assert out.item() == (1 if kind == "cas" else 4) and not d.memory.findings


def test_exchanged_floats_take_their_bounds_along():
    out = torch.ones(3)
    with driver(1) as d:
        got = d.atomic("xchg", out, np.array([[0, 1]]), [[5.0, 6.0]], radius=0.5)
        failed = d.atomic("cas", out, np.array([[1, 2]]), [[8.0, 9.0]], radius=0.25, cmp=[[1.0, 1.0]])
    assert got.v.tolist() == [[1, 1]] and failed.v.tolist() == [[6, 1]] and out.tolist() == [5, 6, 9]
    env = d.memory.envelope(out)
    assert env.lo.tolist() == [4.5, 5.5, 8.75] and env.hi.tolist() == [5.5, 6.5, 9.25]


def test_scalar_pointers_count_once_per_program_and_blocks_once_per_lane():
    out = torch.zeros(2, dtype=torch.int32)
    with driver(5) as d:
        d.atomic("add", out, np.broadcast_to(np.zeros((1, 1), np.int64), (5, 1)), 1)
        d.atomic("add", out, np.broadcast_to(np.ones((1, 1), np.int64), (5, 3)), 1)
    assert out.tolist() == [5, 15]


def test_atomics_on_unwritten_memory():
    out = torch.full((4,), 99.0)
    d = driver(2)
    d.memory.mark_unwritten(out)
    with d:
        got = d.atomic("add", out, d.pids[:, None], [[1.0], [2.0]], radius=0.0)
    (finding,) = d.memory.findings
    assert finding.code == "RND208" and finding.kind == "atomic" and finding.count == 2 and finding.taint in got.taint
    assert out.tolist()[:2] == [1, 2]
    env = d.memory.envelope(out)
    assert np.isnan(env.lo).all() and finding.taint in env.taints and env.written.tolist() == [True, True, False, False]


def test_atomics_outside_are_dropped():
    out = torch.zeros(2)
    with driver(1) as d:
        got = d.atomic("add", out, np.array([[1, 2, -1]]), [[1.0, 1.0, 1.0]], radius=0.0)
        d.atomic("add", torch.zeros(2, dtype=torch.int32), np.array([[2]]), 1)
    assert [(f.code, f.kind, f.count) for f in d.memory.findings] == [("RND207", "atomic", 2), ("RND207", "atomic", 1)]
    assert out.tolist() == [0, 1] and got.v.tolist() == [[0, 0, 0]]


def test_plain_reads_of_what_the_chunk_updates_are_hazards():
    out = torch.zeros(1)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.atomic("add", out, column(pids), np.ones((len(pids), 1)), radius=0.0, pids=pids)
        got = d.load(out, column(pids), pids=pids)
        assert len(pids) > 1 or got.v.item() == pids[0] + 1

    d = driver(3)
    assert run_one_by_one(d, body) == "one by one" and not d.memory.taints.all


def test_updates_of_what_the_chunk_stored_are_hazards_and_races():
    """Program 0 clears the cell, all add to it without waiting: a race in every order but this one."""
    out = torch.full((1,), 9.0)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.store(out, column(pids), np.zeros((len(pids), 1)), mask=pids[:, None] == 0, pids=pids)
        d.atomic("add", out, column(pids), np.ones((len(pids), 1)), radius=0.0, pids=pids)

    d = driver(3)
    assert run_one_by_one(d, body) == "one by one" and out.item() == 3
    assert {t.code for t in d.memory.taints.all.values()} == {"RND305"} and d.memory.envelope(out).taints


def test_the_last_program_may_read_all_partial_results():
    """Partials, a ticket, and the last ticket sums up: the usual single-pass reduction."""
    part, total = torch.zeros(4), torch.zeros(1)
    ticket = torch.zeros(1, dtype=torch.int32)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.store(part, pids[:, None], pids[:, None] + 1.0, radius=0.25, pids=pids)
        got = d.atomic("add", ticket, column(pids), 1, pids=pids)
        for row, pid in enumerate(pids):
            if got.v[row, 0] == 3:
                one = np.array([pid], np.int32)
                parts = d.load(part, np.arange(4)[None], pids=one)
                d.store(total, np.zeros((1, 1)), parts.v.sum(keepdims=True), pids=one)

    d = driver(4)
    assert run_one_by_one(d, body) == "one by one"
    assert total.item() == 10 and not d.memory.findings and not d.memory.taints.all


def test_atomic_loads_and_stores_synchronise():
    flag, data = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    with driver(2) as d:
        d.store(data, np.zeros((1, 1)), [[5.0]], pids=[0])
        d.atomic("store", flag, np.zeros((1, 1)), 1, pids=[0])
        d.memory.commit()
        d.memory.begin_chunk()
        seen = d.atomic("load", flag, np.zeros((1, 1)), None, pids=[1])
        got = d.load(data, np.zeros((1, 1)), pids=[1])
    assert seen.v.item() == 1 and got.v.item() == 5 and not got.taint and not seen.taint


def test_pointers_of_unknown_origin():
    a, b = torch.zeros(3), torch.zeros(3)
    d = driver(1)
    e, _, _ = d.pointers(a, np.zeros((1, 1)))
    d.pointers(b, np.zeros((1, 1)))
    ptr = np.array([[a.data_ptr() + 4, b.data_ptr() + 8, 64, a.data_ptr() + 4]], np.int64)
    v = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)
    with d:
        got = d.memory.atomic("add", d.request(ptr, e, None, None), v)
    assert a.tolist() == [0, 5, 0] and b.tolist() == [0, 0, 2] and got.v.tolist() == [[0, 0, 0, 1]]
    assert len(d.memory.findings) == 1


def test_unknown_operations_and_formats_are_refused():
    with driver(1) as d:
        with pytest.raises(ValueError, match="unknown atomic operation 'nand'"):
            d.atomic("nand", torch.zeros(1), np.zeros((1, 1)), 1.0)
        tiny = torch.zeros(1, dtype=torch.float8_e5m2)
        with pytest.raises(ValueError, match="no target has atomics on fp8e5"):
            d.atomic("add", tiny, np.zeros((1, 1)), 1.0)


def test_the_signals_pass_through_except_exception():
    assert not issubclass(Hazard, Exception) and not issubclass(Retry, Exception)
