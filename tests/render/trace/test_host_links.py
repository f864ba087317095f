"""Tables that the host makes of numbers alone, as nodes: the second evaluation holds what torch gives, at any place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.trace import slice_of
from render.witness.make import Claim, make
from tests.verdicts import classify

N = 16
TABLES: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "linspace": lambda t: torch.linspace(0.1, 1.7, N, dtype=t),
    "linspace down": lambda t: torch.linspace(3.0, -1.1, N - 1, dtype=t),
    "linspace of one": lambda t: torch.linspace(0.3, 2.0, 1, dtype=t),
    "arange": lambda t: torch.arange(N, dtype=t) * 0.1,
    "arange of steps": lambda t: torch.arange(0.3, 0.3 + 0.7 * N - 0.1, 0.7, dtype=t),
    "logspace": lambda t: torch.logspace(-1, 1, N, dtype=t),
    "logspace of two": lambda t: torch.logspace(-3, 2, N, 2.0, dtype=t),
    "hann": lambda t: torch.hann_window(N, dtype=t) + 1,
    "hann, both ends": lambda t: torch.hann_window(N - 1, False, dtype=t) + 1,
    "hamming": lambda t: torch.hamming_window(N, dtype=t),
    "hamming of weights": lambda t: torch.hamming_window(N, True, 0.6, 0.3, dtype=t),
    "blackman": lambda t: torch.blackman_window(N - 1, dtype=t) + 1,
    "bartlett": lambda t: torch.bartlett_window(N, dtype=t) + 1,
    "bartlett, both ends": lambda t: torch.bartlett_window(N - 1, False, dtype=t) + 1,
}


@triton.jit
def third(X, Out, count, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i, mask=i < count, other=0.0) / 3, mask=i < count)


def thirds(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    third[(1,)](x, out, len(x), N)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_torch_makes(name: str, dtype: torch.dtype) -> None:
    table, true = TABLES[name](dtype), TABLES[name](torch.float64)
    x = torch.randn(len(table), generator=torch.Generator().manual_seed(0))
    call = Entry(added := (lambda x: thirds(x) + TABLES[name](dtype)), of_call(added, (x,), {}), "any")
    run = call.run()
    size = float(true.abs().max()) + 1.0
    for k in {*range(0, len(table), 4), len(table) - 1}:
        piece = slice_of(call, run, run.outputs[0].name, (k,))
        answer = make(piece, Claim("reference", 100 * size, 100 * size))[1]
        assert answer.agrees, answer.why
        low, high = (float.fromhex(end) for end in answer.enclosure)
        assert low <= float(x[k].double() / 3 + true[k]) <= high
        assert low <= float(run.outputs[0].value[k]) <= high
        assert high - low <= 40 * float(torch.finfo(dtype).eps) * size


def test_a_table_behind_a_step_of_the_host_is_judged() -> None:
    """A cast of a table, then a product with what a kernel gave: the right one is round-off, a wrong one a bug."""
    x = torch.randn(N, generator=torch.Generator().manual_seed(0)).bfloat16()

    def weighed(x: torch.Tensor, most: float = 1.5) -> torch.Tensor:
        return thirds(x) * torch.linspace(0.5, most, len(x)).to(x.dtype)

    def right(x: torch.Tensor) -> torch.Tensor:
        return x / 3 * torch.linspace(0.5, 1.5, len(x)).to(x.dtype)

    assert classify(weighed, x, ref=right).label == "Type-I"
    found = classify(lambda x: weighed(x, 1.6), x, ref=right)
    assert (found.label, found.code) == ("Type-II", "RND201")
