"""Numbers that a function returns: bounded or tainted, whichever way they go to what it gives."""

from __future__ import annotations

import collections
import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.entry.execution import Entry
from render.entry.inputs import of_call
from tests.render.interpreter.hosted.test_confined import LEAVING, LO, VALUE, WAYS


@triton.jit
def copying(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i))


Pair = collections.namedtuple("Pair", "first second")


@dataclass
class Kept:
    first: float
    second: float = 2.0


RETURNED = {
    "as it is": lambda v: v, "named": lambda v: Pair(v, 2.0), "kept": lambda v: Kept(first=v).first * 1.7,
    "named and asked": lambda v: Pair(2.0, v).second * 1.7, "replaced": lambda v: Pair(v, 2.0)._replace(second=v * 1.7),
    "another one": lambda v: dataclasses.replace(Kept(1.5), first=v * 1.7).first, "computed": lambda v: -2 * v + 1,
    "as a dict": lambda v: Kept(v).__dict__, "counted": lambda v: [v, {"mean": v / 3}], "root": lambda v: math.sqrt(v),
    "tensor": lambda v: torch.tensor([v, v * 1.7])[1], "new": lambda v: torch.ones(1).new_tensor(v),
    "rounded tensor": lambda v: torch.tensor(v * 1.7, dtype=torch.float16), "complex": lambda v: complex(v, 2 * v),
    "numpy's": lambda v: np.float64(v) * 1.7, "array": lambda v: np.array([v * 1.7, v]),
    "of several": lambda v: abs(v) + max(v, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("leaving", ["float", "item"])
@pytest.mark.parametrize("way", [*RETURNED, *WAYS])
def test_what_is_returned_is_bounded_or_tainted(way, leaving):
    """And in bounds wherever Python's own numbers see what is made of them."""

    def run(x):
        out = torch.empty_like(x)
        copying[(1,)](x, out, 2)
        return (RETURNED | WAYS)[way](LEAVING[leaving](out))

    ends = [torch.tensor([end, 2.0]) for end in (LO, 2 * VALUE - LO)]  # whose middle no code writes
    given = of_call(run, (render.interval(*ends),), {})
    outputs = Entry(run, given).run().outputs
    at_ends = [Entry(run, of_call(run, (end,), {})).run().outputs for end in ends]
    for n, found in enumerate(outputs):
        values = [one[n].value for one in at_ends]
        room = 1e-3 * np.abs(values[0])
        inside = all((found.lo <= v + room).all() and (v <= found.hi + room).all() for v in values)
        assert found.taints or (found.tracked and inside) or np.array_equal(*values)
