"""A captured graph runs again on what its tensors hold by then."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")


@triton.jit
def double(out, x, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i) * 2.5)


def test_a_replay_computes_anew_with_bounds():
    x = torch.ones(8, device="cpu")
    with Session() as session:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x / 3
            out = torch.empty_like(y)
            double[(1,)](out, y, B=8)
            result = (out + 1).view(2, 4)
            result += 1
        first = result.clone()
        x.copy_(torch.arange(8.0))
        graph.replay()
        again = result.clone()
        graph.replay()
        bound = session.envelope(result)
    assert torch.equal(first, (2.5 * (torch.ones(8) / 3) + 2).view(2, 4))
    assert torch.equal(again, (2.5 * (torch.arange(8.0) / 3) + 2).view(2, 4)) and torch.equal(result, again)
    exact = (2.5 * torch.arange(8, dtype=torch.float64) / 3 + 2).view(2, 4).numpy()
    assert (bound.lo <= exact).all() and (exact <= bound.hi).all() and (bound.hi > bound.lo).any()
    assert len(session.launches) == 3


def test_without_a_capture_there_is_nothing_to_replay():
    with Session(), pytest.raises(RuntimeError, match="without a preceding"):
        torch.cuda.CUDAGraph().replay()
