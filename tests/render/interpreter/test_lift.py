"""Kernels one format wider: against the same formula computed by torch in the wider dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.lift import lifted_session, wide_values
from render.interpreter.session import Session
from render.interpreter.types import LIFTED, carrier, format_of, lifted_formats


@triton.jit
def chain_kernel(x_ptr, y_ptr, t_ptr, out_ptr, n, s, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = o < n
    x = tl.load(x_ptr + o, mask=mask, other=0.1)
    y = tl.load(y_ptr + o, mask=mask, other=0.0)
    z = (x.to(tl.float32) * s + y).to(tl.bfloat16)
    tl.store(t_ptr + o, z.to(tl.float16), mask=mask)
    again = tl.load(t_ptr + o, mask=mask, other=0.0)
    tl.atomic_add(out_ptr + o, again * 0.5, mask=mask)
    tl.atomic_add(out_ptr + o, again, mask=mask)


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + k + i[None, :])
        b = tl.load(b_ptr + (k + i[:, None]) * BLOCK + i[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def bits_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i) * 0.3
    tl.store(out_ptr + i, x.to(tl.int16, bitcast=True))


def test_steps():
    names = {"fp8e5": "fp16", "fp8e4nv": "fp16", "fp16": "fp32", "bf16": "fp32", "fp32": "fp64", "fp64": "fp64"}
    assert {n: LIFTED[n].name for n in names} == names
    assert LIFTED["e8m0"].name == "e8m0"
    with lifted_formats():
        assert format_of(tl.float16).name == "fp32" and carrier(tl.float32) == np.float64
    assert format_of(tl.float16).name == "fp16" and carrier(tl.float32) == np.float32


def test_loads_casts_stores_and_atomics():
    """fp16 and bf16 steps round to fp32 only; the stores and atomics in between lose nothing either."""
    torch.manual_seed(0)
    x, y = torch.randn(100).half(), torch.randn(100).half()
    with lifted_session() as session:
        t, out = torch.empty(100).half(), torch.zeros(100).half()
        chain_kernel[(4,)](x, y, t, out, 100, 0.1, BLOCK=32)
        wide, middle = wide_values(session, out), wide_values(session, t)
    exact = x.double() * 0.1 + y.double()
    assert np.abs(middle - exact.numpy()).max() <= 4 * 2.0**-24
    assert np.abs(wide - 1.5 * exact.numpy()).max() <= 12 * 2.0**-24
    assert np.abs(out.double().numpy() - 1.5 * exact.numpy()).max() > 2.0**-13  # the bytes are fp16 all the same


@pytest.mark.parametrize(
    ("dtype", "u"), [(torch.float8_e5m2, 2.0**-11), (torch.float16, 2.0**-24), (torch.float32, 2.0**-50)]
)
def test_dot(dtype, u):
    torch.manual_seed(1)
    a, b = torch.randn(32, 64).to(dtype), torch.randn(64, 32).to(dtype)
    with lifted_session("sm_80") as session:
        c = torch.empty(32, 32, dtype=dtype)
        dot_kernel[(1,)](a, b, c, K=64, BLOCK=32)
        wide = wide_values(session, c)
    exact = a.double() @ b.double()
    size = a.double().abs() @ b.double().abs()
    assert bool((torch.from_numpy(wide) - exact).abs().le(u * size + 1e-30).all())


def test_bits_are_those_of_the_own_type():
    x = torch.randn(16, generator=torch.Generator().manual_seed(2)).half()
    with lifted_session() as session:
        out = torch.empty(16, dtype=torch.int16)
        bits_kernel[(1,)](x, out, N=16)
        assert session.taints == {}
    want = (x.float().double() * 0.3).float().half().view(torch.int16)
    assert torch.equal(out, want)


def test_reads_outside_are_zero():
    @triton.jit
    def copy_kernel(x_ptr, out_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out_ptr + i, tl.load(x_ptr + i) + 1.0)

    with lifted_session() as session:
        out = torch.empty(8)
        copy_kernel[(1,)](torch.full((4,), 2.0), out, N=8)
        wide = wide_values(session, out)
    assert wide.tolist() == [3.0] * 4 + [1.0] * 4
    assert session.findings[0].code == "RND207"


def test_an_ordinary_session_afterwards_is_not_lifted():
    x = torch.full((32,), 0.1).half()
    with Session() as session:
        t, out = torch.empty(32).half(), torch.zeros(32).half()
        chain_kernel[(1,)](x, x, t, out, 32, 0.1, BLOCK=32)
        found = session.envelope(t)
    assert (found.hi > found.lo).all()
