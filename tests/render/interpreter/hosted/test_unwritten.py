"""What the host computes with elements that nothing has written: who depends on them, and where it is told."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session

N = 8
HALF = torch.arange(N) < N // 2


def partly() -> torch.Tensor:
    """The second half is not written."""
    b = torch.empty(N)
    b[: N // 2] = torch.arange(1.0, N // 2 + 1)
    return b


ALL, NONE = torch.zeros(N, dtype=torch.bool), torch.ones(N, dtype=torch.bool)
WRITTEN = {
    "add": (lambda b: b + 1, HALF),
    "exp": (lambda b: b.exp(), HALF),
    "difference from itself": (lambda b: b - b, HALF),
    "cast": (lambda b: b.half(), HALF),
    "to integers": (lambda b: b.to(torch.int32), HALF),
    "comparison": (lambda b: b > 3, HALF),
    "flipped": (lambda b: b.flip(0) * 2, HALF.flip(0)),
    "chained": (lambda b: (b.neg() + 1).clone().exp(), HALF),
    "outer": (lambda b: (b[:, None] + b[None])[0], HALF),
    "in place": (lambda b: b.mul_(3), HALF),
    "in place on a copy": (lambda b: b.clone().add_(b), HALF),
    "running sum": (lambda b: b.cumsum(0), HALF),
    "running sum backwards": (lambda b: b.flip(0).cumsum(0), ALL),
    "softmax": (lambda b: b.softmax(0), ALL),
    "softmax of a row": (lambda b: b.view(2, N // 2).softmax(1).view(-1), HALF),
    "layer norm": (lambda b: torch.nn.functional.layer_norm(b, (N,)), ALL),
    "sort": (lambda b: b.sort().values, ALL),
    "product": (lambda b: (b.view(2, 4) @ torch.ones(4, 4)).reshape(-1), HALF),
    "chosen by it": (lambda b: torch.arange(8.0)[(b > 2).long()], ALL),  # not every number is an index: not asked
    "added to by index": (lambda b: b.index_add(0, torch.arange(8), torch.ones(8)), HALF),
    "masked": (lambda b: torch.where(HALF, b + 1, 0.0), NONE),
    "masked with zeros": (lambda b: (b * 2).masked_fill(~HALF, 0.0), NONE),
    "filled": (lambda b: b.add(1).index_fill_(0, torch.arange(4, 8), 1.0), NONE),
    "overwritten": (lambda b: torch.add(torch.ones(8), 1, out=b), NONE),
    "beta of zero": (lambda b: torch.addmv(b, torch.ones(8, 3), torch.ones(3), beta=0), NONE),
    "drawn over": (lambda b: b.uniform_().log(), NONE),
    "sorted behind a mask": (lambda b: torch.where(HALF, b, 9.0).sort().values, NONE),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_results_depend_on_what_is_not_written(name):
    f, expected = WRITTEN[name]
    with Session(device="any") as session:
        out = f(partly())
        known = session.memory.host_envelope(out)
    got = torch.ones(N, dtype=torch.bool) if known is None else torch.from_numpy(known.written)
    assert torch.equal(got.expand(N), expected)


@triton.jit
def take(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i))


@triton.jit
def guarded(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.where(i < N // 2, tl.load(X + i) * 2, 0.0))


@pytest.mark.parametrize("through", [lambda b: b + 1, lambda b: (b.exp() + b).clone(), lambda b: b.cumsum(0)])
def test_it_is_told_at_the_line_that_computes(through):
    y, z = torch.zeros(N), torch.zeros(N)
    with Session(device="any") as session:
        b = through(partly())
        take[(1,)](b, y, N=N)
        guarded[(1,)](b, z, N=N)
    first = session.findings[0]
    assert first.code == "RND208" and "nothing has written" in first.message and first.file == __file__
    assert first.taint in session.envelope(y).taints
    assert not session.envelope(z).taints  # its lanes are left out


@pytest.mark.parametrize("leaves", [lambda b: b.sum().item(), lambda b: b[6].item(), lambda b: float(b.max())])
def test_a_number_that_leaves_torch_carries_it(leaves):
    with Session(device="any") as session:
        out = torch.ones(3) * leaves(partly())
        taints = session.envelope(out).taints
    assert {session.taints[i].code for i in taints} >= {"RND208"}


def test_bounds_of_what_was_written_hold_beside_what_was_not():
    """Integers that the bounds leave open: which ones is known of the first two, whatever stands in the others."""
    source = torch.tensor([1.0, 2.0])
    with Session(device="any") as session:
        filled = torch.empty(4)
        session.memory.carry(source, np.array([0.9, 2.0]), np.array([1.1, 2.0]), frozenset())
        filled[:2] = source
        found = session.memory.host_envelope(filled.to(torch.int32))
    assert not found.taints and found.written.tolist() == [True, True, False, False]
    assert (found.lo[:2].tolist(), found.hi[:2].tolist()) == ([0, 2], [1, 2])
