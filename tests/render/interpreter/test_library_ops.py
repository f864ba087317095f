"""Operators that libraries register with torch: custom_op, triton_op, Library.impl; compiled code around kernels."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch.library import Library, custom_op, triton_op, wrap_triton

import render
from render.interpreter.session import Session

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
_counter = itertools.count()


@triton.jit
def scale(out, x, n, factor, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def launch(x, kernel=scale):
    out = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    assert x.is_cuda and out.device == x.device
    kernel[(triton.cdiv(x.numel(), 16),)](out, x, x.numel(), 2.5, B=16)
    return out + 1


def by_custom_op(**options):
    return custom_op(f"rendertest::op{next(_counter)}", mutates_args=(), **options)(_typed)


def _typed(x: torch.Tensor) -> torch.Tensor:
    return launch(x)


def by_triton_op():
    def body(x: torch.Tensor) -> torch.Tensor:
        return launch(x, wrap_triton(scale))

    return triton_op(f"rendertest::op{next(_counter)}", mutates_args={})(body)


_libraries = []


def by_library(key):
    name = f"op{next(_counter)}"
    library = Library("rendertest", "FRAGMENT")
    _libraries.append(library)
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, launch, key)
    if key == "CUDA":
        library.impl(name, lambda x: torch.full_like(x, float("nan")), "CPU")
    return getattr(torch.ops.rendertest, name)


def by_gradient():
    op = by_custom_op(device_types="cuda")

    def backward(ctx, grad):
        return op(grad.contiguous()) - 1

    op.register_autograd(backward)

    def run(x):
        x = x.clone().requires_grad_()
        op(x).sum().backward()
        return x.grad + (2.5 * x.detach() - 1.5)

    return run


MAKERS = {
    "custom_op": by_custom_op,
    "custom_op for cuda": lambda: by_custom_op(device_types="cuda"),
    "triton_op": by_triton_op,
    "Library, cuda beside cpu": lambda: by_library("CUDA"),
    "Library, composite": lambda: by_library("CompositeExplicitAutograd"),
    "Library, implicit": lambda: by_library("CompositeImplicitAutograd"),
    "gradient": by_gradient,
    "wrap_triton": lambda: lambda x: launch(x, wrap_triton(scale)),
    "compiled": lambda: torch.compile(launch),
    "compiled around": lambda: torch.compile(lambda x: launch(x), fullgraph=True, dynamic=False),
    "partial": lambda: functools.partial(launch, kernel=scale),
    "partial of the kernel": lambda: lambda x: launch(x, _Partial()),
}


class _Partial:
    def __getitem__(self, grid):
        return functools.partial(scale[grid])


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_registered_is_interpreted(name, inside):
    x = torch.arange(40.0) / 7
    op = None if inside else MAKERS[name]()
    with Session() as session:
        found = (op or MAKERS[name]())(x)
        bound = session.envelope(found)
    assert torch.equal(found, 2.5 * x + 1)
    assert session.launches
    exact = 2.5 * x.double().numpy() + 1
    assert (bound.lo <= exact).all() and (exact <= bound.hi).all()
    assert (bound.hi - bound.lo > 0).any() and np.isfinite(bound.hi).all() and not bound.taints


@pytest.mark.parametrize("name", MAKERS)
def test_it_runs_without_a_gpu(name):
    with render.no_gpu():
        x = torch.arange(40.0, device="cuda")
        assert torch.equal(MAKERS[name]()(x), 2.5 * x + 1)


def test_an_operator_that_writes_its_argument():
    @custom_op(f"rendertest::op{next(_counter)}", mutates_args=("out",), device_types="cuda")
    def fill(out: torch.Tensor, x: torch.Tensor) -> None:
        scale[(1,)](out, x, 8, 0.1, B=8)

    out, x = torch.zeros(8), torch.arange(8.0)
    with Session() as session:
        fill(out, x)
        bound = session.envelope(out)
    assert (bound.hi > bound.lo).any() and torch.allclose(out, 0.1 * x)


def test_kernels_without_a_file():
    namespace = {}
    import linecache

    source = "import triton, triton.language as tl\ndef kernel(out, B: tl.constexpr):\n    tl.store(out, B)\n"
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(True), "<cell>")
    exec(compile(source, "<cell>", "exec"), namespace)
    kernel = triton.runtime.JITFunction(namespace["kernel"])
    noinline = triton.jit(namespace["kernel"], noinline=True, do_not_specialize=["out"], repr=lambda s: "name")
    for made in (kernel, noinline):
        out = torch.zeros(1)
        with Session():
            made[(1,)](out, B=4)
        assert out.item() == 4
