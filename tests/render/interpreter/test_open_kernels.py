"""Kernels whose integers, truths and places rounding leaves open: every execution from the box lies in the bound.

The executions are the same kernel at points of the box, in a session that rounds as one machine does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session

N = 32


@triton.jit
def integer_dot(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a, b = tl.load(X + at).to(tl.int8), tl.load(W + at).to(tl.int8)
    tl.store(Y + at, tl.dot(a, b))


@triton.jit
def gathered_numbers(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a, b = tl.load(X + at).to(tl.int32), tl.load(W + at).to(tl.int32) & (N - 1)
    tl.store(Y + at, tl.gather(a, b, 1))


@triton.jit
def gathered_truths(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a, b = tl.load(X + at) > 1, tl.load(W + at).to(tl.int32) & (N - 1)
    tl.store(Y + at, tl.where(tl.gather(a, b, 1), 7, 3))


@triton.jit
def loaded_where(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(Y + at, tl.load(X + at).to(tl.int32))
    tl.store(Y + at, tl.load(Y + at, mask=tl.load(W + at) > 1, other=-4))


@triton.jit
def stored_where(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(Y + at, i[None, :] * 2)
    tl.store(Y + at, tl.load(X + at).to(tl.int32), mask=tl.load(W + at) > 1)


@triton.jit
def stored_truths(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(Y + at, ((tl.load(X + at) > 1) & (tl.load(W + at) > 0)).to(tl.int32))
    tl.store(Y + at, tl.load(Y + at) + 1)


@triton.jit
def exchanged(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(Y + at, tl.load(X + at).to(tl.int32))
    old = tl.atomic_max(Y + at, tl.load(W + at).to(tl.int32))
    tl.atomic_add(Y + at, old)


@triton.jit
def counted_where(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(Y + at, tl.zeros((N, N), tl.int32))
    tl.atomic_add(Y + at, tl.load(X + at).to(tl.int32), mask=tl.load(W + at) > 1)


@triton.jit
def placed(X, W, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(Y + at, tl.zeros((N, N), tl.int32))
    where = i[:, None] * N + (tl.load(W + at).to(tl.int32) & (N - 1))
    tl.atomic_add(Y + where, tl.load(X + at).to(tl.int32))


KERNELS = {k.fn.__name__: k for k in (integer_dot, gathered_numbers, gathered_truths, loaded_where, stored_where,
                                      stored_truths, exchanged, counted_where, placed)}  # fmt: skip
KNOWN = {"integer_dot", "gathered_numbers", "gathered_truths", "stored_truths"}
"""Those that have bounds and no taint, but for truths from places that are open; the others may have one."""


def run(kernel: Any, x: torch.Tensor, w: torch.Tensor, boxes: Any = None) -> tuple[torch.Tensor, Any]:
    y = torch.zeros(N, N, dtype=torch.int32)
    with Session(device="any" if boxes else "ieee") as session:
        for t, wide in zip((x, w), boxes or (), strict=False):
            v = t.double().numpy()
            session.memory.carry(t, v - wide, v + wide, frozenset())
        kernel[(1,)](x, w, y, N)
        return y, session.envelope(y)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("open_", [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3), (0.3, 0.3)], ids=str)
@pytest.mark.parametrize("seed", range(1))
def test_every_execution_lies_in_the_bound(name: str, open_: tuple[float, float], seed: int) -> None:
    g = np.random.default_rng(seed)
    base = [np.round(g.uniform(-3, 9, (N, N))) + g.choice([0.4, 0.1], (N, N), p=[0.2, 0.8]) for _ in range(2)]
    reach = [share * (g.random((N, N)) < 0.2) + 1e-6 * (share > 0) for share in open_]
    x, w = (torch.from_numpy(b).float() for b in base)
    value, found = run(KERNELS[name], x, w, reach)
    if not any(open_):
        assert found is None or (not found.taints and np.array_equal(found.lo, value.numpy()))
        return
    assert found is not None
    if name in KNOWN and (name != "gathered_truths" or not open_[1]):
        assert not found.taints
    if found.taints:
        return
    narrow = found.lo == found.hi
    for _ in range(6):
        points = [b + r * g.choice([-0.99, 0.0, 0.99], (N, N)) for b, r in zip(base, reach, strict=True)]
        made, _ = run(KERNELS[name], *(torch.from_numpy(p).float() for p in points))
        assert ((found.lo <= made.numpy()) & (made.numpy() <= found.hi)).all()
    assert narrow.any() or name == "integer_dot"
