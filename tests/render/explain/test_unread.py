"""Which elements of the inputs a wrong element is computed without, where that is certain."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import render
from render.classify import classify_file
from tests.kernels.bugs import BUGS


def departure(name, folder):
    bug = next(b for b in BUGS if str(b) == name)
    return classify_file(str(bug.write(folder)), device="any", budget=False, explain=["divergence"]).divergence


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("matmul-last_k", r"a[94, 71] (1 of 72 elements)"),
        ("matmul-advance", r"b[32..71, 116] (40 of 72 elements)"),
        ("matmul_bf16-last_k", r"x[32, 103] (1 of 104 elements) and w[20, 103] (1 of 104 elements)"),
        ("fused_softmax-last_column", r"x[26, 170] (1 of 171 elements)"),
        ("block_pointer_matmul-last_k", r"a[33, 54] (1 of 55 elements)"),
    ],
)
def test_missing_reads_are_named(name, missing, tmp_path):
    found = departure(name, tmp_path)
    assert missing in found.unread and found.unread in found.sentence


@pytest.mark.parametrize("name", ["vector_add-sign", "layer_norm-divisor", "matmul_split_k-k_block"])
def test_where_all_is_read_or_it_is_not_known_nothing_is_said(name, tmp_path):
    assert departure(name, tmp_path).unread == ""


@triton.jit
def adding(X, Y, Out, N: tl.constexpr, LESS: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.sum(tl.load(X + i, mask=i < N - LESS, other=0.0), 0)
    tl.store(Out, x + tl.sum(tl.load(Y + i), 0))


def added(x, y):
    out = torch.empty(1)
    adding[(1,)](x, y, out, x.numel(), 3)
    return out


def test_inputs_that_hold_the_same_numbers_are_not_told_apart():
    x = torch.rand(32)
    found = [
        render.classify(added, x, y, ref=lambda x, y: (x.sum() + y.sum()).reshape(1), budget=False,
                        explain=["divergence"]).divergence.unread
        for y in (torch.rand(32), x.clone())
    ]  # fmt: skip
    assert "x[29..31] (3 of 32 elements)" in found[0] and found[1] == ""


def test_a_reference_without_derivatives_says_nothing():
    def reference(x, y):
        return torch.from_numpy((x.detach().numpy().sum() + y.detach().numpy().sum()).reshape(1))

    found = render.classify(added, torch.rand(32), torch.rand(32), ref=reference, budget=False, explain=["divergence"])
    assert found.divergence is None or found.divergence.unread == ""


def test_a_reference_with_derivatives_of_its_own_does_not_warn(recwarn):
    """`x.grad` of what is no leaf once derivatives are asked of the inputs."""

    def reference(x, y):
        x = x.float().requires_grad_() if not x.requires_grad else x * 1.0
        torch.square(x + y).sum().backward()
        return x.grad.sum().reshape(1)

    render.classify(added, torch.rand(32), torch.rand(32), ref=reference, budget=False, explain=["divergence"])
    assert not [str(w.message) for w in recwarn if "grad attribute" in str(w.message)]


@triton.jit
def scaled(X, U, Out, N: tl.constexpr, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    u = tl.load(U + i)
    if WHAT == "flip":
        r = x + tl.flip(x)
    elif WHAT == "sort":
        r = x + tl.sort(u)
    elif WHAT == "merge":
        r = x + tl.bitonic_merge(u)
    elif WHAT == "tanh":
        r = x + libdevice.tanh(u)
    elif WHAT == "fmod":
        r = libdevice.fmod(x, u)
    elif WHAT == "scan":
        r = tl.cumsum(tl.flip(x), 0)
    elif WHAT == "where":
        r = tl.where(x > 0, u, -u)
    else:
        r = tl.map_elementwise(_clipped, x)
    tl.store(Out + i, r * 1.5)


@triton.jit
def _clipped(a):
    if a > 0.5:
        return a * 2
    else:
        return a


@pytest.mark.parametrize("what", ["flip", "sort", "merge", "tanh", "fmod", "scan", "where", "map"])
def test_what_is_read_behind_any_operation_is_not_missing(what):
    def run(x, u):
        out = torch.empty_like(x)
        scaled[(1,)](x, u, out, x.numel(), what)
        return out

    references = {
        "flip": lambda x, u: x + x.flip(0), "sort": lambda x, u: x + u.sort().values, "tanh": lambda x, u: x + u,
        "merge": lambda x, u: x + u.sum(), "scan": lambda x, u: x.flip(0).cumsum(0), "fmod": lambda x, u: x + u,
        "where": lambda x, u: x * u,
    }  # fmt: skip
    reference = references.get(what, lambda x, u: x + 1)
    generator = torch.Generator().manual_seed(1)
    x, u = (torch.randn(16, generator=generator) for _ in "xu")
    found = render.classify(run, x, u, ref=reference, budget=False, explain=["divergence"])
    assert found.code == "RND201" and found.divergence.unread == ""
