"""Provenance: the program, the line and the elements that an element of a formula must depend on."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render
from tests.kernels.bugs import KERNELS

B = 16


@triton.jit
def transposed_sum(A, V, Out, n, m, B: tl.constexpr):
    """Out[j] = sum_i A[i, j] + V[j // 2]"""
    j = tl.program_id(0) * B + tl.arange(0, B)
    i = tl.arange(0, B)
    a = tl.load(A + i[:, None] * m + j[None, :], mask=(i[:, None] < n) & (j[None, :] < m), other=0.0)
    s = tl.sum(a, axis=0) + tl.load(V + j // 2, mask=j < m, other=0.0)
    tl.store(Out + j, s, mask=j < m)


def columns(a, v):
    out = torch.empty(a.shape[1])
    transposed_sum[(triton.cdiv(a.shape[1], B),)](a, v, out, a.shape[0], a.shape[1], B)
    return out


def reference(a, v):
    return a.sum(0) + v.repeat_interleave(2)[: a.shape[1]]


@triton.jit
def choosing(X, Y, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    both = tl.join(x, tl.load(Y + (N - 1 - i)))
    left, right = tl.split(both)
    tl.store(Out + i, tl.where(x > 0, left, tl.cumsum(right)))


def chosen(x, y):
    out = torch.empty_like(x)
    choosing[(1,)](x, y, out, 8)
    return out


def sources(found):
    return {s.tensor: s for s in found.sources}


def test_a_column_and_its_offset():
    v = render.classify(columns, torch.rand(3, 40), torch.rand(20), ref=reference)
    assert v.label == "Type-I"
    found = v.provenance("out", (37,))
    assert (found.kernel, found.program) == ("transposed_sum", (2, 0, 0))
    assert found.line == transposed_sum.fn.__code__.co_firstlineno + 7
    got = sources(found)
    assert got["A"].indices == ((0, 37), (1, 37), (2, 37))
    assert got["V"].indices == ((18,),)
    assert "from A: 3 elements [0, 37]" in str(found)


def test_select_join_split_and_scan():
    x = torch.tensor([1.0, -1, 1, -1, 1, -1, 1, -1])
    y = torch.arange(8.0)
    want = torch.where(x > 0, x, y.flip(0).cumsum(0))
    v = render.classify(chosen, x, y, ref=lambda x, y: want.to(x.dtype))
    taken, summed = v.provenance("out", (2,)), v.provenance("out", (3,))
    assert sources(taken).keys() == {"X"}
    assert sources(taken)["X"].indices == ((2,),)
    assert sources(summed).keys() == {"Y"}
    assert sources(summed)["Y"].indices == ((4,), (5,), (6,), (7,))


def test_a_packaged_matmul_reads_a_row_and_a_column():
    from render.classify import classify_file

    v = classify_file(KERNELS / "matmul.py", budget=False)
    found = v.provenance("c", (149, 3))
    got = sources(found)
    a, b = (next(s for name, s in got.items() if name.startswith(letter)) for letter in "ab")
    assert (a.count, b.count) == (72, 72)
    assert a.indices[:2] == ((149, 0), (149, 1))
    assert b.indices[:2] == ((0, 3), (1, 3))


def test_what_cannot_be_asked():
    v = render.classify(columns, torch.rand(3, 40), torch.rand(20), ref=reference)
    with pytest.raises(render.RenderError, match="no output 'c'"):
        v.provenance("c", (0,))
    with pytest.raises(render.RenderError, match="has shape"):
        v.provenance("out", (40,))


@triton.jit
def row_means(X, Mean, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    tl.store(Mean + tl.program_id(0), tl.sum(x) / n)


@triton.jit
def off_the_mean(X, Mean, Out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n)
    tl.store(Out + tl.program_id(0) * n + i, x - tl.load(Mean + tl.program_id(0)), mask=i < n)


def centred(x):
    mean, out = torch.empty(x.shape[0]), torch.empty_like(x)
    row_means[(x.shape[0],)](x, mean, x.shape[1], 16)
    off_the_mean[(x.shape[0],)](x, mean, out, x.shape[1], 16)
    return out


def test_an_intermediate_and_the_launch_that_made_it():
    v = render.classify(centred, torch.rand(5, 12), ref=lambda x: x - x.mean(1, keepdim=True))
    found = v.provenance("out", (3, 7))
    by = sources(found)
    assert by["X"].makers == ()
    assert by["Mean"].indices == ((3,),)
    (maker,) = by["Mean"].makers
    assert (maker.launch, maker.kernel, maker.programs) == (0, "row_means", (3,))
    assert maker.line == row_means.fn.__code__.co_firstlineno + 4
    assert "stored by program 3 of row_means (launch 0)" in str(found)
