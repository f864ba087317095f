"""Loops that launch the same again: what they leave is what they would have left, and it is not computed again."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import render
from render.front.tape import Tape
from render.front.watch import Watch
from render.interpreter.session import Session


@triton.jit
def doubled(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 2.0, mask=i < n)


@triton.jit
def added(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(Y + i, tl.load(X + i, mask=i < n), mask=i < n)


@triton.jit
def grown(X, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(X + i, tl.load(X + i, mask=i < n) + 1.0, mask=i < n)


@triton.jit
def divided(Y, c):
    tl.store(Y, 1.0 / c)


@triton.jit
def told(X, Y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_print("x", tl.sum(tl.load(X + i, mask=i < n, other=0.0), 0))
    tl.store(Y + i, tl.load(X + i, mask=i < n), mask=i < n)


@triton.jit
def described(X, Y, B: tl.constexpr):
    at = tl.program_id(0) * B
    Y.store([at, 0], X.load([at, 0]) * 2.0)


class Addressed:
    """An object of the user's that is a pointer."""

    def __init__(self, tensor):
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self):
        return self.tensor.data_ptr()


@pytest.fixture
def ran(monkeypatch):
    """Names of the kernels that were run."""
    names, plain = [], Session._launch

    def counted(self, kernel, *rest):
        names.append(kernel.fn.__name__)
        return plain(self, kernel, *rest)

    monkeypatch.setattr(Session, "_launch", counted)
    return names


def x():
    return torch.arange(100.0)


def test_into_the_same_tensor(ran):
    with render.watch(diagnose=False):
        a, y = x(), torch.empty(100)
        for _ in range(20):
            doubled[(4,)](a, y, 100, 32)
    assert torch.equal(y, 2 * a) and len(ran) == 2


def test_into_fresh_tensors_which_are_judged_as_ever(ran):
    with render.watch(diagnose=False) as watch:
        a = x()
        for _ in range(20):
            y = torch.empty_like(a)
            doubled[(4,)](a, y, 100, 32)
        many = len(ran)
        assert torch.allclose(y, a + a) and torch.equal(y, 2 * a)
    assert many == 2 and [c.verdict.label for c in watch.comparisons] == ["Type-I"] * 2


def test_through_descriptors(ran):
    with render.watch(diagnose=False) as watch:
        results = []
        for add in (0.0, 1.0, 1.0):
            a = x().view(50, 2).repeat(1, 4) + add
            for _ in range(5):
                y = torch.empty_like(a)
                described[(7,)](TensorDescriptor.from_tensor(a, [8, 8]), TensorDescriptor.from_tensor(y, [8, 8]), 8)
            results.append((y, a))
        many = len(ran)
        assert all(torch.equal(y, 2 * a) for y, a in results)
    assert many == 3 * 2 and [c.verdict.label for c in watch.comparisons] == ["Type-I"] * 3


def test_other_blocks_of_a_descriptor_are_another_launch(ran):
    with render.watch(diagnose=False):
        a, y = torch.ones(16, 8), torch.empty(16, 8)
        for _ in range(3):
            for block in (8, 16):
                one, two = (TensorDescriptor.from_tensor(t, [block, 8]) for t in (a, y))
                described[(1,)](one, two, block)
    assert len(ran) == 6


def test_objects_of_the_users_run_each_time(ran):
    with render.watch(diagnose=False):
        a, y = x(), torch.empty(100)
        for _ in range(4):
            doubled[(4,)](Addressed(a), Addressed(y), 100, 32)
    assert torch.equal(y, 2 * a) and len(ran) == 4


@pytest.mark.parametrize(("before", "after"), [(3, 0), (0, 3), (3, 3)])
def test_results_that_a_loop_made_again_were_compared_with_the_one_that_is(before, after):
    def f(a):
        y = torch.empty_like(a)
        doubled[(4,)](a, y, 100, 32)
        return y

    tape = Tape()
    with Watch(tape=tape):
        a = x()
        for _ in range(before):
            f(a)
        assert torch.equal(f(a), 2 * a)
        for _ in range(after):
            f(a)
        assert not tape.unseen
        f(a + 1)
        assert tape.unseen


def test_kept_results_are_apart():
    with render.watch(diagnose=False):
        a, kept = x(), []
        for _ in range(6):
            y = torch.empty_like(a)
            doubled[(4,)](a, y, 100, 32)
            kept.append(y)
        kept[4].zero_()
    assert all(torch.equal(y, 2 * a) for i, y in enumerate(kept) if i != 4) and not kept[4].any()


def test_what_reads_its_own_result_runs_each_time(ran):
    with render.watch(diagnose=False):
        a, y = torch.zeros(100), torch.zeros(100)
        for _ in range(5):
            grown[(4,)](a, 100, 32)
        for _ in range(5):
            added[(4,)](a, y, 100, 32)
    assert ran == ["grown"] * 5 + ["added"] * 5 and (a == 5).all() and (y == 25).all()


@pytest.mark.parametrize("how", ["torch", "numpy", "view", "output"])
def test_what_was_written_in_between_counts(how):
    with render.watch(diagnose=False):
        a, y = x(), torch.empty(100)
        array, part = a.numpy(), a[10:20]
        for turn in range(8):
            doubled[(4,)](a, y, 100, 32)
            if turn == 5:
                {"torch": lambda: a.add_(1), "numpy": lambda: array.__iadd__(1), "view": lambda: part.mul_(3),
                 "output": lambda: y.zero_()}[how]()  # fmt: skip
    assert torch.equal(y, 2 * a)


def test_other_arguments_are_another_launch(ran):
    with render.watch(diagnose=False):
        a, b = x(), x() + 1
        y, z = torch.zeros(100), torch.zeros(100)
        for n in (100, 100, 100, 50, 50, 50):
            doubled[(4,)](a, y, n, 32)
        for one in (a, b, a, b):
            doubled[(4,)](one, z, 100, 32)
    assert torch.equal(y, 2 * a) and torch.equal(z, 2 * b) and len(ran) == 8


def test_zeros_of_two_signs_are_two_arguments():
    with render.watch(diagnose=False):
        y, found = torch.zeros(1), []
        for c in (0.0, 0.0, 0.0, -0.0):
            divided[(1,)](y, c)
            found.append(float(y))
    assert found == [float("inf")] * 3 + [float("-inf")]


def test_a_kernel_that_prints_does_so_each_time(capsys):
    with render.watch(diagnose=False):
        a, y = x(), torch.empty(100)
        for _ in range(5):
            told[(1,)](a, y, 100, 128)
    assert capsys.readouterr().out.count("4950") == 5
