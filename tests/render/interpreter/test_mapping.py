"""A scalar function over the elements of a block: branches per element, several results, open branches."""

from __future__ import annotations

import library_zoo as zoo
import numpy as np
import pytest
import torch
from support import rng

from render.interpreter.session import Session
from render.result.errors import UnsupportedOp

N = 32


def test_every_element_takes_its_own_branch() -> None:
    x = torch.from_numpy(rng(171).normal(size=4 * N)).float()
    out = torch.empty_like(x)
    with Session("sm_80") as s:
        zoo.selu_kernel[(4,)](x, out, N)
    want = torch.where(x > 0, x.double(), 1.67 * torch.expm1(x.double()))
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-6)
    envelope = s.envelope(out)
    assert envelope is not None and not envelope.taints
    assert np.all((envelope.lo <= want.numpy()) & (want.numpy() <= envelope.hi))
    positive = (x > 0).numpy()
    assert np.array_equal(envelope.lo[positive], envelope.hi[positive])


def test_loops_of_different_length_and_two_results() -> None:
    x = torch.arange(1, N + 1, dtype=torch.int32)
    out, last = torch.empty_like(x), torch.empty_like(x)
    with Session("sm_80"):
        zoo.collatz_kernel[(1,)](x, out, last, N)

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    assert out.tolist() == [steps(n) for n in range(1, N + 1)] and torch.all(last == 1)


def test_an_open_branch_taints() -> None:
    x = torch.linspace(-1, 1, N)
    x[3] = 1e-9
    out = torch.empty(N)
    with Session("sm_80") as s:
        zoo.open_branch_kernel[(1,)](x, out, N)
    assert {s.taints[t].code for t in s.envelope(out).taints} == {"RND303"}


def test_packs_depend_on_the_layout() -> None:
    with pytest.raises(UnsupportedOp, match="pack"), Session("sm_80"):
        zoo.packed_kernel[(1,)](torch.randn(N), torch.empty(N), N)
