"""Loads: values, masks, addresses outside, memory that nothing wrote, pointers of unknown origin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from memory_driver import NAMES, Driver
from support import rng, trials

FLOATS = [t for t in NAMES if t.is_floating_point]
INTEGERS = [t for t in NAMES if not t.is_floating_point]


def random_tensor(dtype: torch.dtype, n: int, seed: int = 0) -> torch.Tensor:
    raw = rng(seed).integers(0, 256, n * torch.empty(0, dtype=dtype).element_size()).astype(np.uint8)
    if dtype == torch.bool:
        raw &= 1
    return torch.from_numpy(raw).view(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_bit_pattern_loads_as_torch_reads_it(dtype):
    x = random_tensor(dtype, 70_000)
    index = rng(1).permutation(70_000)[None]
    with Driver() as d:
        got = d.load(x, index)
    expected = x.double().numpy()[index]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got.v.astype(np.float64), expected)
    assert got.lo is None and got.v.dtype == (np.float64 if dtype == torch.float64 else np.float32)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_load_in_their_own_dtype(dtype):
    x = random_tensor(dtype, 500)
    with Driver() as d:
        got = d.load(x, np.arange(500)[None])
    np.testing.assert_array_equal(got.v[0], x.numpy())


@pytest.mark.parametrize("seed", range(trials(6)))
def test_masks_and_others_broadcast_like_numpy(seed):
    g = rng(seed)
    x = torch.randn(2000)
    programs = 3
    dims = tuple(g.integers(1, 5, 3))

    def shaped(leading: int) -> tuple[int, ...]:
        return (leading, *(n if g.random() < 0.6 else 1 for n in dims))

    index = g.integers(0, 2000, shaped(int(g.choice([1, programs]))))
    mask = g.random(shaped(int(g.choice([1, programs])))) < 0.5
    other = g.standard_normal(shaped(int(g.choice([1, programs])))).astype(np.float32)
    full = (programs, *dims)
    with Driver(programs) as d:
        got = d.load(x, index, mask, other=other)
        transposed = d.load(x, *(np.broadcast_to(a, full).swapaxes(1, 3) for a in (index, mask)))
    expected = np.where(mask, x.numpy()[index], other)
    np.testing.assert_array_equal(np.broadcast_to(got.v, full), np.broadcast_to(expected, full))
    plain = np.where(mask, x.numpy()[index], 0)
    turned = np.broadcast_to(plain, full).swapaxes(1, 3)
    np.testing.assert_array_equal(np.broadcast_to(transposed.v, turned.shape), turned)
    assert not got.masked_off and transposed.masked_off == (not np.broadcast_to(mask, full).all())


def test_an_access_that_all_programs_share_is_done_once():
    x = torch.randn(64)
    with Driver(1000) as d:
        got = d.load(x, np.arange(64)[None])
        stretched = d.load(x, np.broadcast_to(np.arange(64)[None, None], (1, 500, 64)))
    assert got.v.shape == (1, 64) and stretched.v.shape == (1, 1, 64)


def test_a_masked_off_lane_may_have_any_address():
    x = torch.ones(4)
    index = np.array([[0, 3, 10**12, -(10**12)]])
    with Driver() as d:
        got = d.load(x, index, index[:, :] >= 0, other=np.full((1, 1), 7, np.float32), origin=True)
        safe = d.load(x, index, np.array([[True, True, False, False]]), other=np.full((1, 1), 7, np.float32))
    assert safe.v.tolist() == [[1, 1, 7, 7]] and safe.lo is None
    assert got.v.tolist() == [[1, 1, 0, 7]]
    assert [f.code for f in d.memory.findings] == ["RND207"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8], ids=str)
@pytest.mark.parametrize("seed", range(trials(8)))
def test_runs_of_neighbours_load_what_single_lanes_do(dtype, seed):
    """Rows of 40 lanes from anywhere, some with one lane moved, off, or past either end of the tensor."""
    g, n, rows = rng(seed), 300, 24
    x = random_tensor(dtype, n, seed)
    index = g.integers(-20, n - 20, (rows, 1)) + np.arange(40)
    moved = g.random(rows) < 0.4
    index[moved, g.integers(0, 40, rows)[moved]] = g.integers(0, n)
    mask = g.random((rows, 1)) < 0.9 if g.random() < 0.3 else g.random((rows, 40)) < g.choice([0.97, 1.0])
    with Driver(rows) as d:
        got = d.load(x, index, mask, other=np.zeros((1, 1), np.float32))
    on, inside = np.broadcast_to(mask, index.shape), (index >= 0) & (index < n)
    expected = np.where(on & inside, x.double().numpy()[np.where(inside, index, 0)], 0)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.broadcast_to(got.v, index.shape).astype(np.float64), expected)
    assert sum(f.count for f in d.memory.findings) == np.count_nonzero(on & ~inside)


def test_lanes_outside_are_counted_and_the_first_is_named():
    x = torch.ones(6, 5)
    d = Driver(4)
    d.memory.register(x, "x_ptr")
    index = np.arange(4)[:, None, None] * 10 + np.arange(2)[:, None] * 5 + np.arange(5)
    with d:
        got = d.load(x, index)
    (finding,) = d.memory.findings
    assert (finding.code, finding.tensor, finding.kind) == ("RND207", "x_ptr", "read")
    assert (finding.count, finding.addresses) == (10, 10)
    assert finding.program == (3, 0, 0) and finding.index == (0, 0)
    assert (finding.offset, finding.extent) == (120, 120)
    assert (finding.file, finding.line) == ("kernel.py", 1)
    assert (got.v[3] == 0).all() and np.isnan(got.lo[3]).all() and np.isnan(got.hi[3]).all()
    assert (got.lo[:3] == 1).all() and (got.hi[:3] == 1).all()


def test_a_shared_access_outside_counts_for_every_program():
    x = torch.ones(4)
    with Driver(7) as d:
        d.load(x, np.array([[3, 4]]))
    assert d.memory.findings[0].count == 7 and d.memory.findings[0].addresses == 1


def test_findings_of_several_accesses_at_one_place_add_up():
    x = torch.ones(4)
    d = Driver()
    with d:
        for index in ([[4, 5]], [[5, 6, 7]]):
            d.line = 0
            d.load(x, np.array(index))
    (finding,) = d.memory.findings
    assert finding.count == 5 and finding.addresses == 4 and finding.offset == 16


def test_misaligned_addresses_are_outside():
    x = torch.ones(4)
    with Driver() as d:
        e, ptr, storage = d.pointers(x, np.array([[0, 1]]))
        got = d.memory.load(d.request(ptr + 2, e, storage, None))
    assert d.memory.findings[0].count == 2 and (got.v == 0).all()


@pytest.mark.parametrize("address", [0, 8, 2**47, 2**63 - 8, -8])
def test_garbage_pointers_are_findings(address):
    d = Driver()
    e, _, _ = d.pointers(torch.ones(2), np.zeros((1, 1)))
    ptr = np.full((1, 3), address, np.int64)
    with d:
        got = d.memory.load(d.request(ptr, e, None, None))
        d.memory.store(d.request(ptr, e, None, None), np.ones((1, 3), np.float32))
        d.memory.atomic("add", d.request(ptr, e, None, None), np.ones((1, 3), np.float32))
    assert (got.v == 0).all() and np.isnan(got.lo).all()
    assert [(f.code, f.kind, f.tensor, f.count) for f in d.memory.findings] == [
        ("RND207", "read", None, 3), ("RND207", "write", None, 3), ("RND207", "atomic", None, 3)
    ]  # fmt: skip


def test_empty_tensors_have_no_addresses():
    with Driver() as d:
        d.load(torch.empty(0), np.zeros((1, 2)))
    assert d.memory.findings[0].code == "RND207"


def test_pointers_of_unknown_origin_find_their_storages():
    tensors = [torch.randn(n) for n in (5, 9, 3)]
    d = Driver()
    addresses, expected = [], []
    for k, t in enumerate(tensors):
        d.memory.register(t, f"t{k}")
        addresses += [t.data_ptr() + 4 * i for i in range(len(t))]
        expected += t.tolist()
    addresses.append(16)
    order = rng(3).permutation(len(addresses))
    ptr = np.array(addresses, np.int64)[order][None]
    e, _, _ = d.pointers(tensors[0], np.zeros((1, 1)))
    with d:
        d.store(tensors[1], np.arange(9)[None], tensors[1].numpy(), radius=0.5)
        got = d.memory.load(d.request(ptr, e, None, None))
        mask = rng(4).random(ptr.shape) < 0.5
        masked = d.memory.load(d.request(ptr, e, None, None, mask), np.full((1, 1), 9.0))
    values = np.array([*expected, 0.0], np.float32)[order]
    np.testing.assert_array_equal(got.v[0], values)
    np.testing.assert_array_equal(masked.v, np.where(mask, got.v, 9))
    wide = (order >= 5) & (order < 14)
    np.testing.assert_allclose((got.hi - got.lo)[0][wide], 1.0)
    assert np.isnan(got.lo[0][order == 17]).all() and (got.lo[0] == values)[~wide & (order != 17)].all()
    assert d.memory.findings[0].tensor is None and d.memory.findings[0].count == 1


def test_an_address_in_another_tensor_is_outside_its_own():
    x, y = torch.zeros(4), torch.ones(4)
    with Driver() as d:
        d.memory.register(y, "y")
        d.load(x, np.array([[(y.data_ptr() - x.data_ptr()) // 4]]))
    assert d.memory.findings[0].code == "RND207"


def test_unwritten_memory_is_top_and_only_a_candidate():
    x = torch.zeros(8)
    d = Driver()
    d.memory.mark_unwritten(x)
    with d:
        d.store(x, np.array([[1, 2]]), [[5.0, 6.0]])
        got = d.load(x, np.arange(4)[None])
    (finding,) = d.memory.findings
    assert finding.code == "RND208" and finding.count == 2 and finding.taint in got.taint
    assert d.memory.taints.get(finding.taint).code == "RND208"
    assert got.v.tolist() == [[0, 5, 6, 0]]
    assert np.isnan(got.lo[0]).tolist() == [True, False, False, True]
    env = d.memory.envelope(x)
    assert env.written.tolist() == [False, True, True] + [False] * 5
    assert np.isnan(env.lo[0]) and env.lo[1] == 5


def test_unwritten_integers_are_tainted():
    x = torch.full((4,), 123, dtype=torch.int32)
    d = Driver()
    d.memory.mark_unwritten(x)
    with d:
        got = d.load(x, np.arange(4)[None])
    assert (got.v == 0).all() and got.lo is None and got.taint


def test_half_written_elements_are_unwritten():
    x = torch.zeros(2)
    d = Driver()
    d.memory.mark_unwritten(x)
    with d:
        d.store(x.view(torch.float16), np.array([[0, 2, 3]]), [[1.0, 2.0, 3.0]])
        got = d.load(x, np.array([[0, 1]]))
    assert d.memory.findings[0].count == 1 and np.isnan(got.lo[0, 0]) and not np.isnan(got.v[0, 1])


def test_undecided_lanes_hold_both_outcomes():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    sure = np.array([[True, False, False, True]])
    possible = np.array([[True, True, False, False]])
    other = np.full((1, 1), 10.0, np.float32)
    with Driver() as d:
        got = d.load(x, np.arange(4)[None], sure, possible, other)
    assert got.v.tolist() == [[1, 10, 10, 4]]
    assert got.lo.tolist() == [[1, 2, 10, 4]] and got.hi.tolist() == [[1, 10, 10, 10]]
    assert [d.memory.taints.get(t).code for t in got.taint] == ["RND303"]


def test_undecided_lanes_outside_are_no_finding():
    x = torch.ones(2)
    sure, possible = np.array([[True, False, False]]), np.array([[True, True, True]])
    with Driver() as d:
        got = d.load(x, np.arange(3)[None], sure, possible)
        d.store(x, np.arange(3)[None], [[1.0, 1.0, 1.0]], mask=sure, possible=possible)
    assert not d.memory.findings and got.taint
    assert np.isnan(got.lo[0, 2])


def test_bounds_of_other_reach_masked_off_lanes():
    x = torch.ones(3)
    mask = np.array([[True, False, True]])
    other = np.full((1, 1), 5.0, np.float32)
    with Driver() as d:
        got = d.load(x, np.arange(3)[None], mask, other=other, other_iv=(other - 1.0, other + 2.0))
    assert got.lo.tolist() == [[1, 4, 1]] and got.hi.tolist() == [[1, 7, 1]]


def test_without_intervals_there_are_values_and_findings_only():
    from render.interpreter.memory import Memory

    x = torch.ones(3)
    with Driver(memory=Memory(interval=False)) as d:
        d.store(x, np.arange(4)[None], [[2.0, 3.0, 4.0, 5.0]], radius=1.0)
        got = d.load(x, np.arange(4)[None])
    assert got.lo is None and got.v.tolist() == [[2, 3, 4, 0]] and len(d.memory.findings) == 2


def fresh(d: Driver, n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.zeros(n, dtype=dtype)
    d.memory.mark_unwritten(x)
    return x


def test_writers_out_of_sight_are_noticed():
    d = Driver()
    x = fresh(d, 10)
    x.numpy()[2:5] = [0.0, 1.0, 0.0]
    with d:
        got = d.load(x, np.arange(10)[None])
    # Words of eight bytes: elements 2 to 5 count as written.
    assert np.isnan(got.lo[0]).tolist() == [i not in (2, 3, 4, 5) for i in range(10)]
    assert got.v[0].tolist() == [0, 0, 0, 1, 0, x[5].item()] + [0] * 4


def test_a_store_does_not_hide_its_unwritten_neighbours():
    """Every element that the kernel left out stays unwritten, also within a word that it touched."""
    d = Driver()
    x = fresh(d, 9, torch.float16)
    for _ in range(2):
        with d:
            d.store(x, np.array([[0, 2, 5, 7]]), [[1.0, 2.0, 3.0, 4.0]])
        assert d.memory.envelope(x).written.tolist() == [i in (0, 2, 5, 7) for i in range(9)]
        with d:
            got = d.load(x, np.arange(9)[None])
        assert np.isnan(got.lo[0]).tolist() == [i not in (0, 2, 5, 7) for i in range(9)]


@pytest.mark.slow
def test_undone_stores_leave_memory_unwritten():
    d = Driver()
    for dtype in (torch.float32, torch.float16, torch.float64, torch.float8_e5m2):
        x = fresh(d, 10, dtype)
        before = x.clone().view(torch.uint8)
        with d:
            d.store(x, np.array([[1, 2, 5]]), [[1.0, 2.0, 3.0]], radius=0.5)
            d.memory.undo()
            d.memory.begin_chunk()
            got = d.load(x, np.arange(10)[None])
        assert np.isnan(got.lo).all() and torch.equal(x.view(torch.uint8), before)


def test_reports_use_the_names_of_the_launch():
    x = torch.ones(4)
    d = Driver()
    for name in ("c_ptr", "a_ptr"):
        with d:
            d.memory.register(x, name)
            d.memory.register(x[1:], "other")
            d.load(x, np.array([[4]]))
    assert [f.tensor for f in d.memory.findings] == ["c_ptr", "a_ptr"]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("which", [[0], [1], [2], [0, 2], [], [3], [1, 3]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_pointers_of_unknown_origin_all_in_some_of_the_storages(dtype, which, masked):
    """In one, in two, in none (3), and without a lane that takes part: as if each were asked for alone."""
    tensors = [(torch.arange(n) + 10 * n).to(dtype) for n in (5, 9, 4)]
    d = Driver()
    for k, t in enumerate(tensors):
        d.memory.register(t, f"t{k}")
    with d:
        if dtype == torch.float32:
            d.store(tensors[1], np.arange(9)[None], tensors[1].numpy(), radius=0.5)
            d.store(tensors[2], np.arange(4)[None], tensors[2].numpy())
        places = [(t.data_ptr() + 4 * i, float(t[i]), 0.5 * (k == 1)) for k, t in enumerate(tensors) if k in which
                  for i in range(len(t))] + ([(16, 0.0, np.nan)] if 3 in which else [])  # fmt: skip
        on = np.ones(len(places), bool)
        if masked or not places:
            places, on = [*places, (tensors[0].data_ptr(), 7.0, 0.0)], np.append(on, False)
        ptr, e = np.array([p[0] for p in places], np.int64)[None], d.pointers(tensors[0], [[0]])[0]
        got = d.memory.load(d.request(ptr, e, None, None, on[None] if not on.all() else None), np.full((1, 1), 7))
    wanted, reach = np.array([p[1] for p in places]), np.array([p[2] for p in places])
    assert got.v[0].tolist() == wanted.tolist()
    if dtype == torch.float32 and got.lo is not None:
        lo, hi = (np.broadcast_to(end, got.v.shape)[0] for end in (got.lo, got.hi))
        np.testing.assert_array_equal(lo, wanted - reach)
        np.testing.assert_array_equal(hi, wanted + reach)
    else:
        assert dtype == torch.int32 or not np.nan_to_num(reach, nan=1.0).any()
    assert [(f.code, f.count) for f in d.memory.findings] == ([("RND207", 1)] if 3 in which else [])
