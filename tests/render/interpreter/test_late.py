"""Vendor modules are ours for every kernel that can reach one, by whatever way, and are left alone by the others."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from render.interpreter.late import Late
from render.interpreter.session import Session

held = SimpleNamespace(functions=SimpleNamespace(vendor=libdevice))
listed = [libdevice]


@triton.jit
def by_alias(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, libdevice.log1p(tl.load(X + i)))


@triton.jit
def by_path(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, tl.extra.libdevice.log1p(tl.load(X + i)))


@triton.jit
def by_whole_path(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, triton.language.extra.cuda.libdevice.log1p(tl.load(X + i)))


@triton.jit
def by_object(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, held.functions.vendor.log1p(tl.load(X + i)))


@triton.jit
def by_list(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, listed[0].log1p(tl.load(X + i)))


@triton.jit
def helper(x):
    return libdevice.log1p(x)


@triton.jit
def by_helper(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, helper(tl.load(X + i)))


@triton.jit
def by_argument(X, Out, B: tl.constexpr, VENDOR: tl.constexpr = held):
    i = tl.arange(0, B)
    tl.store(Out + i, VENDOR.functions.vendor.log1p(tl.load(X + i)))


@triton.jit
def plain(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, tl.log(1.0 + tl.load(X + i)))


def installed(kernel: object, monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Tensor, list[object]]:
    found: list[object] = []
    install = Late._install
    monkeypatch.setattr(Late, "_install", lambda self, module: found.append(self) or install(self, module))
    x, out = torch.linspace(0.0, 1.0, 8), torch.empty(8)
    before = libdevice.log1p
    with Session("any") as session:
        kernel[(1,)](x, out, 8)
        assert libdevice.log1p is before
    bound = session.envelope(out)
    exact = np.array([math.log1p(v) for v in x.tolist()])
    assert (bound.lo <= exact).all() and (exact <= bound.hi).all()
    return out, [late for late in found if not late._missing & late._patches.vendor]


@pytest.mark.parametrize(
    "kernel",
    [by_alias, by_path, by_whole_path, by_object, by_list, by_helper, by_argument],
    ids=lambda k: k.fn.__name__,
)
def test_every_way_to_a_module_is_seen(kernel, monkeypatch):
    _, done = installed(kernel, monkeypatch)
    assert done


def test_a_kernel_that_reaches_none_leaves_them_alone(monkeypatch):
    _, done = installed(plain, monkeypatch)
    assert not done
