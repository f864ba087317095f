"""Functions with a state of their own are judged call by call, as if each were the first."""

import pytest
import torch
import triton
import triton.language as tl

from render.entry.held import MOST
from tests.verdicts import classify

N = 100


@triton.jit
def averaged(total, x, n, gain, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    before, new = tl.load(total + i, mask=mask), tl.load(x + i, mask=mask)
    tl.store(total + i, before * 0.9 + new * 0.1 * gain, mask=mask)


def average(total, x, gain):
    averaged[(triton.cdiv(N, 64),)](total, x, N, gain, 64)


class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, N))
        self.register_buffer("total", torch.zeros(N))


def trainer(update):
    """One step of training and a running average, with a model and an optimiser of its own."""
    model = Weighted()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        (x * model.weight).square().mean().backward()
        optimizer.step()
        update(model.total, model.weight.detach() * x)
        return model.total, model.weight

    return step


def counted(update):
    """A global count and a cache of the history."""
    seen = []

    def step(x):
        global CALLS
        CALLS += 1
        total = sum(seen, torch.zeros(N))
        seen.append(x * CALLS)
        update(total, seen[-1])
        return total

    return step


CALLS = 0


@pytest.mark.parametrize("make", [trainer, counted])
@pytest.mark.parametrize(("gain", "label"), [(1.0, "Type-I"), (1.01, "Type-II")])
def test_runs_begin_where_the_first_began(make, gain, label):
    before = CALLS
    entry = make(lambda total, x: average(total, x, gain))
    reference = make(lambda total, x: total.mul_(0.9).add_(x, alpha=0.1))
    x = torch.randn(N, generator=torch.Generator().manual_seed(0))
    assert classify(entry, x, ref=reference).label == label
    assert before == CALLS


@pytest.mark.parametrize(("gain", "label"), [(1.0, "Type-I"), (1.01, "Type-II")])
def test_what_both_sides_draw_once_is_the_same_for_both(gain, label):
    cache = {}

    def weights():
        if "w" not in cache:
            cache["w"] = torch.rand(N)
        return cache["w"]

    def entry(x):
        noise, total = torch.rand(3), weights().clone()
        average(total, x, gain)
        return total + noise[0] * 0

    x = torch.randn(N, generator=torch.Generator().manual_seed(0))
    assert classify(entry, x, ref=lambda x: weights() * 0.9 + x * 0.1).label == label
    assert not cache


def test_more_than_is_looked_at_is_told():
    many = [[i] for i in range(MOST + 1)]

    def entry(x):
        many[-1].append(0)
        total = torch.zeros(N)
        average(total, x, 1.0)
        return total

    x = torch.randn(N, generator=torch.Generator().manual_seed(0))
    told = [classify(fn, x, ref=lambda x: x * 0.1).notes for fn in (entry, lambda x: entry(x))]
    assert all(any("nothing is put back" in note for note in notes) for notes in told)
