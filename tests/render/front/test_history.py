"""The reference is computed by what the kernel chose: the choice is given, the rest is judged."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.front.watch import Watch
from tests.verdicts import DECIDED

N = 64


@triton.jit
def dropped(x, out, scale, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.where(tl.rand(seed, i) > 0.5, tl.load(x + i) * scale, 0.0))


@triton.jit
def largest(x, value, index, off, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * B + i)
    tl.store(index + row, tl.argmax(v, 0).to(tl.int64))
    tl.store(value + row, tl.max(v, 0) + off)


@triton.jit
def moments(p, m, B: tl.constexpr):
    i = tl.arange(0, B)
    new = tl.load(m + i) * 0.9 + tl.load(p + i) * 0.1
    tl.store(m + i, new)
    tl.store(p + i, tl.load(p + i) - new)


@pytest.mark.parametrize(("scale", "label"), [(2.0, "Type-I"), (1.9, "Type-II")])
@pytest.mark.parametrize("mask", [lambda y: y != 0, lambda y: ~(y == 0), lambda y: (y != 0).float() > 0.5])
def test_the_elements_that_a_dropout_kept(mask, scale, label):
    with Watch(DECIDED) as watch:
        x = torch.linspace(1, 2, N)
        out = torch.empty_like(x)
        dropped[(1,)](x, out, scale, 7, N)
        torch.allclose(out, torch.where(mask(out), x / 0.5, 0.0))
    assert [v.label for v in watch.verdicts] == [label]


@pytest.mark.parametrize(("off", "label"), [(0.0, "Type-I"), (0.25, "Type-II")])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_index_that_was_found(swapped, off, label):
    with Watch(DECIDED) as watch:
        x = torch.randn(5, N, generator=torch.Generator().manual_seed(1))
        value, index = torch.empty(5), torch.empty(5, dtype=torch.int64)
        largest[(5,)](x, value, index, off, N)
        pair = value, x.gather(1, index[:, None])[:, 0]
        torch.testing.assert_close(*(pair[::-1] if swapped else pair), rtol=1, atol=1)
    assert [v.label for v in watch.verdicts] == [label]


def test_what_rests_on_a_result_in_every_number_is_not_judged_by_it():
    """y against a function of y: no kernel is on one side alone."""
    with Watch(DECIDED) as watch:
        x = torch.linspace(1, 2, N)
        out = torch.empty_like(x)
        dropped[(1,)](x, out, 2.0, 7, N)
        torch.allclose(out, out * 2 / 2)
    assert watch.verdicts == []


def test_each_tensor_that_a_kernel_updates_is_compared_by_itself():
    with Watch(DECIDED) as watch:
        p, m = torch.linspace(1, 2, N), torch.linspace(0, 1, N)
        p0, m0 = p.clone(), m.clone()
        moments[(1,)](p, m, N)
        torch.testing.assert_close(m, m0 * 0.9 + p0 * 0.1)
        torch.testing.assert_close(p, p0 - (m0 * 0.9 + p0 * 0.1))
    assert [v.label for v in watch.verdicts] == ["Type-I"] * 2 and watch.tape.unseen == []
