"""What kernels did with the memory of a tensor, as launches and the host read and store it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from memory_driver import Driver

import render
from render.interpreter.memory import Use


def after(*steps: str) -> Use:
    """Each step in a launch of its own, but for the host's."""
    d, x = Driver(), torch.zeros(8)
    index = np.arange(4)[None]
    for step in steps:
        if step == "host":
            d.memory.read_by_host(x)
            continue
        with d:
            d.memory.register(x, "X")
            if "load" in step:
                d.load(x, index)
            if "store" in step:
                d.store(x, index, np.ones((1, 4)))
            if step == "without lanes":
                d.store(x, index, np.ones((1, 4)), mask=np.zeros((1, 4), bool))
    return d.memory.use_of(x)


@pytest.mark.parametrize(
    ("steps", "use"),
    [
        (("without lanes",), Use.IDLE), (("store", "host", "without lanes"), Use.PASSED_ON),
        ((), Use.NONE), (("given",), Use.IDLE), (("load",), Use.READ), (("given", "load"), Use.READ),
        (("host",), Use.NONE), (("given", "host"), Use.READ), (("store",), Use.STORED), (("load", "store"), Use.STORED),
        (("store", "load"), Use.PASSED_ON), (("store", "host"), Use.PASSED_ON), (("host", "given", "host"), Use.READ),
        (("store", "load", "store"), Use.STORED), (("store", "host", "store", "host"), Use.PASSED_ON),
        (("store", "host", "store"), Use.STORED), (("store", "given"), Use.STORED), (("host", "store"), Use.STORED),
    ],
)  # fmt: skip
def test_uses(steps: tuple[str, ...], use: Use) -> None:
    assert after(*steps) is use


def test_a_tensor_that_nobody_was_given_has_no_use() -> None:
    d = Driver()
    assert d.memory.use_of(torch.zeros(3)) is Use.NONE and d.memory.use_of(torch.zeros(0)) is Use.NONE
    d.memory.read_by_host(torch.zeros(0))


@triton.jit
def scaled(X, Out, F, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i) * F)


@pytest.mark.parametrize("read", [(), ("before",), ("after",), ("before", "after")], ids=str)
def test_what_is_stored_last_is_unread_until_somebody_reads_it(read: tuple[str, ...]) -> None:
    """That the host read what stood there before excuses nothing."""

    def entry(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        out, total = torch.empty_like(x), torch.zeros(())
        scaled[(1,)](x, other, 2.0, 16)
        if "before" in read:
            total = total + other.sum()
        scaled[(1,)](x, other, 3.0, 16)
        if "after" in read:
            total = total + other.sum()
        scaled[(1,)](x, out, 2.0, 16)
        return out + 0 * total

    def ref(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return 2 * x

    verdict = render.classify(entry, torch.linspace(0.1, 1, 16), torch.zeros(16), ref=ref, device="any")
    assert (verdict.label == "Inconclusive") is ("after" not in read), verdict
