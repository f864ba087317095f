"""Accesses at places that rounding leaves open: what every choice of the places gives lies within the bounds.

The oracle enumerates the worlds: each lane's index is one of two integers, and plain Python runs the access.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session
from tests.support import rng, trials

N = 6


@triton.jit
def moving(X, T, U, Y, M, C, F, KIND: tl.constexpr):
    i = tl.arange(0, 8)
    k = (tl.load(X + i) / 3.0 * 3.0).to(tl.int32)  # the integer in X, or the one below it
    live = i < 6
    if KIND == "load":
        tl.store(Y + i, tl.load(T + k, mask=live, other=0.0), mask=live)
    elif KIND == "twice":
        tl.store(Y + i, tl.load(T + tl.load(U + k, mask=live, other=0), mask=live, other=0.0), mask=live)
    elif KIND == "rows":
        j = tl.arange(0, 4)
        at = (k * 4)[:, None] + j[None, :]
        tl.store(M + i[:, None] * 4 + j[None, :], tl.load(T + at % 16, mask=live[:, None], other=0.0))
    elif KIND == "store":
        tl.store(Y + k, tl.load(T + i, mask=live), mask=live)
    elif KIND == "count":
        tl.atomic_add(C + k, 1, mask=live)
    elif KIND == "add":
        tl.atomic_add(F + k, tl.load(T + i, mask=live), mask=live)
    elif KIND == "gather":
        tl.store(Y + i, tl.gather(tl.load(T + i), k % 8, 0), mask=live)


def world(kind: str, k: tuple[int, ...], t: np.ndarray, u: np.ndarray, y: np.ndarray) -> np.ndarray:
    if kind == "load":
        return t[list(k)]
    if kind == "twice":
        return t[u[list(k)]]
    if kind == "rows":
        return np.concatenate([np.stack([t[(4 * n + np.arange(4)) % 16] for n in k]), np.zeros((2, 4))]).ravel()
    if kind == "gather":
        return t[[n % 8 for n in k]]
    out = np.zeros(len(y)) if kind in ("count", "add") else y.copy()
    for lane, n in enumerate(k):
        out[n] = t[lane] if kind == "store" else out[n] + (1 if kind == "count" else t[lane])
    return out


@pytest.mark.parametrize("kind", ["load", "twice", "rows", "store", "count", "add", "gather"])
@pytest.mark.parametrize("seed", range(trials(2)))
def test_every_choice_of_places_is_covered(kind, seed):
    g = rng(seed)
    x = torch.zeros(8)
    drawn = g.integers(1, 8, N) if kind in ("load", "twice", "rows", "gather") else 1 + 2 * g.permutation(N)
    x[:N] = torch.from_numpy(drawn.astype(np.float32))
    t, y = (
        torch.from_numpy(g.normal(size=16).astype(np.float32)),
        torch.from_numpy(g.normal(size=16).astype(np.float32)),
    )
    u = torch.from_numpy(g.integers(0, 16, 16).astype(np.int32))
    m, c, f = torch.zeros(8, 4), torch.zeros(16, dtype=torch.int32), torch.zeros(16)
    before = y.clone().numpy()
    with Session(device="any") as session:
        moving[(1,)](x, t, u, y, m, c, f, KIND=kind)
    out = {"rows": m, "count": c, "add": f}.get(kind, y)
    found = session.envelope(out)
    assert not found.taints and (found.lo != found.hi).any() and (kind == "gather" or "place" in session.notes[0])
    lo, hi = found.lo.ravel(), found.hi.ravel()
    worlds = [world(kind, k, t.numpy(), u.numpy(), before) for k in product(*((n - 1, n) for n in drawn.tolist()))]
    for got in worlds:
        assert ((lo[: len(got)] <= got) & (got <= hi[: len(got)])).all()
    if kind != "add":  # sums round
        reach = np.max(worlds, axis=0) - np.min(worlds, axis=0)
        assert ((hi - lo)[: len(reach)] <= np.maximum(reach, np.abs(reach)) + 1e-6).all(), "wider than the choices"


@triton.jit
def choose(X, Which, n: tl.constexpr):
    j = tl.arange(0, n)
    x = tl.load(X + tl.program_id(0) * n + j)
    p = tl.exp(x) / tl.sum(tl.exp(x), 0)
    tl.store(Which + tl.program_id(0), tl.argmax(p, 0))


@triton.jit
def follow(Which, W, Y, d: tl.constexpr):
    j = tl.arange(0, d)
    tl.store(Y + tl.program_id(0) * d + j, tl.load(W + tl.load(Which + tl.program_id(0)) * d + j))


@pytest.mark.parametrize("tied", [(1, 60), (3, 4, 50), (0, 63)])
def test_candidates_that_lie_far_apart_pass_from_launch_to_launch(tied):
    """Only those that tie, none of the places between them."""
    x, w = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)), torch.arange(64.0 * 4) % 97
    x[1, list(tied)] = 6.0
    which, y = torch.zeros(3, dtype=torch.int32), torch.zeros(3, 4)
    with Session(device="any") as session:
        choose[(3,)](x, which, n=64)
        follow[(3,)](which, w, y, d=4)
    found, rows = session.envelope(y), w.numpy().reshape(64, 4)[list(tied)]
    assert not found.taints
    np.testing.assert_array_equal(found.lo[1], rows.min(0))
    np.testing.assert_array_equal(found.hi[1], rows.max(0))
    assert (found.lo[[0, 2]] == found.hi[[0, 2]]).all()


def test_more_candidates_than_are_told_apart_are_a_taint():
    x, w, which, y = torch.zeros(1, 64), torch.arange(256.0), torch.zeros(1, dtype=torch.int32), torch.zeros(1, 4)
    with Session(device="any") as session:
        choose[(1,)](x, which, n=64)
        follow[(1,)](which, w, y, d=4)
    assert session.envelope(y).taints


def test_a_place_outside_is_a_taint_and_no_finding():
    """The integer in X, or the one below it, which lies before the tensor."""
    x, t = torch.zeros(8), torch.arange(16.0)
    y, m, c, f = torch.zeros(16), torch.zeros(8, 4), torch.zeros(16, dtype=torch.int32), torch.zeros(16)
    x[:N] = torch.tensor([1.0, 3.0, 5.0, 7.0, 9.0, 16.0])
    for kind, out in (("load", y), ("store", y), ("add", f)):
        with Session(device="any") as session:
            moving[(1,)](x, t, torch.zeros(16, dtype=torch.int32), y, m, c, f, KIND=kind)
        assert not session.findings and session.envelope(out).taints


@triton.jit
def crossing(X, Y, Z):
    r = tl.program_id(0)
    k = (tl.load(X + r) / 3.0 * 3.0).to(tl.int32)
    tl.store(Z + r, tl.load(Y + r))
    tl.store(Y + k, 5.0)


def test_reading_what_another_program_may_have_stored_is_a_taint():
    x, y, z = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(4), torch.zeros(3)
    with Session(device="any") as session:
        crossing[(3,)](x, y, z)
    assert session.envelope(z).taints


@triton.jit
def into_either(X, T, Y, Z):
    i = tl.arange(0, 8)
    k = (tl.load(X + i) / 3.0 * 3.0).to(tl.int32)  # the integer in X, or the one below it
    bits = (tl.load(T + i) / 3.0).to(tl.int32, bitcast=True)  # of an open number: unknown
    tl.store(tl.where(i < 3, Y, Z) + k, (bits & 1).to(tl.float32), mask=i < 6)


def test_what_is_unknown_taints_each_place_that_it_may_go_to():
    """By pointers into two tensors: in each of them the places that its own lanes may go to, and no other."""
    x, t = torch.tensor([1.0, 5.0, 9.0, 3.0, 7.0, 11.0, 0.0, 0.0]), torch.rand(8) + 1
    y, z = torch.zeros(16), torch.zeros(16)
    with Session(device="any") as session:
        into_either[(1,)](x, t, y, z)
        for out, at in ((y, (1, 5, 9)), (z, (3, 7, 11))):
            found = [session.envelope(part) for part in out.split(1)]
            assert [k for k, e in enumerate(found) if e is not None and e.taints] == sorted({*at, *(k - 1 for k in at)})
