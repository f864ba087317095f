"""A run recorded on the way: the same results, the same slices as from a recording of its own, and a limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.trace import NotSliceable, moves
from render.trace.adjoint import contributions, contributions_of
from render.trace.batch import batches
from render.trace.element import slices_of
from render.trace.observed import observed
from tests.render.trace.test_element import B, added, doubled_twice, doubled_with_a_host_step, on_host, reread, shuffle
from tests.render.trace.test_element import sorted_ as sort

CALLS = {
    "movements": (shuffle, lambda: (torch.randn(B, B), torch.randn(B))),
    "atomics": (added, lambda: (torch.randn(3, B), False)),
    "lock": (added, lambda: (torch.randn(3, B), True)),
    "reloaded": (reread, lambda: (torch.randn(B),)),
    "sort": (sort, lambda: (torch.randn(B),)),
    "two launches": (doubled_twice, lambda: (torch.randn(B),)),
    "host between": (doubled_with_a_host_step, lambda: (torch.randn(B),)),
    "host after": (on_host, lambda: (torch.randn(B),)),
}


def entry(name):
    torch.manual_seed(0)
    fn, inputs = CALLS[name]
    return Entry(fn, of_call(fn, inputs(), {}))


def described(found):
    if isinstance(found, NotSliceable):
        return str(found)
    v = np.concatenate([*(n.v for n in found.nodes), [0.0]])  # how values are grouped depends on who ran together
    each = sorted(
        (n.op, n.line, float(n.v[k]), tuple(str(v[o[k]].tolist()) for o in n.operands))
        for n in found.nodes
        for k in range(n.size)
    )
    return each, v[found.root], found.programs, found.notes, (found.v, found.lo, found.hi)


@pytest.mark.parametrize("name", CALLS)
def test_slices_of_a_recorded_run_are_those_of_a_recording(name):
    call = entry(name)
    alone, run = call.run(), observed(call)
    assert run.recording is not None
    for a, b in zip(alone.outputs, run.outputs, strict=True):
        for x, y in ((a.value, b.value), (a.lo, b.lo), (a.hi, b.hi)):
            np.testing.assert_array_equal(x, y)
    run.session.forget()  # as a judgement does
    last = tuple(n - 1 for n in run.outputs[0].tensor.shape)
    wanted = [("out", (0,) * len(last)), ("out", last)]
    known = slices_of(call, run, wanted)
    again = slices_of(call, replace(run, recording=None), wanted)
    assert [described(x) for x in known] == [described(x) for x in again]


def test_no_other_run_is_made(monkeypatch):
    call = entry("two launches")
    run = observed(call)
    monkeypatch.setattr(Entry, "given", lambda self: pytest.fail("run again"))
    found = slices_of(call, run, [("out", (1,)), ("out", (5,))])
    assert not any(isinstance(one, NotSliceable) for one in found)


def test_a_large_run_is_not_kept(monkeypatch):
    monkeypatch.setattr("render.trace.observed.LIMIT", 20)
    call = entry("two launches")
    run = observed(call)
    assert run.recording is None
    (found,) = slices_of(call, run, [("out", (1,))])
    assert not isinstance(found, NotSliceable)


@pytest.mark.parametrize("values", [1 << 19, 60])
def test_slices_of_one_shape_get_together_what_they_get_alone(values, monkeypatch):
    monkeypatch.setattr("render.trace.batch.VALUES", values)  # of a few members, or of all
    call = entry("movements")
    found = slices_of(call, observed(call), [("out", (i, j)) for i in (3, 9, B - 1) for j in (0, 4, 5)])
    groups = list(batches(found))
    assert any(len(places) > 1 for places, _ in groups) and sorted(i for p, _ in groups for i in p) == list(range(9))
    for places, batch in groups:
        for i, together in zip(places, contributions_of(batch), strict=True):
            alone = contributions(found[i])
            assert together.amounts == pytest.approx(alone.amounts) and together.half == alone.half
            assert together.squares == pytest.approx(alone.squares) and together.end == alone.end


def test_lanes_of_a_movement_come_from_where_the_movement_takes_them():
    call = entry("movements")
    checked = set()
    for e in (e for p in observed(call).recording.passes for e in p.entries):
        if e.op in moves.MOVES:
            for k, out in enumerate(e.outs):
                wanted = np.arange(moves.lanes_of(out))
                for a, b in zip(moves.moved(e, k, wanted), moves.moved_by_doing(e, k, wanted), strict=True):
                    np.testing.assert_array_equal(a, b)
                checked.add(e.op)
    assert {"broadcast", "expand_dims", "reshape"} <= checked
