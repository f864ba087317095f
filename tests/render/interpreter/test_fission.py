"""Long loops whose turns mostly run at once give the results, bounds, findings and causes that they give by turns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter import fission, lockstep
from render.interpreter.session import Session

TURNS = 300


@triton.jit
def recurrence(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    total = 0.0
    for i in range(n):
        total = total * 0.5 + tl.load(x_ptr + i)
    tl.store(end_ptr, total)


@triton.jit
def filtered(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """Two variables that pass on each other's values, a cast, and a store of every turn."""
    low = 0.3
    high = 0.0
    for i in range(2, n - 1):
        x = tl.load(x_ptr + i).to(tl.float32)
        high, low = low * 0.25 + x * high * 0.1, high + tl.exp(x * 0.1) * 0.01
        tl.store(out_ptr + i, high.to(tl.float16))
    tl.store(end_ptr, low - high)


@triton.jit
def blocks(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """A state of B lanes in each of several programs, lanes masked off, squares."""
    pid = tl.program_id(0)
    at = tl.arange(0, B)
    state = tl.zeros((B,), tl.float32)
    for i in range(n):
        x = tl.load(x_ptr + (pid * n + i) * B + at, mask=at < B - 1, other=0.3)
        state = x - state * state * 0.01
    tl.store(end_ptr + pid * B + at, state)


@triton.jit
def pointers(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """Pointers and a number that move on by themselves."""
    total = 0.0
    step = 1
    for _ in range(n):
        total = total * 0.5 + tl.load(x_ptr)
        tl.store(out_ptr, total.to(tl.float16), mask=step % 3 != 0)
        x_ptr += 1
        out_ptr += 1
        step += 2
    tl.store(end_ptr, total + step)


@triton.jit
def copies(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    for _ in range(n):
        tl.store(out_ptr, tl.load(x_ptr).to(tl.float16))
        x_ptr += 1
        out_ptr += 1


@triton.jit
def rows(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """Several programs with pointers of their own."""
    at = x_ptr + tl.program_id(0) * n * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for _ in range(n):
        total += tl.load(at) * 0.3
        at += B
    tl.store(end_ptr + tl.program_id(0) * B + tl.arange(0, B), total)


@triton.jit
def one_place(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """Every turn loads and stores the same element."""
    total = 0.0
    for _ in range(n):
        total = total * 0.5 + tl.load(end_ptr)
        tl.store(end_ptr, total + 1.0)


@triton.jit
def unseen(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """Late turns load what other lanes stored before the loop, without a barrier."""
    at = tl.arange(0, 16)
    tl.store(x_ptr + n - 16 + at, at * 0.5)
    recurrence(x_ptr, out_ptr, end_ptr, n, B)


@triton.jit
def in_place(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """A turn loads what the turn before stored."""
    total = 0.0
    for i in range(1, n):
        total = total * 0.5 + tl.load(x_ptr + i - 1)
        tl.store(x_ptr + i, total)
    tl.store(end_ptr, total)


@triton.jit
def decides(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    total = 0.0
    for i in range(n):
        total = total * 0.5 + tl.load(x_ptr + i)
        if i % 100 == 7:
            total = 1.0
    tl.store(end_ptr, total)


@triton.jit
def outside(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """The last loads lie behind the tensor."""
    total = 0.0
    for i in range(n):
        total = total + tl.load(x_ptr + i + 5)
    tl.store(end_ptr, total)


@triton.jit
def differences(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """Kahan's sum: rules know of what its differences are made."""
    total = 0.0
    lost = 0.0
    for i in range(n):
        y = tl.load(x_ptr + i) - lost
        t = total + y
        lost = (t - total) - y
        total = t
    tl.store(end_ptr, total)


@triton.jit
def behind(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """After the loop its last turn's variables are asked what they are made of."""
    total = 0.0
    x = 0.0
    for i in range(n):
        x = tl.load(x_ptr + i) * 0.3
        total = total + x
    tl.store(end_ptr, total - x)


@triton.jit
def renamed(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """Variables that are one value at the end of each turn, under names of either order."""
    state = 0.0
    low = 0.3
    for i in range(n):
        next_state = state * 0.5 + low * 0.25 + tl.load(x_ptr + i)
        state = next_state
        low = next_state
    tl.store(end_ptr, state + low)


@triton.jit
def far(x_ptr, out_ptr, end_ptr, n, B: tl.constexpr):
    """A pointer moves further than its offsets' type has numbers, and back."""
    total = 0.0
    at = x_ptr
    for i in range(n):
        total = total * 0.5 + tl.load(at, mask=i < 1, other=0.5) + tl.load(x_ptr + i)
        at += 1 << 24
    tl.store(end_ptr, total + tl.load(at - n.to(tl.int64) * (1 << 24)))


def outcome(kernel, monkeypatch, at_once, programs=1, dtype=torch.float32, **settings):
    """(values, bounds, findings, causes, taints; how many batches of turns ran at once)."""
    batches = []
    plain = fission.AtOnce.run
    with monkeypatch.context() as patched:
        patched.setattr(lockstep, "ENOUGH", 64 if at_once else 1 << 60)
        patched.setattr(fission.AtOnce, "run", lambda self, *a: batches.append(self.turns) or plain(self, *a))
        lanes = 8 if programs > 1 else 1
        x = torch.randn(programs * TURNS * lanes, generator=torch.Generator().manual_seed(0)).to(dtype)
        out, end = torch.zeros(TURNS, dtype=torch.float16), torch.zeros(programs * lanes, dtype=torch.float32)
        with Session(**settings) as session:
            kernel[(programs,)](x, out, end, TURNS, B=lanes, num_warps=1 if programs > 1 else 4)
        bounds = [session.envelope(t) for t in (out, end)]
    arrays = [a.tobytes() for e in bounds if e is not None for a in map(np.ascontiguousarray, (e.lo, e.hi, e.written))]
    found = [str(f) for f in session.findings], sorted(map(str, session.causes)), len(session.taints)
    return (out.numpy().tobytes(), end.numpy().tobytes(), arrays, *found), sum(batches)


@pytest.mark.parametrize("mute", [(), ("arith",)], ids=["bounds", "without arithmetic's rounding"])
@pytest.mark.parametrize(
    ("kernel", "programs", "at_once"),
    [
        (recurrence, 1, True),
        (filtered, 1, True),
        (blocks, 3, True),
        (behind, 1, True),
        (pointers, 1, True),
        (copies, 1, True),
        (renamed, 1, True),
        (far, 1, True),
        (rows, 3, True),
        (one_place, 1, False),
        (unseen, 1, False),
        (in_place, 1, False),
        (decides, 1, False),
        (outside, 1, False),
        (differences, 1, False),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_the_same_as_turn_by_turn(kernel, programs, at_once, mute, monkeypatch):
    found, turns = outcome(kernel, monkeypatch, True, programs, mute=mute)
    plain, none = outcome(kernel, monkeypatch, False, programs, mute=mute)
    assert found == plain
    assert none == 0
    if at_once:
        assert turns >= TURNS - 10
    elif kernel in (decides, differences):
        assert turns == 0


def test_halves_that_are_widened(monkeypatch):
    found, turns = outcome(filtered, monkeypatch, True, dtype=torch.float16)
    assert turns > 0
    assert found == outcome(filtered, monkeypatch, False, dtype=torch.float16)[0]


def test_a_recorded_run_goes_turn_by_turn(monkeypatch):
    """Who listens hears of every operation."""
    from render.interpreter.events import Listener, listened

    class Ear(Listener):
        def __init__(self):
            super().__init__()
            self.loads = 0

        def event(self, op, args, outs, attrs=None):
            self.loads += op == "load"

    ear = Ear()
    _, turns = outcome(recurrence, monkeypatch, True, builder=listened(ear))
    assert (turns, ear.loads) == (0, TURNS)
