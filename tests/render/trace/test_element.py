"""Slices: what is cut out is the computation of that element, and what cannot be cut out says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.judgement.confirmation import without_rounding
from render.result.errors import RenderError
from render.trace import ABSENT, LEAF, NotSliceable, slice_of
from render.trace.check import check, evaluate
from render.trace.element import same, slices_of
from render.trace.recorder import Recorder
from tests.kernels.cases import CASES

B = 16


@triton.jit
def shuffled(X, Y, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i[:, None] * N + i[None, :])
    y = tl.load(Y + i)
    both = tl.join(tl.trans(x), x + y[None, :])
    left, right = tl.split(both)
    picked = tl.gather(right, (i[:, None] + i[None, :]) % N, axis=1)
    flat = tl.reshape(tl.cumsum(left * picked, axis=0), [N * N])
    tl.store(Out + tl.arange(0, N * N), tl.where(tl.arange(0, N * N) % 3 == 0, flat, -flat))


def shuffle(x, y):
    out = torch.empty_like(x)
    shuffled[(1,)](x, y, out, x.shape[0])
    return out


def shuffled_exactly(x, y):
    n = x.shape[0]
    i = torch.arange(n)
    picked = torch.gather(x + y[None, :], 1, (i[:, None] + i[None, :]) % n)
    flat = (x.T * picked).cumsum(0).reshape(-1)
    return torch.where(torch.arange(n * n) % 3 == 0, flat, -flat).reshape(n, n)


@triton.jit
def adding(X, Out, Lock, N: tl.constexpr, LOCKED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + tl.program_id(0) * N + i) * 1.5
    if LOCKED:
        while tl.atomic_cas(Lock, 0, 1) == 1:
            pass
        tl.store(Out + i, tl.load(Out + i) + x)
        tl.atomic_xchg(Lock, 0)
    else:
        tl.atomic_add(Out + i, x)


def added(x, locked):
    out, lock = torch.ones(x.shape[1]), torch.zeros(1, dtype=torch.int32)
    adding[(x.shape[0],)](x, out, lock, x.shape[1], locked)
    return out


@triton.jit
def rereading(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(Out + i, x * x)
    tl.debug_barrier()
    tl.store(Out + i, tl.load(Out + N - 1 - i) - x)


def reread(x):
    out = torch.empty_like(x)
    rereading[(1,)](x, out, x.shape[0])
    return out


@triton.jit
def sorting(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.sort(tl.load(X + i) * 1.1))


def sorted_(x):
    out = torch.empty_like(x)
    sorting[(1,)](x, out, x.shape[0])
    return out


@triton.jit
def doubling(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i) * 1.1)


def doubled_twice(x):
    middle, out = torch.empty_like(x), torch.empty_like(x)
    doubling[(1,)](x, middle, x.shape[0])
    doubling[(1,)](middle, out, x.shape[0])
    return out


def doubled_with_a_host_step(x):
    middle, out = torch.empty_like(x), torch.empty_like(x)
    doubling[(1,)](x, middle, x.shape[0])
    middle.mul_(3.0)
    doubling[(1,)](middle, out, x.shape[0])
    return out


def doubled_and_patched(x):
    out = torch.empty_like(x)
    doubling[(1,)](x, out, x.shape[0])
    out[:1].add_(1.0)
    return out


@triton.jit
def leaving(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i) * 1.1, mask=i < N - 2)


def left_alone(x):
    out = torch.full_like(x, 0.25)
    leaving[(1,)](x, out, x.shape[0])
    return out


@triton.jit
def handing_on(X, Flag, Out, N: tl.constexpr, ATOMIC: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    before = 0.0
    if pid > 0:
        ready = 0
        while ready == 0:
            ready = tl.atomic_add(Flag + pid - 1, 0) if ATOMIC else tl.load(Flag + pid - 1, volatile=True)
        before = tl.load(Out + pid * N - 1)
    tl.store(Out + pid * N + i, tl.cumsum(tl.load(X + pid * N + i), 0) + before)
    tl.atomic_xchg(Flag + pid, 1)


def handed_on(x, atomic):
    flag, out = torch.zeros(x.shape[0], dtype=torch.int32), torch.empty_like(x)
    handing_on[(x.shape[0],)](x, flag, out, x.shape[1], atomic)
    return out


@triton.jit
def finishing(X, Part, Count, Out, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(Part + pid, tl.sum(tl.load(X + pid * N + i), 0))
    if tl.atomic_add(Count, 1) == tl.num_programs(0) - 1:
        tl.store(Out, tl.load(Part) * 3.0)


def finished(x):
    part, count, out = torch.empty(x.shape[0]), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    finishing[(x.shape[0],)](x, part, count, out, x.shape[1])
    return out


def on_host(x):
    return doubled_twice(x) * 2


def run(fn, *args):
    call = Entry(fn, of_call(fn, args, {}))
    return call, call.run()


def worth(found):
    """The root in real arithmetic."""
    return evaluate(found)[found.root]


def test_movements_are_followed_to_the_right_elements():
    x, y = torch.randn(B, B), torch.randn(B)
    call, done = run(shuffle, x, y)
    want = shuffled_exactly(x.double(), y.double())
    for index in ((0, 0), (3, 5), (15, 15), (9, 14)):
        found = slice_of(call, done, "out", index)
        assert worth(found) == pytest.approx(float(want[index]), rel=1e-12)
        assert found.lo <= worth(found) <= found.hi
        assert {n.op for n in found.nodes} <= {LEAF, "fadd", "fmul", "sum", "fneg", "fsub"}


def test_lines_are_those_of_the_source():
    call, done = run(shuffle, torch.randn(B, B), torch.randn(B))
    first = shuffled.fn.__code__.co_firstlineno
    lines = {n.op: n.line - first for n in slice_of(call, done, "out", (1, 0)).nodes if n.op != LEAF}
    assert (lines["fadd"], lines["sum"]) == (5, 8)


@pytest.mark.parametrize("locked", [False, True])
def test_every_program_that_adds_is_there(locked):
    x = torch.rand(5, B)
    call, done = run(added, x, locked)
    found = slice_of(call, done, "out", (7,))
    assert found.programs == (0, 1, 2, 3, 4)
    assert found.nodes[-1].op == "atomic_sum"
    assert found.nodes[-1].operands[0].shape == (1, 6)
    assert worth(found) == pytest.approx(1 + 1.5 * float(x[:, 7].double().sum()), rel=1e-12)


def test_what_a_program_stored_and_loads_again_is_followed():
    x = torch.randn(B)
    call, done = run(reread, x)
    found = slice_of(call, done, "out", (2,))
    assert not found.notes
    assert worth(found) == pytest.approx(float(x[B - 3].double() ** 2 - x[2].double()), rel=1e-12)


def test_an_earlier_launch_is_followed():
    x = torch.randn(B)
    call, done = run(doubled_twice, x)
    found = slice_of(call, done, "out", (4,))
    assert [n.op for n in found.nodes if n.op != LEAF] == ["fmul", "fmul"]
    assert not found.notes
    assert worth(found) == pytest.approx(1.21 * float(x[4]), rel=1e-6)


def test_what_the_host_made_between_launches_is_a_leaf_that_says_so():
    call, done = run(doubled_with_a_host_step, torch.randn(B))
    found = slice_of(call, done, "out", (4,))
    (leaf,) = (n for n in found.nodes if n.attrs.get("source") == "memory")
    assert leaf.lo < leaf.hi
    assert found.notes[0].endswith("elements of X")


def test_two_elements_of_one_launch_take_one_run():
    call, done = run(doubled_twice, torch.randn(B))
    first, second = slices_of(call, done, [("out", (4,)), ("out", (5,))])
    assert (first.v, second.v) == tuple(done.outputs[0].value[4:6])
    assert first.size == second.size == slice_of(call, done, "out", (4,)).size


@triton.jit
def doubling_rows(X, Out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i) * 1.1)


@pytest.mark.parametrize("joined", [False, True])
def test_of_launches_that_read_nothing_of_each_other_only_the_programs_of_the_elements_run(joined, monkeypatch):
    recorders = []
    monkeypatch.setattr("render.trace.element.Recorder", lambda *a: recorders.append(Recorder(*a)) or recorders[-1])
    monkeypatch.setattr(Recorder, "close", lambda self: None)

    def both(x):
        one, two = torch.empty_like(x), torch.empty_like(x)
        doubling_rows[(4,)](x, one, B)
        doubling_rows[(4,)](one if joined else x, two, B)
        return one, two

    call, done = run(both, torch.randn(4 * B))
    first, second = slices_of(call, done, [("one", (2 * B,)), ("two", (3 * B,))])
    assert (first.v, second.v) == (done.outputs[0].value[2 * B], done.outputs[1].value[3 * B])
    ran = [np.concatenate([p.linear for p in recorders[0].of(n).passes]).tolist() for n in (0, 1)]
    assert done.apart is not joined
    assert ran == ([[0, 1, 2, 3]] * 2 if joined else [[2], [3]])


def test_an_operation_without_a_record_stops_the_cut(monkeypatch):
    monkeypatch.setattr("render.interpreter.ordering.Ordering._told", lambda *_: None)
    call, done = run(sorted_, torch.randn(B))
    with pytest.raises(NotSliceable, match="outside the builder"):
        slice_of(call, done, "out", (0,))


def test_an_element_that_no_program_stores_is_what_lay_there():
    call, done = run(left_alone, torch.randn(B))
    found = slice_of(call, done, "out", (B - 1,))
    assert ([n.op for n in found.nodes], found.v, found.lo, found.hi) == ([LEAF], 0.25, 0.25, 0.25)
    assert any("no program stores" in note for note in found.notes)
    assert slice_of(call, done, "out", (B - 3,)).kernel == "leaving"


def test_what_the_last_program_stores_is_found_beside_the_others():
    call, done = run(finished, torch.randn(4, B))
    found = slice_of(call, done, "out", (0,))
    assert found.kernel == "finishing" and "fmul" in [n.op for n in found.nodes]


@pytest.mark.parametrize("atomic", [True, False])
def test_a_program_that_waits_for_others_is_cut_beside_them(atomic, monkeypatch):
    monkeypatch.setattr("render.trace.recorder.PATIENCE", 20)
    call, done = run(handed_on, torch.rand(4, B), atomic)
    found = slice_of(call, done, "out", (3, 2))
    assert found.kernel == "handing_on" and "sum" in [n.op for n in found.nodes]


@pytest.mark.parametrize("kind", ["scale", "zero"])
def test_a_planted_fault_is_followed(kind):
    from render.explain.power import plant
    from render.interpreter.mutation import faults

    seen = []

    def collect(fn, tree):
        seen.extend(((fn.fn.__code__.co_filename, fn.fn.__code__.co_firstlineno), f) for f in faults(tree, True))
        return tree

    run(doubled_twice, torch.randn(B))
    Entry(doubled_twice, of_call(doubled_twice, (torch.randn(B),), {}), options={"change": collect}).run()
    fault = next(item for item in seen if item[1].kind == kind)
    call = Entry(doubled_twice, of_call(doubled_twice, (torch.randn(B),), {}), options={"change": plant(*fault)})
    done = call.run()
    found = slice_of(call, done, "out", (5,))
    assert found.nodes[-1].op == ("fmul" if kind == "scale" else LEAF)


def test_an_element_that_does_not_exist():
    call, done = run(reread, torch.randn(B))
    with pytest.raises(RenderError, match="not an element"):
        slice_of(call, done, "out", (B,))


def test_a_recording_has_a_limit(monkeypatch):
    monkeypatch.setattr("render.trace.recorder.BYTES", 80)
    call, done = run(reread, torch.randn(B))
    with pytest.raises(NotSliceable, match="more than"):
        slice_of(call, done, "out", (0,))


def test_what_the_host_computed_is_cut_through_it():
    call, done = run(on_host, torch.randn(B))
    found = slice_of(call, done, "out", (3,))
    assert [n.op for n in found.nodes if n.op != LEAF] == ["fmul", "fmul", "fmul"] and found.kernel == "host code"
    assert found.nodes[-1].file == __file__


def test_the_host_is_recorded_up_to_a_limit(monkeypatch):
    monkeypatch.setattr("render.trace.host.LIMIT", 0)
    call, done = run(on_host, torch.randn(B))
    with pytest.raises(NotSliceable, match="too many"):
        slice_of(call, done, "out", (0,))


def test_a_host_operation_leaves_what_it_overwrote():
    call, done = run(doubled_and_patched, torch.randn(B))
    kept, patched = (slice_of(call, done, "out", (k,)) for k in (1, 0))
    assert (kept.kernel, patched.kernel) == ("doubling", "host code")
    assert [n.op for n in patched.nodes if n.op != LEAF] == ["fmul", "fadd"]


def test_a_wrong_operand_does_not_pass_the_check():
    call, done = run(shuffle, torch.randn(B, B), torch.randn(B))
    found = slice_of(call, done, "out", (9, 4))
    at = next(i for i, n in enumerate(found.nodes) if n.op == "sum")
    terms = found.nodes[at].operands[0].copy()
    terms[0, np.flatnonzero(terms[0] != ABSENT)[0]] = ABSENT
    nodes = list(found.nodes)
    nodes[at] = replace(nodes[at], operands=(terms,))
    with pytest.raises(NotSliceable, match="leaves its bound"):
        check(replace(found, nodes=tuple(nodes)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_packaged_kernel_can_be_cut(case):
    from render.entry.execution import on_cpu
    from render.entry.inputs import gather
    from render.entry.target import find_entry, load_module

    with on_cpu():
        module = load_module(case.path)
        fn = find_entry(module, None, None)
        call = Entry(fn, gather(fn, module, None, (), 0))
    done = call.run()
    for output in done.outputs:
        index = tuple(n // 2 for n in output.value.shape)
        found = slice_of(call, done, output.name, index)
        assert (found.lo, found.hi) == (output.lo[index], output.hi[index])


def test_a_run_without_rounding_is_cut_though_its_host_is_other_code():
    """There, results of the host are points, and a recording has the rule's intervals around them."""

    def scaled(x):
        return added(x, False) * x.sum()

    x = torch.randn(3, B, generator=torch.Generator().manual_seed(0))
    call = without_rounding(Entry(scaled, of_call(scaled, (x,), {}), "sm_90"))
    run = call.run()
    sliced = slice_of(call, run, run.outputs[0].name, (5,))
    exact = float((1 + 1.5 * x.double().sum(0)[5]) * x.double().sum())
    assert sliced.lo <= exact <= sliced.hi and sliced.hi - sliced.lo < 1e-12 * abs(exact)
    out = run.outputs[0]
    assert same(sliced, out, silent=True) and sliced.v == out.value[5]
    moved = replace(sliced, lo=sliced.lo + 1.0, hi=sliced.hi + 1.0)
    assert not same(moved, out, silent=True)
    assert not same(replace(sliced, v=sliced.v + 1.0), out, silent=True)
