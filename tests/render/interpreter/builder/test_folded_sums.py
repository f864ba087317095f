"""A dot that is added to something else: what was there keeps its bounds, on either side of the addition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session

N = 16


@triton.jit
def added(X, W, C, Y, BEFORE: tl.constexpr, TWICE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x, w, c = tl.load(X + at), tl.load(W + at), tl.load(C + at)
    d = tl.dot(x, w)
    y = c + d if BEFORE else d + c
    if TWICE:
        y = y + tl.dot(w, x)
    tl.store(Y + at, y)


@pytest.mark.parametrize("device", ["any", "sm_90", "ieee"])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("width", [0.0, 0.5])
def test_what_a_dot_is_added_to_keeps_its_bounds(device: str, before: bool, twice: bool, width: float) -> None:
    g = torch.Generator().manual_seed(4)
    x, w, c = (torch.randint(-4, 5, (N, N), generator=g).float() for _ in range(3))
    y, wide = torch.empty(N, N), width * (np.arange(N * N).reshape(N, N) % 3)
    with Session(device) as session:
        if width:
            session.memory.carry(c, c.double().numpy() - wide, c.double().numpy() + 2 * wide, frozenset())
        added[(1,)](x, w, c, y, before, twice, N)
        found = session.envelope(y)
    exact = (x.double() @ w.double() + c.double() + (w.double() @ x.double() if twice else 0)).numpy()
    assert (found.lo <= exact - wide).all() and (exact + 2 * wide <= found.hi).all()
    assert (found.hi - found.lo <= 3 * wide + 1e-3).all() and not found.taints
