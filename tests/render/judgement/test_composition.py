"""What is read off a run: the line to look at, and what no bound is asked of."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def doubled(X, Y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Y + i, 2 * tl.load(X + i, mask=i < n), mask=i < n)


def forgotten(x):
    o = torch.empty_like(x)
    doubled[(1,)](x, o, x.numel(), 64)
    return x


def forgotten_view(x):
    o = torch.empty_like(x)
    doubled[(1,)](x, o, x.numel(), 64)
    return x.reshape(6, 8)


@pytest.mark.parametrize("entry", [forgotten, forgotten_view])
def test_an_input_that_comes_back_is_exact_and_has_the_line_that_returns_it(entry):
    x = torch.randn(48, generator=torch.Generator().manual_seed(1))
    shape = (48,) if entry is forgotten else (6, 8)
    wrong = render.classify(entry, x, ref=lambda x: (2 * x).reshape(shape))
    assert (wrong.label, wrong.code) == ("Type-II", "RND201"), wrong
    lines, first = inspect.getsourcelines(entry)
    assert wrong.line == first + len(lines) - 1
    same = render.classify(entry, x, ref=lambda x: x.reshape(shape) * 1.0)
    assert (same.label, same.code) == ("Inconclusive", "RND310"), "what the kernel stored was read by nobody"


@triton.jit
def nothing_kernel(X, Y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Y + i, 2 * tl.load(X + i, mask=i < n), mask=(i < n) & (n < 0))


@pytest.mark.parametrize("given", [True, False])
def test_what_no_kernel_stored_is_no_result_of_one(given):
    """Whatever the tensor held before, and whether it was handed to the kernel or not."""

    def entry(x):
        made = x * 2
        nothing_kernel[(1,)](x, made if given else torch.empty_like(x), x.numel(), 64)
        return made

    v = render.classify(entry, torch.ones(48), ref=lambda x: x * 2)
    assert (v.label, v.code) == ("Type-II", "RND205"), v


@pytest.mark.parametrize(
    "read",
    [
        lambda y: torch.from_numpy(y.numpy() * 1.0),
        lambda y: torch.tensor(y.tolist()),
        lambda y: torch.stack([torch.tensor(v.item()) for v in y]),
        lambda y: torch.tensor([float(v) for v in y]),
        lambda y: copy.deepcopy(y),
        lambda y: pickle.loads(pickle.dumps(y)),
        lambda y: torch.frombuffer(bytearray(y.numpy().tobytes()), dtype=torch.float32),
    ],
)
def test_what_leaves_torch_and_comes_back_was_read(read):
    def entry(x):
        y = torch.empty_like(x)
        doubled[(1,)](x, y, x.numel(), 64)
        return read(y)

    v = render.classify(entry, torch.ones(8), ref=lambda x: x * 2)
    assert v.code not in ("RND205", "RND310"), v


def of_another_shape(x):
    o = torch.empty(40)
    doubled[(1,)](x, o, 40, 64)
    return o


def test_an_output_of_another_shape_has_the_line_of_its_allocation():
    x = torch.randn(48, generator=torch.Generator().manual_seed(1))
    v = render.classify(of_another_shape, x, ref=lambda x: 2 * x)
    assert (v.code, v.line) == ("RND205", inspect.getsourcelines(of_another_shape)[1] + 1), v


def summed_along_another_axis(x):
    o = torch.empty(6, 8)
    doubled[(1,)](x, o, 48, 64)
    half = o * 0.5
    return half.sum(1)


def test_an_output_of_another_shape_that_the_host_made_has_the_line_that_returns_it():
    v = render.classify(summed_along_another_axis, torch.randn(6, 8), ref=lambda x: x.sum(0))
    assert (v.code, v.line) == ("RND205", inspect.getsourcelines(summed_along_another_axis)[1] + 4), v


@triton.jit
def counted(X, C, Y, B: tl.constexpr, K: tl.constexpr):
    p = tl.program_id(0)
    tl.store(Y + p, tl.atomic_add(C, K * tl.sum(tl.load(X + p * B + tl.arange(0, B)), 0)))


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_sum_that_an_atomic_gives_back_accuses_nobody(factor):
    """It is that of any programs: no error of the kernel is measured by one order of them."""

    def entry(x):
        total, o = torch.zeros(1), torch.empty(4)
        counted[(4,)](x, total, o, 8, factor)
        return o

    x = torch.randn(32, generator=torch.Generator().manual_seed(1))
    v = render.classify(entry, x, ref=lambda x: x.reshape(4, 8).sum(1).cumsum(0) - x.reshape(4, 8).sum(1))
    assert (v.label, v.code) == ("Inconclusive", "RND302"), v
