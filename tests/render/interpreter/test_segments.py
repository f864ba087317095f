"""Scans that begin anew where a flag is set: plain loops in float64 and float32 lie inside, and nothing is unknown."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng

from render.interpreter.algebras import segmented
from render.interpreter.session import Session

N = 16


@triton.jit
def sums(f1, v1, f2, v2):
    return f1 | f2, tl.where(f2 == 0, v1 + v2, v2)


@triton.jit
def by_truth(f1, v1, f2, v2):
    return f1 | f2, tl.where(f2, v2, v1 + v2)


@triton.jit
def products(f1, v1, f2, v2):
    return tl.maximum(f1, f2), tl.where(f2 > 0, v2, v1 * v2)


@triton.jit
def largest(v1, f1, v2, f2):
    return tl.where(f2 == 0, tl.maximum(v1, v2), v2), f1 | f2


@triton.jit
def least(v1, f1, v2, f2):
    return tl.where(f2 == 0, tl.minimum(v1, v2), v2), f1 | f2


@triton.jit
def of_the_left(f1, v1, f2, v2):
    return f1 | f2, tl.where(f1 == 0, v1 + v2, v2)


@triton.jit
def turned(f1, v1, f2, v2):
    return f1 | f2, tl.where(f2 == 0, v2, v1 + v2)


@triton.jit
def of_another(f1, v1, f2, v2):
    return f1 & f2, tl.where(f2 == 0, v1 + v2, v2)


@triton.jit
def scanned(F, V, Out, G, FN: tl.constexpr, LAST: tl.constexpr, BACK: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    f, v = tl.load(F + i), tl.load(V + i)
    if LAST:
        v, f = tl.associative_scan((v, f), 0, FN, reverse=BACK)
    else:
        f, v = tl.associative_scan((f, v), 0, FN, reverse=BACK)
    tl.store(Out + i, v)
    tl.store(G + i, f)


STEPS = {
    "sums": (sums, False, np.add), "by truth": (by_truth, False, np.add), "products": (products, False, np.multiply),
    "largest": (largest, True, np.maximum), "least": (least, True, np.minimum),
}  # fmt: skip


def loop(step, flags, values, back):
    out = np.empty_like(values)
    order = range(len(values))[:: -1 if back else 1]
    before = None
    for i in order:
        before = values[i] if before is None or flags[i] else step(before, values[i])
        out[i] = before
    return out


def ran(fn, last, back, flags, values, width=0.0):
    x, out, flagged = torch.from_numpy(values), torch.zeros(N), torch.zeros(N, dtype=torch.int32)
    with Session(device="any") as session:
        if width:
            session.memory.carry(x, values.astype(float) - width, values.astype(float) + width, frozenset())
        scanned[(1,)](torch.from_numpy(flags), x, out, flagged, fn, last, back, N)
    return session.envelope(out), flagged.numpy()


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_loop_over_the_segments_lies_inside(name: str, back: bool) -> None:
    fn, last, step = STEPS[name]
    g = rng(7)
    flags = (g.random(N) < 0.3).astype(np.int32)
    values = g.standard_normal(N).astype(np.float32) + np.float32(2.5)
    for width in (0.0, 0.25):
        found, flagged = ran(fn, last, back, flags, values, width)
        assert not found.taints
        assert np.array_equal(flagged, np.maximum.accumulate(flags[:: -1 if back else 1])[:: -1 if back else 1])
        tried = [loop(step, flags, v, back) for v in (values, values.astype(float))]
        if width:
            tried += [loop(step, flags, values.astype(float) + s, back) for s in (width, -width)]
        for got in tried:
            assert ((found.lo <= got) & (got <= found.hi)).all()
        exact = tried[1]
        room = np.array([1 if step in (np.add, np.maximum, np.minimum) else 3.0**N]) * width * N + 1e-4 * np.abs(exact)
        assert ((found.hi - found.lo) <= 2 * room + 1e-4).all(), "wider than errors of its segment"
        if step in (np.maximum, np.minimum) and not width:
            assert np.array_equal(found.lo, found.hi)


@pytest.mark.parametrize("fn", [of_the_left, turned, of_another])
def test_what_begins_anew_in_another_way_is_no_such_scan(fn) -> None:
    assert segmented(fn) is None


def test_the_kinds_are_those_of_the_parts() -> None:
    assert segmented(sums) == (0, ("", "sum")) and segmented(by_truth) == (0, ("", "sum"))
    assert segmented(products) == (0, ("", "prod"))
    assert segmented(largest) == (1, ("max", "")) and segmented(least) == (1, ("min", ""))


def test_a_flag_that_is_no_truth_value_or_open_makes_no_segments() -> None:
    flags = np.zeros(N, np.int32)
    flags[5] = 2
    found, _ = ran(sums, False, False, flags, np.ones(N, np.float32))
    plain = loop(np.add, flags, np.ones(N), False)
    known = ~np.isnan(found.lo)
    assert ((found.lo <= plain) & (plain <= found.hi))[known].all()
