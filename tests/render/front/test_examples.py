"""Of hypothesis' examples the first and the smallest that fails are judged; other comparisons all are."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from render.front.examples import NOTE
from render.front.watch import Watch
from render.result.options import Options

PHASES = (Phase.generate, Phase.shrink)  # what a run before has left behind is no part of it


@triton.jit
def halved(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 0.5 * tl.load(x + i, mask=i < n), mask=i < n)


def half(x: torch.Tensor, short: int) -> torch.Tensor:
    out = torch.zeros_like(x)
    halved[(triton.cdiv(x.numel(), 16),)](x, out, x.numel() - short, 16)
    return out


def property_of(most: int) -> None:
    """The kernel is right up to so many elements."""

    @given(st.integers(1, 100))
    @settings(max_examples=15, deadline=None, database=None, phases=PHASES, derandomize=True)
    def check(n: int) -> None:
        x = torch.ones(n)
        torch.testing.assert_close(half(x, n > most), x / 2)

    check()


def test_the_first_and_the_smallest_that_fails() -> None:
    with Watch(Options(budget=False)) as watch:
        with pytest.raises(AssertionError):
            property_of(20)
        property_of(100)
        torch.equal(half(torch.ones(3), 0), torch.ones(3) / 2)
    labels = [(c.verdict.label, c.verdict.outputs[0].elements) for c in watch.comparisons if c.verdict is not None]
    assert labels[1] == ("Type-II", 21)
    assert len(labels) == 5 and [label for label, _ in labels[2:]] == ["Type-I"] * 3 and labels[-1][1] == 3
    assert watch.notes == [NOTE]
