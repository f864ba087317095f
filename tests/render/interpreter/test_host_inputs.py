"""What the host computes from plain inputs before a launch: roundings carry bounds, all else is taken as given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from interval_ops.profiles.profile import CAUSES
from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory


def tracked(mute=()):
    memory = Memory()
    return memory, HostTracker(memory, mute)


def data(n=1000):
    return torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_a_narrowing_cast_encloses_both_numbers(dtype):
    memory, tracker = tracked()
    x = data().float()
    with tracker:
        y = x.to(dtype)
    env = memory.envelope(y)
    assert (env.lo <= torch.minimum(x.double(), y.double()).numpy()).all()
    assert (env.hi >= torch.maximum(x.double(), y.double()).numpy()).all()
    assert not env.taints
    ((cause, file, line),) = tracker.rounded
    assert (cause, file) == ("cast", __file__)
    assert tracker.causes == {("cast", file, line)}


OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "scalar": lambda x, y: x * 0.1,
    "sum": lambda x, y: x.reshape(10, -1).sum(1),
    "mean": lambda x, y: y.reshape(10, -1).mean(1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_encloses_the_exact_result(name, dtype):
    x, y = data().to(dtype), (data().flip(0) + 3).to(dtype)
    memory, tracker = tracked()
    with tracker:
        out = OPERATIONS[name](x, y)
    exact = OPERATIONS[name](x.double(), y.double()).numpy()
    env = memory.envelope(out)
    assert ((env.lo <= exact) & (exact <= env.hi)).all()
    assert ((env.lo <= out.double().numpy()) & (out.double().numpy() <= env.hi)).all()


@pytest.mark.parametrize("name", OPERATIONS)
def test_muted_it_is_the_exact_result(name):
    x, y = data().half(), (data().flip(0) + 3).half()
    memory, tracker = tracked(CAUSES)
    with tracker:
        out = OPERATIONS[name](x, y)
    exact = OPERATIONS[name](x.double(), y.double()).numpy()
    env = memory.envelope(out)
    rtol = 1e-7 if name == "scalar" else 1e-12  # the number may be rounded to float32 first, whatever is muted
    assert np.allclose(env.lo, exact, rtol=rtol, atol=1e-13)
    assert np.allclose(env.hi, exact, rtol=rtol, atol=1e-13)


def test_a_muted_cast_keeps_the_number_it_was_given():
    memory, tracker = tracked(CAUSES)
    x = data().float()
    with tracker:
        half = x.half()
        moved = half.reshape(10, 100).t().contiguous()
    assert np.array_equal(memory.envelope(moved).lo, x.reshape(10, 100).t().double().numpy())


def test_one_line_can_be_muted():
    x = data().float()
    memory, tracker = tracked()
    with tracker:
        x.half()
    (where,) = tracker.rounded
    memory, tracker = tracked([(where[0], where[1], where[2] + 4)])
    with tracker:
        first = x.half()
        second = x.half()
    assert np.array_equal(memory.envelope(first).lo, memory.envelope(first).hi)
    assert not np.array_equal(memory.envelope(second).lo, memory.envelope(second).hi)


def test_what_rounds_nothing_stays_a_plain_tensor():
    memory, tracker = tracked()
    x = torch.arange(8, dtype=torch.float32)
    with tracker:
        kept = [x.half(), x * 2, x + 1, x.double(), x.sum(), x.long(), torch.relu(x), x.t()]
    assert [memory.envelope(t) is None for t in kept] == [True] * len(kept)
    assert not tracker.causes


def test_other_operations_on_inputs_taint_what_they_give():
    memory, tracker = tracked()
    x = data().float()
    with tracker:
        y, flags = torch.digamma(x.half()), x.half() > 0
        wide = torch.digamma(x.double())
    env = memory.envelope(y)
    assert env is not None
    assert {memory.taints.all[i].code for i in env.taints} == {"RND302"}
    assert memory.envelope(flags) is None
    assert memory.envelope(wide) is None


def test_after_a_launch_they_are_not():
    memory, tracker = tracked()
    x = data().float()
    with tracker:
        half = x.half()
        with tracker.paused():
            pass  # a kernel ran
        y = torch.digamma(half)
    assert memory.envelope(y).taints


def test_in_place_and_copies():
    memory, tracker = tracked()
    x, y = data().float(), torch.zeros(1000, dtype=torch.float16)
    with tracker:
        y.copy_(x)
        y.mul_(3)
    exact = 3 * x.double().numpy()
    env = memory.envelope(y)
    assert ((env.lo <= exact) & (exact <= env.hi)).all()
