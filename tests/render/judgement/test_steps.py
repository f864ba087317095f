"""A verdict depends on what is judged alone: not on what ran before in the process, nor on how fast the machine is."""

from __future__ import annotations

import gc
import hashlib
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Execution, on_cpu
from render.entry.inputs import from_mapping
from render.entry.resolve import resolve
from render.judgement.composition import Judged
from render.judgement.steps import Judgement
from render.result.options import Options
from render.result.verdict import Verdict
from tests.support import rng


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((32, 1), (64, 2))], key=["n"])
@triton.jit
def sum_kernel(X, Out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(Out, tl.sum(tl.exp(tl.load(X + i, mask=i < n, other=-float("inf")))))


@triton.jit
def row_kernel(X, Out, n, FORM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(X + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    mean = tl.sum(x) / n
    if FORM == "cancels":
        y = tl.sum(x * x) / n - mean * mean
    elif FORM == "draws":
        y = tl.sum(x * tl.rand(7, row * n + i))
    else:
        y = tl.sum(tl.where(i < n, (x - mean) * (x - mean), 0.0)) / n
    tl.store(Out + row, y)


@triton.jit
def dot_kernel(A, B, C, SCALE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(C + at, tl.dot(tl.load(A + at), tl.load(B + at)) * SCALE)


def total(x):
    out = torch.zeros(1)
    sum_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def rows(form: str, half: bool = False) -> Callable[[Any], Any]:
    def launch(x):
        out = torch.empty(x.shape[0])
        row_kernel[(x.shape[0],)](x.half() if half else x, out, x.shape[1], form, 64)
        return out.log1p() if half else out

    return launch


def product(scale: float) -> Callable[[Any, Any], Any]:
    def launch(a, b):
        out = torch.empty(16, 16)
        dot_kernel[(1,)](a, b, out, scale, 16)
        return out

    return launch


def variance(x):
    return x.var(-1, unbiased=False)


Case = tuple[Callable[..., Any], Callable[..., Any], Callable[[], Any]]
CASES: dict[str, Case] = {
    "sum": (total, lambda x: x.exp().sum().reshape(1), lambda: (torch.randn(100),)),
    "sound variance": (rows("two passes"), variance, lambda: (torch.randn(3, 50) + 3,)),
    "unstable variance": (rows("cancels"), variance, lambda: (torch.randn(3, 50) + 3e3,)),
    "narrow variance": (rows("two passes", True), lambda x: variance(x).log1p(), lambda: (torch.randn(3, 50),)),
    "random weights": (rows("draws"), lambda x: x.sum(-1) / 2, lambda: (torch.randn(3, 50),)),
    "product": (product(1.0), torch.matmul, lambda: (torch.randn(16, 16), torch.randn(16, 16))),
    "half product": (product(1.0), torch.matmul, lambda: (torch.randn(16, 16).half(), torch.randn(16, 16).half())),
    "scaled product": (product(1.01), torch.matmul, lambda: (torch.randn(16, 16), torch.randn(16, 16))),
}  # fmt: skip


class Kept(Judgement):
    """With a digest of every value and bound."""

    digest = ""

    def _cases(self, run: Execution) -> tuple[Execution, list[Judged], list[str]]:
        found = super()._cases(run)
        parts = [np.ascontiguousarray(x).tobytes() for j in found[1] for x in (j.case.value, j.case.lo, j.case.hi)]
        self.digest = hashlib.sha256(b"".join(parts)).hexdigest()
        return found


def judged(name: str, device: str = "any") -> tuple[str, str, str | None, int | None, str, str]:
    fn, reference, inputs = CASES[name]
    with on_cpu():
        torch.manual_seed(0)
        given = from_mapping(fn, inputs())
    judgement = Kept(fn, given, resolve(reference), None, Options(device=device))
    found: Verdict = judgement.verdict()
    places = [(o.low, o.high, o.got, o.ref, o.worst_index, o.worst_usage) for o in found.outputs]
    return found.label, found.code, found.file, found.line, judgement.digest, repr(places)


def test_the_cases_differ() -> None:
    found = {name: judged(name)[:2] for name in CASES}
    assert {label for label, _ in found.values()} == {"Type-I", "Type-II"}
    assert found["unstable variance"] == ("Type-II", "RND206"), found


@pytest.mark.parametrize("rounds", [pytest.param(3, marks=pytest.mark.slow), 1])
def test_what_ran_before_changes_nothing(rounds: int) -> None:
    """Random orders, other devices in between, garbage left lying about or collected: equal in every bit."""
    order = random.Random(int(rng(20).integers(2**31)))
    known: dict[tuple[str, str], Any] = {}
    litter = []
    for _ in range(max(rounds, 2)):
        turn = [(name, device) for name in CASES for device in (("any", "sm_80") if rounds > 1 else ("any",))]
        order.shuffle(turn)
        for key in turn:
            if order.random() < 0.3:
                gc.collect()
            litter.append(torch.randn(order.randrange(1, 300)))  # moves what is allocated next
            del litter[: order.randrange(3)]
            torch.manual_seed(order.randrange(100))
            found = judged(*key)
            assert known.setdefault(key, found) == found, key


@pytest.mark.parametrize("name", ["unstable variance", "narrow variance", "scaled product"])
def test_a_slow_machine_gives_the_same_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at a clock finds that an hour has gone by."""
    expected = judged(name)
    hours = iter(range(0, 10**9, 3600))
    for clock in ("perf_counter", "process_time", "monotonic", "time"):
        monkeypatch.setattr(time, clock, lambda: float(next(hours)))
    assert judged(name) == expected
