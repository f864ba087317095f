"""Threads of host code see the device, launch kernels, and what they compute keeps its bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import render
from render.interpreter.cuda_redirect import cuda_on_cpu
from render.interpreter.session import Session


@triton.jit
def third(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, tl.load(x + i) * 0.1)


def run_third() -> torch.Tensor:
    x = torch.arange(1, 17, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    third[(1,)](x, out, 16)
    return out


class Own(threading.Thread):
    """A thread of a class that has its own `run`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self.work, self.result = work, None

    def run(self) -> None:
        self.result = self.work()


def by_target(work: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def by_class(work: Callable[[], Any]) -> Any:
    thread = Own(work)
    thread.start()
    thread.join()
    return thread.result


def by_pool(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(work).result()


WAYS = [by_target, by_class, by_pool]


@pytest.mark.parametrize("way", WAYS)
def test_a_thread_sees_the_device_and_launches(way: Callable[..., Any]) -> None:
    def work() -> tuple[Any, ...]:
        x = torch.ones(4).cuda()
        return x.device, torch.zeros(2, device="cuda").is_cuda, torch.cuda.is_available(), run_third()

    start = threading.Thread.start
    with render.no_gpu():
        where, told, there, out = way(work)
        nested = way(lambda: way(lambda: torch.empty(3, device="cuda").device))
    assert where == nested == torch.device("cuda", 0) and told and there
    torch.testing.assert_close(out, torch.arange(1, 17) * 0.1)
    assert threading.Thread.start is start


@pytest.mark.parametrize("way", WAYS)
def test_what_a_thread_computes_of_a_result_keeps_its_bounds(way: Callable[..., Any]) -> None:
    with Session(device="sm_80") as session:
        y = run_third()
        here, there = (y * 3 + 1).half(), way(lambda: (y * 3 + 1).half())
        z = way(run_third)
        found = [session.envelope(t) for t in (here, there, y, z)]
    for one in found:
        assert (one.hi > one.lo).any() and not one.taints
    assert (found[0].lo == found[1].lo).all() and (found[0].hi == found[1].hi).all()
    assert (found[2].lo == found[3].lo).all() and (found[2].hi == found[3].hi).all()


def test_many_threads_at_once() -> None:
    with Session(device="sm_80") as session, ThreadPoolExecutor(4) as pool:
        y = run_third()
        results = list(pool.map(lambda k: (y * k).sum() + run_third().sum(), range(24)))
        widths = [session.envelope(t) for t in results]
    assert all((w.hi > w.lo).all() and not w.taints for w in widths)


def test_a_thread_that_outlives_the_scope_is_plain_again() -> None:
    go, found = threading.Event(), []

    def work() -> None:
        go.wait(20)
        found.append(torch.ones(2).device)

    with Session(), render.no_gpu():
        thread = threading.Thread(target=work)
        thread.start()
    go.set()
    thread.join()
    assert found == [torch.device("cpu")]


def test_no_device_of_another_kind_is_counted() -> None:
    with cuda_on_cpu("xpu"):
        assert (torch.cuda.device_count(), torch.xpu.device_count(), torch.cuda.is_available()) == (0, 1, False)
    with cuda_on_cpu("gfx942"):
        assert (torch.cuda.device_count(), torch.xpu.device_count()) == (1, 0)
