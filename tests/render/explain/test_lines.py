"""Growth of the bound per line, against widths that are known."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def growing(X, Y, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    y = tl.load(Y + i)
    p = x * y
    q = p.to(tl.float16).to(tl.float32)
    d = q - x
    tl.store(Out + i, d)


def grow(x, y):
    out = torch.empty_like(x)
    growing[(1,)](x, y, out, 256)
    return out


@triton.jit
def chain(X, Y, Out, K: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    acc = tl.zeros((N, N), tl.float32)
    for k in range(0, K, N):
        x = tl.load(X + i[:, None] * K + k + i[None, :])
        y = tl.load(Y + (k + i[:, None]) * N + i[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(Out + i[:, None] * N + i[None, :], acc)


def product(x, y):
    out = torch.empty(16, 16)
    chain[(1,)](x, y, out, 64, 16)
    return out


def table(verdict, kernel):
    source, start = inspect.getsourcelines(kernel.fn)
    text = {start + i: line.strip() for i, line in enumerate(source)}
    return {text[w.line]: w for w in verdict.lines}


def test_each_line_has_its_own_width():
    torch.manual_seed(0)
    x, y = torch.rand(256) + 1, 1 + torch.rand(256) / 64
    v = render.classify(grow, x, y, ref=lambda x, y: x * y - x, explain="lines")
    rows = table(v, growing)
    assert rows["x = tl.load(X + i)"].relative == 0.0
    assert 2.0**-28 < rows["p = x * y"].relative < 2.0**-22  # one rounding of float32
    cast = rows["q = p.to(tl.float16).to(tl.float32)"]
    assert 2.0**-13 < cast.relative < 2.0**-10  # one rounding of float16
    cancelled = rows["d = q - x"]
    assert cancelled.op == "fsub"
    assert cancelled.relative > 30 * cancelled.operands  # x (y - 1): 1/64 and less of x is left
    assert cancelled.operands == pytest.approx(cast.relative, rel=0.5)
    assert v.label == "Type-I"


def test_recording_does_not_end_a_chain_of_dots():
    torch.manual_seed(0)
    x, y = torch.rand(16, 64), torch.rand(64, 16)
    plain = render.classify(product, x, y, ref=torch.mm)
    v = render.classify(product, x, y, ref=torch.mm, explain="lines")
    dot = table(v, chain)["acc = tl.dot(x, y, acc)"]
    assert dot.relative == pytest.approx(plain.outputs[0].bound.median_relative_width, rel=1e-6)


def test_only_on_request():
    assert render.classify(grow, *torch.rand(2, 256), ref=lambda x, y: x * y - x).lines == ()
