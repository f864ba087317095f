"""What kernels stored and nothing looked at is known by name."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.front.watch import Watch
from tests.verdicts import DECIDED


@triton.jit
def both(x, first, second, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(first + i, tl.load(x + i) * 2)
    tl.store(second + i, tl.load(x + i) + 1)


def launched():
    x, first, second = torch.arange(8.0), torch.empty(8), torch.empty(8)
    both[(1,)](x, first, second, 8)
    return x, first, second


LOOKS = {
    "compared": lambda second: torch.allclose(second, torch.arange(8.0) + 1),
    "printed": lambda second: str(second),
    "computed with": lambda second: second.sum() > 3,
    "numpy": lambda second: second.numpy(),
    "an element": lambda second: second[3].item(),
    "a list": lambda second: second.tolist(),
    "a kernel": lambda second: both[(1,)](second, torch.empty(8), torch.empty(8), 8),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_result_that_is_looked_at_is_seen(look):
    with Watch(DECIDED) as watch:
        x, first, second = launched()
        torch.allclose(first, x * 2)
        LOOKS[look](second)
    assert not [name for name in watch.tape.unseen if "second" in name and look != "a kernel"]
    assert len(watch.tape.unseen) == (2 if look == "a kernel" else 0)


@pytest.mark.parametrize("raises", [False, True])
def test_a_result_that_nothing_looks_at_is_named(raises):
    with Watch(DECIDED) as watch:
        try:
            x, first, _ = launched()
            torch.testing.assert_close(first, x * (3 if raises else 2))
        except AssertionError:
            pass
        first.zero_()
    assert [name.split(" (")[0] for name in watch.tape.unseen] == ["`second` of `both`"]
    assert [c.verdict.label for c in watch.comparisons] == ["Type-II" if raises else "Type-I"]
