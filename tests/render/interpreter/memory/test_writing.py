"""Stores: bits, bounds, stamps, aliases, bitcasts, and conflicts between lanes and programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from memory_driver import Driver, run_one_by_one
from support import rng, trials

from render.interpreter.memory import Hazard, Memory
from render.interpreter.session import Session

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn]
ROW = np.arange(8)[None]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_stored_values_are_torch_bits(dtype):
    values = torch.randn(300).to(dtype)
    out = torch.zeros(300, dtype=dtype)
    with Driver() as d:
        d.store(out, np.arange(300)[None], values.double().numpy()[None])
    assert torch.equal(out.view(torch.uint8), values.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_stored_integers(dtype):
    out = torch.zeros(8, dtype=dtype)
    with Driver() as d:
        d.store(out, ROW, np.arange(8) - (0 if dtype == torch.uint8 else 4))
    assert out.tolist() == [i - (0 if dtype == torch.uint8 else 4) for i in range(8)]


def test_stored_bools():
    out = torch.zeros(4, dtype=torch.bool)
    with Driver() as d:
        d.store(out, np.arange(4)[None], np.array([True, False, True, True]))
    assert out.tolist() == [True, False, True, True]


@triton.jit
def equal_kernel(X, Y, Out, N: tl.constexpr):
    at = tl.make_block_ptr(Out, (N,), (1,), (0,), (N,), (0,))
    i = tl.arange(0, N)
    tl.store(at, (tl.load(X + i) == tl.load(Y + i)).to(at.type.element_ty), boundary_check=(0,))


def test_truth_values_through_a_block_pointer():
    x, y, out = torch.arange(8.0), torch.arange(8.0) % 3, torch.zeros(8, dtype=torch.bool)
    with Session() as session:
        equal_kernel[(1,)](x, y, out, 8)
    assert torch.equal(out, x == y)
    found = session.envelope(out)
    assert found is not None and np.array_equal(found.lo, found.hi) and not found.taints


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bounds_come_back_with_the_value(dtype):
    values = torch.randn(40).to(dtype)
    out = torch.zeros(40, dtype=dtype)
    v = values.double().numpy()
    with Driver() as d:
        d.store(out, np.arange(40)[None], v, radius=0.25)
        got = d.load(out, np.arange(40)[::-1][None])
    np.testing.assert_array_equal(got.lo[0], v[::-1] - 0.25)
    np.testing.assert_array_equal(got.hi[0], v[::-1] + 0.25)
    env = d.memory.envelope(out)
    np.testing.assert_array_equal(env.lo, v - 0.25)
    assert env.written.all() and env.kernel_written and not env.taints


@pytest.mark.parametrize("seed", range(trials(8)))
def test_random_stores_match_a_plain_model(seed):
    """A numpy model of value, lower and upper end per element; programs write disjoint parts."""
    g = rng(seed)
    programs, part = 3, 50
    out = torch.zeros(programs * part, dtype=[torch.float32, torch.float16][seed % 2])
    value, low, high = (np.zeros(programs * part) for _ in range(3))
    with Driver(programs) as d:
        for _ in range(6):
            lanes = g.permutation(part)[: int(g.integers(1, part))]
            index = np.arange(programs)[:, None] * part + lanes
            mask = g.random(index.shape) < 0.7
            v = g.integers(-100, 100, index.shape).astype(np.float32)
            radius = g.random(index.shape) if g.random() < 0.7 else None
            d.store(out, index, v, radius, mask)
            for target, bound in ((value, 0), (low, -1), (high, 1)):
                ends = v if radius is None else v + bound * radius
                target[index[mask]] = ends[mask]
        index = g.integers(0, programs * part, (1, 200))
        # One program per row would meet the others' data: look from outside the launch.
    env = d.memory.envelope(out)
    np.testing.assert_array_equal(out.double().numpy(), value)
    np.testing.assert_array_equal(env.lo, low)
    np.testing.assert_array_equal(env.hi, high)
    assert not d.memory.findings


def test_a_point_store_replaces_bounds_even_with_equal_bits():
    out = torch.zeros(2)
    with Driver() as d:
        d.store(out, np.array([[0, 1]]), [[1.0, 1.0]], radius=0.5)
        d.store(out, np.array([[0]]), [[1.0]])
    env = d.memory.envelope(out)
    assert env.lo.tolist() == [1.0, 0.5] and env.hi.tolist() == [1.0, 1.5]


def test_bounds_survive_from_launch_to_launch_until_the_host_overwrites():
    out = torch.zeros(8)
    d = Driver()
    with d:
        d.store(out, ROW, np.ones(8), radius=0.5)
    out[2] = 4.0
    out.numpy()[5] = 7.0
    with d:
        got = d.load(out, ROW)
    assert got.v[0].tolist() == [1, 1, 4, 1, 1, 7, 1, 1]
    assert got.hi[0].tolist() == [1.5, 1.5, 4, 1.5, 1.5, 7, 1.5, 1.5]


def test_views_slices_and_strides_share_one_storage():
    base = torch.zeros(6, 8)
    d = Driver()
    part = base[2:5, ::2]
    with d:
        # The kernel gets the view's own address and strides.
        index = np.arange(3)[:, None] * 8 + np.arange(4) * 2
        d.store(part, index[None], np.arange(12.0).reshape(1, 3, 4) + 1, radius=0.5)
    env = d.memory.envelope(base)
    expected = np.zeros((6, 8))
    expected[2:5, ::2] = np.arange(12.0).reshape(3, 4) + 1
    np.testing.assert_array_equal(env.hi - env.lo, np.where(expected > 0, 1.0, 0.0))
    np.testing.assert_array_equal(base.numpy(), expected)
    np.testing.assert_array_equal(d.memory.envelope(part).lo, expected[2:5, ::2] - 0.5)
    np.testing.assert_array_equal(d.memory.envelope(base.T[3:]).hi, env.hi.T[3:])
    assert d.memory.envelope(base[0, 0].reshape(1)) is None
    assert d.memory.envelope(base.expand(3, 6, 8)).lo.shape == (3, 6, 8)
    assert d.memory.register(part) is d.memory.register(base)


def test_memory_wrapped_again_is_the_same_memory():
    array = np.zeros(16, np.float32)
    d = Driver()
    inner, outer = torch.from_numpy(array[4:12]), torch.from_numpy(array)
    with d:
        d.store(inner, ROW, np.ones(8), radius=0.5)
    with d:
        got = d.load(outer, np.arange(16)[None])
        again = d.load(inner, ROW)
    assert got.hi[0].tolist() == [0.0] * 4 + [1.5] * 8 + [0.0] * 4
    assert (again.hi == 1.5).all() and not d.memory.findings


@pytest.mark.parametrize("elem", ["fp16", "bf16", "int32", "int16", "fp64", "int64"])
def test_reinterpreted_bits_of_a_bounded_float_are_no_silent_point(elem):
    out = torch.zeros(4)
    with Driver() as d:
        d.store(out, np.array([[1]]), [[1.5]], radius=0.5)
        size = {"fp16": 2, "bf16": 2, "int16": 2, "int32": 4}.get(elem, 8)
        n = 16 // size
        got = d.load(out, np.arange(n)[None], elem=elem)
    assert [d.memory.taints.get(t).code for t in got.taint] == ["RND302"]
    if elem.startswith(("fp", "bf")):
        touched = [k * size < 8 and (k + 1) * size > 4 for k in range(n)]
        assert np.isnan(got.lo[0]).tolist() == touched
    assert got.v.tobytes() == d.load(out, np.arange(n)[None], elem=elem).v.tobytes()


def test_an_envelope_through_another_dtype_is_top():
    out = torch.zeros(4)
    with Driver() as d:
        d.store(out, np.array([[1]]), [[1.5]], radius=0.5)
    env = d.memory.envelope(out.view(torch.float16))
    assert np.isnan(env.lo).tolist() == [False, False, True, True] + [False] * 4 and env.taints


def test_integer_bits_over_a_bounded_float_make_it_exact():
    out = torch.zeros(4)
    with Driver() as d:
        d.store(out, np.arange(4)[None], np.ones(4), radius=0.5)
        d.store(out, np.array([[2]]), [[0x40000000]], elem="int32")
        got = d.load(out, np.arange(4)[None])
    assert got.v[0].tolist() == [1, 1, 2, 1] and got.lo[0].tolist() == [0.5, 0.5, 2, 0.5]


def test_stores_outside_are_dropped():
    block = torch.full((12,), 3.0)
    inner = torch.zeros(4)
    with Driver() as d:
        d.memory.register(inner, "y")
        d.store(inner, np.array([[-1, 0, 3, 4]]), [[9.0, 1.0, 2.0, 9.0]])
    assert inner.tolist() == [1, 0, 0, 2] and (block == 3).all()
    (finding,) = d.memory.findings
    assert (finding.code, finding.kind, finding.count, finding.offset) == ("RND207", "write", 2, -4)


def test_taints_travel_through_memory():
    out = torch.zeros(8)
    with Driver() as d:
        t = d.memory.taint("RND302", "op", d._site(), "no rule")
        d.store(out, np.array([[1, 2]]), [[1.0, 2.0]], taint=frozenset((t,)))
        assert d.load(out, np.array([[2, 3]])).taint == {t}
        assert not d.load(out, np.array([[0, 3]])).taint
        d.store(out, np.array([[2]]), [[5.0]])
        assert not d.load(out, np.array([[2]])).taint
    assert d.memory.envelope(out).taints == {t}
    assert not d.memory.envelope(out[2:]).taints


def test_undecided_stores_hold_old_and_new():
    out = torch.tensor([1.0, 2.0, 3.0, 4.0])
    sure, possible = np.array([[True, False, True, False]]), np.array([[True, True, False, False]])
    with Driver() as d:
        d.store(out, np.arange(4)[None], [[10.0, 10.0, 10.0, 10.0]], mask=sure, possible=possible)
        got = d.load(out, np.arange(4)[None])
    assert out.tolist() == [10, 2, 10, 4]
    assert got.lo.tolist() == [[10, 2, 3, 4]] and got.hi.tolist() == [[10, 10, 10, 4]]
    assert [d.memory.taints.get(t).code for t in got.taint] == ["RND303"]


# conflicts
def test_two_lanes_of_one_store_in_conflict():
    out = torch.zeros(4)
    with Driver() as d:
        d.store(out, np.array([[1, 2, 1, 3]]), [[5.0, 6.0, 7.0, 8.0]])
    (finding,) = d.memory.findings
    assert (finding.code, finding.count, finding.index) == ("RND209", 1, (2,)) and out[1] == 7


def test_equal_bits_in_one_store_are_no_conflict_and_join_bounds():
    out = torch.zeros(2)
    with Driver() as d:
        e, ptr, storage = d.pointers(out, np.array([[0, 0, 1]]))
        v = np.ones((1, 3), np.float32)
        lo, hi = np.array([[0.5, 0.9, 0.9]]), np.array([[1.1, 1.4, 1.0]])
        d.memory.store(d.request(ptr, e, storage, None), v, lo, hi)
    env = d.memory.envelope(out)
    assert env.lo.tolist() == [0.5, 0.9] and env.hi.tolist() == [1.4, 1.0] and not d.memory.findings


def test_a_program_may_overwrite_itself():
    out = torch.zeros(4)
    with Driver(2) as d:
        for v in (1.0, 2.0):
            d.store(out, np.array([[0], [1]]), [[v], [v + 5]])
        assert d.load(out, np.array([[0], [1]])).v.tolist() == [[2], [7]]
    assert not d.memory.findings and out.tolist() == [2, 7, 0, 0]


@pytest.mark.parametrize("chunks", [1, 4])
def test_programs_in_conflict(chunks):
    """Program p stores p at 0 and 10 at 1: one address in conflict, three programs too late."""
    out = torch.zeros(2)
    driver = Driver(4)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.store(out, np.zeros((len(pids), 1)), pids[:, None] * 1.0, pids=pids)
        d.store(out, np.ones((len(pids), 1)), np.full((len(pids), 1), 10.0), pids=pids)

    if chunks == 1:
        assert run_one_by_one(driver, body) == "one by one"
    else:
        with driver:
            for pid in driver.pids:
                driver.memory.begin_chunk()
                driver.line = 0
                body(driver, driver.pids[pid : pid + 1])
                driver.memory.commit()
    (finding,) = driver.memory.findings
    assert (finding.code, finding.count, finding.addresses, finding.program) == ("RND209", 3, 1, (1, 0, 0))
    assert out.tolist() == [3, 10]


def test_equal_bits_by_all_programs_are_no_conflict():
    out = torch.zeros(8)
    driver = Driver(100)
    how = run_one_by_one(driver, lambda d, pids: d.store(out, ROW, np.arange(8.0), pids=pids))
    assert how == "together" and not driver.memory.findings


def test_a_shared_store_conflicts_with_an_own_value():
    out = torch.zeros(1)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.store(out, np.zeros((1, 1)), [[1.0]], pids=pids)
        d.store(out, np.zeros((len(pids), 1)), pids[:, None] + 2.0, pids=pids)

    driver = Driver(2)
    assert run_one_by_one(driver, body) == "one by one"
    assert driver.memory.findings[0].code == "RND209"


def test_a_new_launch_may_overwrite_the_last_one():
    out = torch.zeros(1)
    memory = Memory()
    for value in (1.0, 2.0):
        with Driver(2, memory) as d:
            d.store(out, np.zeros((1, 1)), [[value]], pids=[int(value) - 1])
    assert not memory.findings


def test_synchronised_programs_may_overwrite_each_other():
    out, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.atomic("cas", lock, np.zeros((len(pids), 1)), 1, cmp=0, pids=pids)
        got = d.load(out, np.zeros((len(pids), 1)), pids=pids)
        d.store(out, np.zeros((len(pids), 1)), got.v + 1, pids=pids)
        d.atomic("xchg", lock, np.zeros((len(pids), 1)), 0, pids=pids)

    driver = Driver(5)
    assert run_one_by_one(driver, body) == "one by one"
    assert out.item() == 5 and not driver.memory.findings and not driver.memory.taints.all


def test_overlapping_stores_of_other_sizes_conflict():
    """Two programs write one word: as fp32, and as its upper half."""
    out = torch.zeros(2)

    def body(d: Driver, pids: np.ndarray) -> None:
        for pid in pids:
            one = np.array([pid], np.int32)
            if pid == 0:
                d.store(out, np.array([[0]]), [[1.0]], pids=one)
            else:
                d.store(out, np.array([[1]]), [[0x4000]], elem="int16", pids=one)

    driver = Driver(2)
    assert run_one_by_one(driver, body) == "one by one"
    assert [f.code for f in driver.memory.findings] == ["RND209"] and out[0] == 2


def test_hazards_need_two_programs():
    out = torch.zeros(4)
    with Driver(3) as d:
        d.store(out, np.array([[0], [1]]), [[1.0], [2.0]], pids=[0, 1])
        with pytest.raises(Hazard):
            d.load(out, np.array([[1]]), pids=[0])
        assert d.load(out, np.array([[1]]), pids=[1]).v.item() == 2


def test_overlapping_bounds_agree_and_are_joined():
    """Programs store roundings of one quantity: no conflict, and the hull covers any order of the stores."""
    for dtype in (torch.float32, torch.float16, torch.float64):
        out = torch.zeros(1, dtype=dtype)
        values = np.array([[1.0], [1.25], [0.75]])
        driver = Driver(3)

        def body(d: Driver, pids: np.ndarray, out: torch.Tensor = out, values: np.ndarray = values) -> None:
            d.store(out, np.zeros((len(pids), 1)), values[pids], radius=0.5, pids=pids)

        assert run_one_by_one(driver, body) == "together" and not driver.memory.findings
        env = driver.memory.envelope(out)
        assert (env.lo.item(), env.hi.item(), out.item()) == (0.25, 1.75, 0.75)


def test_disjoint_bounds_are_a_conflict():
    out = torch.zeros(2)
    with Driver(1) as d:
        d.store(out, np.array([[0, 0, 1, 1]]), [[1.0, 3.0, 1.0, 3.0]], radius=np.array([[0.5, 0.5, 1.5, 1.5]]))
    (finding,) = d.memory.findings
    assert finding.code == "RND209" and finding.count == 1
    env = d.memory.envelope(out)
    assert env.lo.tolist() == [2.5, -0.5] and env.hi.tolist() == [3.5, 4.5]


def test_a_bound_that_meets_an_exact_value_agrees_with_it():
    out = torch.zeros(2, dtype=torch.float16)
    driver = Driver(2)

    def body(d: Driver, pids: np.ndarray) -> None:
        d.store(out, np.zeros((1, 1)) + 1, [[9.0]], radius=0.5, pids=[0])
        d.store(out, np.zeros((1, 1)), [[1.0]], pids=[0])
        d.store(out, np.zeros((1, 1)), [[1.5]], radius=0.75, pids=[1])

    assert run_one_by_one(driver, body) == "together" and not driver.memory.findings
    assert driver.memory.envelope(out).lo[0] == 0.75
