"""The stream of events: whoever listens changes nothing, hears the same, and learns what was undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import library_zoo as zoo
import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from render.interpreter.events import Listener, listened
from render.interpreter.handle import METER, Handle
from render.interpreter.session import Session


class Names(Listener):
    """The names of what happened and was not undone, and the programs of each pass."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.passes: list[list[int]] = []
        self.ended_after = 0

    def begin_pass(self, linear: np.ndarray) -> None:
        self.passes.append(linear.tolist())

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        self.names.append(op)

    def mark(self) -> int:
        return len(self.names)

    def undo_to(self, mark: int) -> None:
        del self.names[mark:]

    def ended(self) -> None:
        self.ended_after = len(self.names)


class Backwards(Names):
    def order(self, usual: np.ndarray) -> np.ndarray:
        return usual[::-1]


@triton.jit
def everything(X, Y, Out, Total, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + tl.program_id(0) * N + i, mask=i < n, other=0.5)
    y = libdevice.log1p(tl.flip(x)) + tl.sort(x)
    y += tl.cumsum(tl.load(Y + i), 0) - tl.max(x, 0)
    if n > 3:
        y = libdevice.pow(y, 2)
    tl.atomic_add(Total, tl.sum(y, 0))
    tl.store(Out + tl.program_id(0) * N + i, y)


def run(*listeners: Listener) -> tuple[list[torch.Tensor], Session]:
    x, y = (torch.rand(64, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    out, total = torch.empty(64), torch.zeros(1)
    with Session("sm_80", **({"builder": listened(*listeners)} if listeners else {})) as session:
        everything[(4,)](x, y, out, total, 11, 16)
    ends = [session.envelope(t) for t in (out, total)]
    return [out, total, *(torch.from_numpy(end) for e in ends if e is not None for end in (e.lo, e.hi))], session


def test_results_and_bounds_do_not_change() -> None:
    plain, listening = run()[0], run(Names(), Names())[0]
    assert len(plain) == 6
    assert all(torch.equal(a, b) for a, b in zip(plain, listening, strict=True))


def test_every_kind_of_operation_is_told_in_order() -> None:
    one, two = Names(), Names()
    run(one, two)
    assert one.names == two.names and one.ended_after == len(one.names)
    told = {"argument", "constant", "load", "flip", "library log1p", "ranked", "fadd", "scan", "reduce", "branch",
            "library integer_power", "atomic", "store"}  # fmt: skip
    assert told <= set(one.names)
    assert one.names.index("load") < one.names.index("flip") < one.names.index("library log1p")


def test_a_listener_chooses_the_order_of_the_programs() -> None:
    seen = Backwards()
    run(seen)
    assert [i for p in seen.passes for i in p] == [3, 2, 1, 0]


def test_a_branch_that_is_undone_was_never_told() -> None:
    x = torch.linspace(-1, 1, 32)
    seen = Names()
    with Session("sm_80", builder=listened(seen)):
        zoo.selu_kernel[(1,)](x, torch.empty_like(x), 32)
    assert seen.names.count("whole") == 1
    assert seen.names.count("pick") == 4, "both operands on each side of the branch, none of the attempt with both"


def test_every_launch_counts_on_its_own_meter() -> None:
    before = METER.get().work
    first, second = (run()[1].launches[0].work for _ in range(2))
    assert first == second > 64 and METER.get().work == before


def test_listening_costs_no_lanes() -> None:
    assert run()[1].launches[0].work == run(Names())[1].launches[0].work
