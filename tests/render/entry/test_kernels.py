"""References that launch kernels of their own: their values, E without roundings, R with those of the target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from oracle_zoo import oracle
from torch import nn

from render.classify import classify
from render.entry.kernels import ReferenceKernels
from render.ops.formulas import Refused
from render.reference.precise.evaluation import record
from render.result.errors import RenderError

N = 70


@triton.jit
def silu(X, Out, n, WAY: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(x) if WAY == 0 else x / (1 + tl.exp(-x)) if WAY == 1 else x * tl.sigmoid(x * 1.003)
    tl.store(Out + i, y, mask=i < n)


@triton.jit
def reading(X, Out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i + n, mask=i < n), mask=i < n)


def launch(x, way=1, block=32):
    out = torch.empty_like(x)
    silu[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), way, block)
    return out


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return launch(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class _Module(nn.Module):
    def forward(self, x):
        return launch(x)


def no_grad(x):
    with torch.no_grad():
        return launch(x)


def halves(x):
    if x.numel() < N:
        return launch(x)
    return torch.cat([halves(x[: N // 2].clone()), halves(x[N // 2 :].clone())])


def between(x):
    return torch.mul(launch(x * 2.0 / 2.0), 1.0)


REFERENCES = {"kernel": launch, "no_grad": no_grad, "recursive": halves, "autograd": _Function.apply,
              "module": _Module(), "between": between, "wide": lambda x: launch(x.double()).to(x.dtype)}  # fmt: skip


def given(dtype=torch.float32):
    return torch.randn(N, generator=torch.Generator().manual_seed(3)).to(dtype)


@pytest.mark.parametrize("ref", REFERENCES.values(), ids=REFERENCES)
def test_kernels_against_kernels(ref):
    assert classify(lambda x: launch(x, 0), given(), ref=ref, budget=False).label == "Type-I"
    wrong = classify(lambda x: launch(x, 2), given(), ref=ref, budget=False)
    assert (wrong.label, wrong.code) == ("Type-II", "RND201")


def test_the_same_kernel_in_other_blocks_is_equal():
    found = classify(lambda x: launch(x, 1), given(torch.float16), ref=lambda x: launch(x, 1, 16), budget=False)
    assert (found.label, found.code) == ("Type-I", "RND100")


def test_e_has_no_rounding_of_the_kernel_and_r_has_all():
    x = given(torch.bfloat16)
    with ReferenceKernels("any"):
        known = replace(oracle(launch, x), launches="any")
    exact = known.exact()
    true = torch.nn.functional.silu(x.double()).numpy()
    assert not exact.widened and np.allclose(exact.values[0], true, rtol=1e-12)
    assert (exact.lo[0] <= true).all() and (true <= exact.hi[0]).all()
    (radius,) = known.radius(exact)
    native = known.native[0][1].double().numpy()
    assert (np.abs(native - true) <= radius + 1e-15).all() and (radius < 2.0**-7 * np.abs(true) + 2.0**-130).all()


def test_more_bits_are_refused_by_name():
    with ReferenceKernels("any"):
        known = replace(oracle(launch, given()), launches="any")
    with pytest.raises(Refused, match="launches a kernel"):
        record(known, False)


def test_a_reference_that_reads_what_is_not_its_own_is_told():
    def ref(x):
        out = torch.empty_like(x)
        reading[(1,)](x, out, N, 128)
        return out

    with pytest.raises(RenderError, match="the reference"):
        classify(launch, given(), ref=ref)
